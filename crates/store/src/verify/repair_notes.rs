//! Notes of an unfinished repair for the next one.
//!
//! If a repair is killed or fails after its commit, damaged samples are already gaps, but no report names them.
//! `REPAIR` lists the events of kind `samples_lost` that existed before the repair began. The next repair reports every
//! loss that is not listed.
//!
//! After recovery or a lost commit, stored checksums of chunks that contain gaps may be those of the chunks before the
//! gaps were made. `REPAIR_SUMS` lists signals for which a repair recomputes them: a separate file, because on a full
//! disk a file can be removed but not rewritten.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::engine::io::{IoContext, replace_file, unique};
use crate::error::StoreError;
use crate::layout::{engine_folder, tmp_folder};
use crate::media::{Media, Site, limits};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReportedLosses {
    /// Signal id and event id.
    pub(super) events: HashSet<(u64, u64)>,
    /// Whether a lost commit must be reported that no event records, since its signals are unknown.
    #[serde(rename = "lacks_commit")]
    pub(super) must_report_lost_commit: bool,
    /// Number of damaged `zarr.json` files of the store that were moved aside.
    #[serde(default, rename = "kept_metadata")]
    pub(super) replaced_metadata: u64,
}

/// Ids of signals whose checksums at gaps must be recomputed.
pub(super) type SignalsWithStaleSums = BTreeSet<u64>;

const REPORTED: &str = "REPAIR";
const STALE_SUMS: &str = "REPAIR_SUMS";

/// An invalid note counts as empty: reporting a loss twice is better than never.
pub(super) fn read(media: &dyn Media, root: &Path) -> Result<Option<ReportedLosses>, StoreError> {
    read_file(media, root, REPORTED)
}

pub(super) fn read_stale_sums(
    media: &dyn Media,
    root: &Path,
) -> Result<SignalsWithStaleSums, StoreError> {
    Ok(read_file(media, root, STALE_SUMS)?.unwrap_or_default())
}

/// Writes the note durably, unless one exists. Must precede the commit that turns damaged samples into gaps.
pub(super) fn write_if_missing(
    media: &dyn Media,
    root: &Path,
    known: &ReportedLosses,
) -> Result<(), StoreError> {
    let path = engine_folder(root).join(REPORTED);
    match media.stat(&path).at("look at", &path)? {
        Some(_) => Ok(()),
        None => replace(media, root, known),
    }
}

pub(super) fn replace(
    media: &dyn Media,
    root: &Path,
    known: &ReportedLosses,
) -> Result<(), StoreError> {
    replace_with(media, root, REPORTED, known)
}

pub(super) fn add_stale_sums(
    media: &dyn Media,
    root: &Path,
    mut signals: SignalsWithStaleSums,
) -> Result<(), StoreError> {
    let before = read_stale_sums(media, root)?;
    if signals.is_subset(&before) {
        return Ok(());
    }
    signals.extend(before);
    replace_with(media, root, STALE_SUMS, &signals)
}

pub(super) fn remove(media: &dyn Media, root: &Path) -> Result<(), StoreError> {
    remove_file(media, root, REPORTED)
}

pub(super) fn remove_stale_sums(media: &dyn Media, root: &Path) -> Result<(), StoreError> {
    remove_file(media, root, STALE_SUMS)
}

fn read_file<T: DeserializeOwned + Default>(
    media: &dyn Media,
    root: &Path,
    name: &str,
) -> Result<Option<T>, StoreError> {
    let path = engine_folder(root).join(name);
    let bytes = media.read(&path, limits::METADATA).at("read", &path)?;
    Ok(bytes.map(|bytes| parse(&bytes).unwrap_or_default()))
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (json, crc) = text.split_once('\n')?;
    let expected = crc32c::crc32c(json.as_bytes());
    (u32::from_str_radix(crc.trim_end(), 16) == Ok(expected)).then_some(())?;
    serde_json::from_str(json).ok()
}

fn replace_with<T: Serialize>(
    media: &dyn Media,
    root: &Path,
    name: &str,
    content: &T,
) -> Result<(), StoreError> {
    let path = engine_folder(root).join(name);
    let json = serde_json::to_string(content).unwrap_or_default();
    let crc = crc32c::crc32c(json.as_bytes());
    let text = format!("{json}\n{crc:08x}\n");
    let tmp = unique(&tmp_folder(root), "repair");
    let site = Some(Site::ReplacementFile);
    replace_file(media, &tmp, &path, text.as_bytes(), site).inspect_err(|_| {
        let _ = media.remove_file(&tmp);
    })?;
    sync(media, root)
}

fn remove_file(media: &dyn Media, root: &Path, name: &str) -> Result<(), StoreError> {
    let path = engine_folder(root).join(name);
    if media.stat(&path).at("look at", &path)?.is_none() {
        return Ok(());
    }
    media.remove_file(&path).at("remove", &path)?;
    sync(media, root)
}

fn sync(media: &dyn Media, root: &Path) -> Result<(), StoreError> {
    let folder = engine_folder(root);
    let synced = media.sync_folder(&folder, Site::StoreFolder);
    synced.at("sync", &folder)
}
