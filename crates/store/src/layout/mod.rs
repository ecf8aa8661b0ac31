//! On-disk layout of a store: flat shards, table files, `zarr.json`, paths. Pure, no I/O.
//!
//! Specification: `docs/design/store_layout.md` and the pages it links to.

pub mod flat;
pub mod mark;
pub mod shard;
pub mod table;
pub mod zarr;

use std::path::{Path, PathBuf};

use crate::op::SignalId;
use crate::sample_format::SampleFormat;

/// Folder of the engine's files.
pub const ENGINE: &str = ".isochrony";
/// Identity file, in an array's folder, where Zarr readers do not look for nodes.
pub const IDENTITY: &str = "data/.signal";
/// Likewise if the array `data` may be replaced; the only one in earlier versions.
pub const IDENTITY_BESIDE_DATA: &str = "crc/.signal";

/// The engine's own folder.
#[must_use]
pub fn engine_folder(root: &Path) -> PathBuf {
    root.join(ENGINE)
}

/// The lock file.
#[must_use]
pub fn lock_file(root: &Path) -> PathBuf {
    root.join(ENGINE).join("LOCK")
}

/// The MANIFEST.
#[must_use]
pub fn manifest_file(root: &Path) -> PathBuf {
    root.join(ENGINE).join("MANIFEST")
}

/// The redo log of a generation.
#[must_use]
pub fn log_file(root: &Path, generation: u64) -> PathBuf {
    root.join(ENGINE).join(format!("log.{generation}"))
}

/// Files under construction.
#[must_use]
pub fn tmp_folder(root: &Path) -> PathBuf {
    root.join(ENGINE).join("tmp")
}

/// Folders of signals without a name yet, or no longer.
#[must_use]
pub fn staging_folder(root: &Path) -> PathBuf {
    root.join(ENGINE).join("staging")
}

#[must_use]
pub fn staged(root: &Path, id: SignalId) -> PathBuf {
    staging_folder(root).join(id.0.to_string())
}

/// `name` must be valid.
#[must_use]
pub fn signal_folder(root: &Path, name: &str) -> PathBuf {
    root.join(name)
}

/// Shard of a one-dimensional array.
#[must_use]
pub fn shard_file(array: &Path, shard: u64) -> PathBuf {
    array.join("c").join(shard.to_string())
}

/// Shard of samples. Two-dimensional arrays have shards next to the metadata (`c.7.0`), not in a folder each.
#[must_use]
pub fn data_shard_file(array: &Path, format: SampleFormat, shard: u64) -> PathBuf {
    match format {
        SampleFormat::Plain(_) => shard_file(array, shard),
        SampleFormat::ComplexInt16 => array.join(format!("c.{shard}.0")),
    }
}

/// Folder of shards of samples.
#[must_use]
pub fn data_shards(array: &Path, format: SampleFormat) -> PathBuf {
    match format {
        SampleFormat::Plain(_) => array.join("c"),
        SampleFormat::ComplexInt16 => array.to_path_buf(),
    }
}

/// Number of a file in [`data_shards`].
#[must_use]
pub fn data_shard_number(format: SampleFormat, name: &str) -> Option<u64> {
    let number = match format {
        SampleFormat::Plain(_) => name,
        SampleFormat::ComplexInt16 => name.strip_prefix("c.")?.strip_suffix(".0")?,
    };
    number.parse().ok()
}

/// Text of the identity file.
#[must_use]
pub fn identity(id: SignalId) -> String {
    format!("isochrony signal {}\n", id.0)
}

/// Reads an identity file.
#[must_use]
pub fn parse_identity(bytes: &[u8]) -> Option<SignalId> {
    let text = std::str::from_utf8(bytes).ok()?;
    let number = text.strip_prefix("isochrony signal ")?.strip_suffix('\n')?;
    number.parse().ok().map(SignalId)
}

/// Generation in a log's file name, such as `log.3`.
#[must_use]
pub fn parse_log_name(name: &str) -> Option<u64> {
    name.strip_prefix("log.")?.parse().ok()
}
