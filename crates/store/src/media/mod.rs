//! Storage media of stores: real disks, or a simulation that loses unsynced writes.
//!
//! Only the durability path uses [`Media`]: shards, log, MANIFEST, tables and their folders. Every sync names its
//! [`Site`], so that tests can disable each and show that it is needed.
//!
//! A store's medium is [rooted](Media::rooted) in its folder: all access to its files goes through it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use isochrony_segment::has_free_memory;
use isochrony_system::blocks::copy_sparse;
use isochrony_system::volume;

mod disk;
pub mod limits;
mod refusal;
pub mod remote;
mod rooted;
pub mod rooted_paths;
pub mod sim;

pub use disk::DiskMedia;
pub use refusal::Refusal;
pub use remote::{RemoteError, is_url};
pub(crate) use remote::{absolute, media_of, media_to_write};
pub use rooted::RootedDisk;

/// This machine's disks.
#[must_use]
pub fn disk() -> Arc<dyn Media> {
    Arc::new(DiskMedia)
}

/// Zeroed buffer for a file of `len` bytes, at most `limit`.
///
/// # Errors
/// [`Refusal::TooLong`], [`Refusal::NoMemory`].
pub fn zeroed_buffer(path: &Path, len: u64, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let count = usize::try_from(len).unwrap_or(usize::MAX);
    if len > limit || !has_free_memory(len) || bytes.try_reserve_exact(count).is_err() {
        return Err(Refusal::of_size(path, len, limit).into());
    }
    bytes.resize(count, 0);
    Ok(bytes)
}

/// Purpose of a sync: one per place in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Site {
    /// Log record: the commit point.
    LogRecord,
    /// Shard of `data` with bulk samples, before the record that commits them.
    BulkShard,
    /// Identity file of a signal with new bulk samples.
    BulkIdentity,
    /// Folders above bulk samples.
    BulkFolder,
    /// Volume, instead of many syncs of bulk samples.
    BulkVolume,
    /// Replacement file, before the record that names it.
    ReplacementFile,
    /// Folders of replacement files.
    ReplacementFolder,
    /// Folders above a signal's, before its move.
    ParentFolder,
    /// Shard of `data` with small samples, before the log that holds them is removed.
    CheckpointShard,
    /// Shard of `crc`, likewise.
    CheckpointCrc,
    /// Identity file, likewise.
    CheckpointIdentity,
    /// Folders changed since the last checkpoint.
    CheckpointFolder,
    /// New table, before its rename into place.
    Table,
    /// Volume, instead of many files of a checkpoint.
    TableVolume,
    /// Volume, instead of many folders of a checkpoint.
    CheckpointVolume,
    /// First record of a new log.
    NewLog,
    /// Folder of a new log, before MANIFEST names the log.
    NewLogFolder,
    /// New MANIFEST, before its rename into place.
    Manifest,
    /// Folder of MANIFEST, before the old log is removed.
    ManifestFolder,
    /// Folders of a new store.
    StoreFolder,
    /// Rows of views and their record: a cache, so not in [`ALL`](Self::ALL).
    View,
}

impl Site {
    /// Sites that committed samples depend on.
    pub const ALL: [Self; 20] = [
        Self::LogRecord,
        Self::BulkShard,
        Self::BulkIdentity,
        Self::BulkFolder,
        Self::BulkVolume,
        Self::ReplacementFile,
        Self::ReplacementFolder,
        Self::ParentFolder,
        Self::CheckpointShard,
        Self::CheckpointCrc,
        Self::CheckpointIdentity,
        Self::CheckpointFolder,
        Self::Table,
        Self::TableVolume,
        Self::CheckpointVolume,
        Self::NewLog,
        Self::NewLogFolder,
        Self::Manifest,
        Self::ManifestFolder,
        Self::StoreFolder,
    ];
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Must exist.
    Read,
    /// Must exist.
    Write,
    /// Created if missing.
    Create,
    /// Must not exist.
    CreateNew,
}

/// Type of what is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file with its length in bytes.
    File(u64),
    /// A folder.
    Folder,
}

/// An open file. Explicit positions let threads share a handle.
#[allow(clippy::len_without_is_empty)]
pub trait MediaFile: Send + Sync + fmt::Debug {
    /// Reads up to `bytes.len()` bytes at `offset`; fewer only at the end of file.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Writes all of `bytes` at `offset`. Read-only media refuse this, `set_len` and `sync`.
    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Sets the length; new bytes are zero.
    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Makes earlier writes and the length durable.
    fn sync(&self, _site: Site) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// The operating system's file, for mapping, if any.
    fn as_os_file(&self) -> Option<&std::fs::File> {
        None
    }
    /// As [`read_at`](Self::read_at), bypassing the medium's memory cache, for bytes that are read once.
    fn read_once(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.read_at(offset, bytes)
    }
    /// Whether reads are requests to another machine.
    fn is_remote(&self) -> bool {
        false
    }
}

/// A held lock, released when dropped.
pub trait MediaLock: Send + Sync + fmt::Debug {
    /// Replaces the lock file's text.
    fn write(&self, text: &str) -> io::Result<()>;
    /// Releases it at once, even if forked processes share it.
    fn release(&self);
}

