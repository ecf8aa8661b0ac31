//! Storage media of stores: real disks, or a simulated one that loses unsynced writes.
//!
//! Only the durability path uses [`Media`]: shards, log, MANIFEST, tables and their folders. Every sync names its
//! [`Site`], so that tests can disable each one and show that it is needed.
//!
//! A store's medium is [rooted](Media::rooted) in its folder: all access to the store's files goes through it. With a
//! [`Refusal`], it refuses links out of the store, pipes, devices and oversized files.

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

/// The disks of this machine.
#[must_use]
pub fn disk() -> Arc<dyn Media> {
    Arc::new(DiskMedia)
}

/// A zeroed buffer for reading a file of `len` bytes, at most `limit`.
///
/// # Errors
/// [`Refusal::TooLong`], [`Refusal::NoMemory`].
pub fn room_for(path: &Path, len: u64, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let count = usize::try_from(len).unwrap_or(usize::MAX);
    if len > limit || !has_free_memory(len) || bytes.try_reserve_exact(count).is_err() {
        return Err(Refusal::of_size(path, len, limit).into());
    }
    bytes.resize(count, 0);
    Ok(bytes)
}

/// Purpose of a sync: one value per place in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Site {
    /// The log record of a commit: the commit point.
    LogRecord,
    /// A shard of `data` with bulk samples, before the record that commits them.
    BulkShard,
    /// The identity file of a signal with new bulk samples.
    BulkIdentity,
    /// Folders above bulk samples.
    BulkFolder,
    /// The volume, instead of many syncs of bulk samples.
    BulkVolume,
    /// A replacement file, before the record that names it.
    ReplacementFile,
    /// Folders of replacement files.
    ReplacementFolder,
    /// Folders above a signal's, before it is moved there.
    ParentFolder,
    /// A shard of `data` with small samples, before the log that holds them is removed.
    CheckpointShard,
    /// A shard of `crc`, likewise.
    CheckpointCrc,
    /// A signal's identity file, likewise.
    CheckpointIdentity,
    /// Folders whose entries changed since the last checkpoint.
    CheckpointFolder,
    /// A new table, before it is renamed into place.
    Table,
    /// The volume, instead of many files of a checkpoint.
    TableVolume,
    /// The volume, instead of many folders of a checkpoint.
    CheckpointVolume,
    /// The first record of a new log generation.
    NewLog,
    /// The folder of a new log, before MANIFEST names the log.
    NewLogFolder,
    /// A new MANIFEST, before it is renamed into place.
    Manifest,
    /// The folder of MANIFEST, before the old log is removed.
    ManifestFolder,
    /// The folders of a new store.
    StoreFolder,
    /// Rows of views and their record. Not in [`ALL`](Self::ALL): a cache.
    View,
}