/// A file system that can be synced as a whole.
pub trait Volume: Send + Sync + fmt::Debug {
    /// Number of file syncs from which one of the volume is cheaper.
    fn break_even_syncs(&self) -> usize;
    /// Whether `path` exists on this volume.
    fn holds(&self, path: &Path) -> bool;
    /// Makes earlier writes and renames durable. Fails if any failed since the volume was opened.
    fn sync(&self, site: Site) -> io::Result<()>;
}

/// A file system.
pub trait Media: Send + Sync + fmt::Debug {
    /// This medium for the store in `root`, which the system resolves each time. Below it no link is followed, and only
    /// regular files and folders are opened or made. Paths out of `root` and writing to a file with several names are
    /// refused.
    fn rooted(&self, root: &Path) -> Arc<dyn Media>;
    /// Opens a file.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn MediaFile>>;
    /// What is at `path`, if anything.
    fn stat(&self, path: &Path) -> io::Result<Option<Kind>>;
    /// As [`stat`](Self::stat), with the bytes allocated: fewer than the length if there are holes.
    fn stat_allocated(&self, path: &Path) -> io::Result<Option<(Kind, u64)>> {
        Ok(self.stat(path)?.map(|kind| match kind {
            Kind::File(len) => (kind, len),
            Kind::Folder => (kind, 0),
        }))
    }
    /// Names in a folder, unordered.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;
    /// Makes one folder in an existing parent. `false` if it existed.
    fn make_folder(&self, path: &Path) -> io::Result<bool>;
    /// Renames atomically, replacing a file at the destination.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty folder.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// Makes the entries of a folder durable.
    fn sync_folder(&self, path: &Path, site: Site) -> io::Result<()>;
    /// The volume of `root`; `None` if it cannot be synced as a whole, or would not report errors of earlier writes.
    fn volume(&self, _root: &Path) -> io::Result<Option<Box<dyn Volume>>> {
        Ok(None)
    }
    /// Locks a file, made if missing; `None` if another process holds it. Also gives the last holder's text.
    fn lock(&self, path: &Path) -> io::Result<Option<(Box<dyn MediaLock>, String)>>;
    /// Name of the network file system of `path`; `None` if local.
    fn network(&self, path: &Path) -> io::Result<Option<&'static str>>;
    /// As [`network`](Self::network), for an open file, whose path may be gone.
    fn network_of(&self, file: &dyn MediaFile) -> io::Result<Option<&'static str>> {
        file.as_os_file().map_or(Ok(None), volume::network_of)
    }
    /// Boot identity of the running system.
    fn boot_id(&self) -> String;
    /// Whether it is on another machine: read by requests, never written, unaffected by a restart of this one.
    fn is_remote(&self) -> bool {
        false
    }
    /// Whether others see writes only after [`publish`](Self::publish).
    fn is_published(&self) -> bool {
        false
    }
    /// Makes writes since the last call visible to others, the root record last; on a disk they are at once. `put` gets
    /// the bytes of samples as they are uploaded.
    fn publish(&self, _put: &mut dyn FnMut(u64)) -> io::Result<()> {
        Ok(())
    }
    /// Forgets files other than MANIFEST and logs, because more was published.
    fn forget_known(&self) {}
    /// Hint: reads beginning and end of a file soon to be opened.
    fn prefetch_ends(&self, _path: &Path) {}
    /// Whether background threads may use it; a simulation needs a deterministic order of calls.
    fn has_background(&self) -> bool {
        true
    }

    /// Reads a whole file of at most `limit` bytes (see [`limits`]) if memory allows; `None` if there is none.
    fn read(&self, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let file = match self.open(path, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let len = file.len()?;
        let mut bytes = zeroed_buffer(path, len, limit)?;
        let mut filled = 0;
        while filled < bytes.len() {
            match file.read_at(filled as u64, &mut bytes[filled..])? {
                0 => break,
                count => filled += count,
            }
        }
        bytes.truncate(filled);
        Ok(Some(bytes))
    }

    /// Makes a folder and its missing parents below `root`; gives those made, topmost first.
    fn make_folders(&self, root: &Path, path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut missing = Vec::new();
        let mut at = path;
        while at != root && self.stat(at)?.is_none() {
            missing.push(at.to_path_buf());
            let Some(parent) = at.parent() else { break };
            at = parent;
        }
        missing.reverse();
        for folder in &missing {
            self.make_folder(folder)?;
        }
        Ok(missing)
    }

    /// Copies a file to a new one, if possible within the kernel, which shares blocks and keeps holes.
    fn copy(&self, from: &Path, to: &Path) -> io::Result<Arc<dyn MediaFile>> {
        let source = self.open(from, Access::Read)?;
        let copy = self.open(to, Access::CreateNew)?;
        if let (Some(source), Some(copy)) = (source.as_os_file(), copy.as_os_file()) {
            copy_sparse(source, copy)?;
        } else {
            let mut part = vec![0; 64 << 10];
            let mut at = 0;
            loop {
                let count = source.read_at(at, &mut part)?;
                if count == 0 {
                    break;
                }
                copy.write_at(at, &part[..count])?;
                at += count as u64;
            }
        }
        Ok(copy)
    }

    /// Removes a file, or a folder with its contents, if it exists; follows no links.
    fn remove_all(&self, path: &Path) -> io::Result<()> {
        match self.stat(path)? {
            None => Ok(()),
            Some(Kind::File(_)) => self.remove_file(path),
            Some(Kind::Folder) => {
                for name in self.list(path)? {
                    self.remove_all(&path.join(name))?;
                }
                self.remove_folder(path)
            }
        }
    }
}