impl Site {
    /// All sites that committed samples depend on.
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

/// An open file. Positions are explicit, so threads can share a handle.
#[allow(clippy::len_without_is_empty)]
pub trait MediaFile: Send + Sync + fmt::Debug {
    /// Reads up to `bytes.len()` bytes at `offset`; fewer only at the end of file.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Writes all of `bytes` at `offset`. Read-only media refuse this and the next two calls.
    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Sets the length; new bytes are zero.
    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Makes all earlier writes and the length durable.
    fn sync(&self, _site: Site) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// The operating system's file, for mapping; `None` if there is none.
    fn as_os_file(&self) -> Option<&std::fs::File> {
        None
    }
    /// As [`read_at`](Self::read_at), for bytes that are read once: bypasses the medium's memory cache.
    fn read_once(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.read_at(offset, bytes)
    }
    /// Whether each read is a request to another machine.
    fn is_remote(&self) -> bool {
        false
    }
}

/// A held lock, released when dropped.
pub trait MediaLock: Send + Sync + fmt::Debug {
    /// Replaces the lock file's text.
    fn write(&self, text: &str) -> io::Result<()>;
    /// Releases it at once, even if processes were forked since.
    fn release(&self);
}

/// A whole file system that can be synced at once.
pub trait Volume: Send + Sync + fmt::Debug {
    /// Number of file syncs from which one sync of the volume is cheaper.
    fn pays_from(&self) -> usize;
    /// Whether `path` exists and lies on this volume.
    fn holds(&self, path: &Path) -> bool;
    /// Makes all earlier writes and renames durable. Fails if any has failed since the volume was opened.
    fn sync(&self, site: Site) -> io::Result<()>;
}

/// A file system.
pub trait Media: Send + Sync + fmt::Debug {
    /// This medium for the files of the store in `root`. `root` itself is resolved by the system, each time. Below it
    /// no link is followed, and only regular files and folders are opened or made. Everything else, paths that lead out
    /// of `root`, and writing to a file with several names are refused.
    fn rooted(&self, root: &Path) -> Arc<dyn Media>;
    /// Opens a file.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn MediaFile>>;
    /// Type of what is at `path`; `None` if nothing.
    fn stat(&self, path: &Path) -> io::Result<Option<Kind>>;
    /// As [`stat`](Self::stat), with the bytes allocated: fewer than the length if the file has holes.
    fn stat_allocated(&self, path: &Path) -> io::Result<Option<(Kind, u64)>> {
        Ok(self.stat(path)?.map(|kind| match kind {
            Kind::File(len) => (kind, len),
            Kind::Folder => (kind, 0),
        }))
    }
    /// Names in a folder, unordered.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;
    /// Makes one folder, whose parent must exist. `false` if it existed.
    fn make_folder(&self, path: &Path) -> io::Result<bool>;
    /// Renames a file or folder atomically, replacing a file at the destination.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty folder.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// Makes the entries of a folder durable.
    fn sync_folder(&self, path: &Path, site: Site) -> io::Result<()>;
    /// The volume of the folder `root`; `None` if it cannot be synced as a whole, or if such a sync does not report
    /// errors of earlier writes.
    fn volume(&self, _root: &Path) -> io::Result<Option<Box<dyn Volume>>> {
        Ok(None)
    }
    /// Locks a file, creating it if missing; `None` if another process holds the lock. Also gives the text that the
    /// last holder left.
    fn lock(&self, path: &Path) -> io::Result<Option<(Box<dyn MediaLock>, String)>>;
    /// Name of the network file system of `path`; `None` if local.
    fn network(&self, path: &Path) -> io::Result<Option<&'static str>>;
    /// As [`network`](Self::network), for an open file whose path may no longer exist.
    fn network_of(&self, file: &dyn MediaFile) -> io::Result<Option<&'static str>> {
        file.as_os_file().map_or(Ok(None), volume::network_of)
    }
    /// Boot identity of the running system.
    fn boot_id(&self) -> String;
    /// Whether it belongs to another machine: read by requests, never written, unaffected by a restart of this one.
    fn is_remote(&self) -> bool {
        false
    }
    /// Whether others see writes only after [`publish`](Self::publish).
    fn is_published(&self) -> bool {
        false
    }
    /// Makes writes since the last call visible to others, the root record last. Does nothing on a disk, where they are
    /// visible at once. `put` is called with the bytes of samples as they are uploaded.
    fn publish(&self, _put: &mut dyn FnMut(u64)) -> io::Result<()> {
        Ok(())
    }
    /// Drops what is known of files other than MANIFEST and logs, because more was published.
    fn forget_known(&self) {}
    /// Hint: begins to read the beginning and the end of a file that is about to be opened.
    fn prefetch_ends(&self, _path: &Path) {}
    /// Whether threads may use it on their own; a simulation needs a deterministic order of calls.
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
        let mut bytes = room_for(path, len, limit)?;
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

    /// Makes a folder and its missing parents below `root`. Gives those made, topmost first.
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

    /// Copies a file to a new one; within the kernel if possible, which shares blocks and keeps holes.
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

    /// Removes a file, or a folder with its contents, if it exists. Does not follow links.
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
