//! Where a store's bytes live: real disks, or a simulated one that loses what was not synced.
//!
//! Only the durability path goes through [`Media`]: shards, log, MANIFEST, tables, the folders that hold them. Every
//! sync names its [`Site`], so that a test can switch each one off and show that it is needed.
//!
//! A store is opened on a medium that is [rooted](Media::rooted) in its folder: the one door to its files. What a
//! stranger or an accident may have put there (links out of the store, pipes, devices, files of absurd size) is refused
//! there, with a [`Refusal`], and nothing of it is opened, followed or written.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use isochrony_segment::has_free_memory;

mod disk;
#[cfg(target_os = "linux")]
mod forks;
#[cfg(not(target_os = "linux"))]
#[path = "forks_inherited.rs"]
mod forks;
pub mod limits;
mod platform;
mod refusal;
pub mod remote;
mod rooted;
pub mod rooted_paths;
pub mod sim;
mod sparse;

pub use disk::DiskMedia;
pub(crate) use forks::this_process;
pub(crate) use platform::host_name;
pub use refusal::Refusal;
pub use remote::{RemoteError, is_url};
pub(crate) use remote::{absolute, media_of, media_to_write};
pub use rooted::RootedDisk;

/// This machine's disks.
#[must_use]
pub fn disk() -> Arc<dyn Media> {
    Arc::new(DiskMedia)
}

/// Zeros in whose place a file of `len` bytes is read, which may have `limit`.
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

/// Why a sync is made: one value per place in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Site {
    /// The record of a commit, in the log: the commit point.
    LogRecord,
    /// A shard of `data` with bulk samples, before the record that counts them.
    BulkShard,
    /// The identity file of a signal that bulk samples were written to.
    BulkIdentity,
    /// Folders that lead to bulk samples.
    BulkFolder,
    /// All of these at once, where they are many: the volume.
    BulkVolume,
    /// A file under construction that a record will name.
    ReplacementFile,
    /// Folders of such files.
    ReplacementFolder,
    /// Folders above a signal's, before it is moved into them.
    ParentFolder,
    /// A shard of `data` with small samples, before the log that holds them goes.
    CheckpointShard,
    /// A shard of `crc`, likewise.
    CheckpointCrc,
    /// A signal's identity file, likewise.
    CheckpointIdentity,
    /// Folders in which names changed since the last checkpoint.
    CheckpointFolder,
    /// A table under construction, before it gets its name.
    Table,
    /// These files of a checkpoint at once, where they are many: the volume.
    TableVolume,
    /// Folders of a checkpoint at once, where they are many: the volume.
    CheckpointVolume,
    /// The first record of a new log generation.
    NewLog,
    /// The folder of a new log, before MANIFEST names it.
    NewLogFolder,
    /// A new MANIFEST, before it gets its name.
    Manifest,
    /// The folder of MANIFEST, before the old log goes.
    ManifestFolder,
    /// The folders of a new store.
    StoreFolder,
    /// Rows of views and their record. Not in [`ALL`](Self::ALL): a cache, without which nothing is lost.
    View,
}

impl Site {
    /// All that committed samples depend on.
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
    /// It must exist.
    Read,
    /// It must exist.
    Write,
    /// It is made if missing.
    Create,
    /// It must not exist.
    CreateNew,
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file of this many bytes.
    File(u64),
    /// A folder.
    Folder,
}

/// An open file. Positions are explicit, so that threads share one handle.
#[allow(clippy::len_without_is_empty)]
pub trait MediaFile: Send + Sync + fmt::Debug {
    /// Reads up to `bytes.len()` bytes at `offset`; fewer only at the end of the file.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Writes all of `bytes` at `offset`. Files of media that are only read refuse it, and the next two.
    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Sets the length; new bytes are zero.
    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Makes all earlier writes to the file durable, and its length.
    fn sync(&self, _site: Site) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// The operating system's file, to map it; `None` where there is none.
    fn as_os_file(&self) -> Option<&std::fs::File> {
        None
    }
    /// As [`read_at`](Self::read_at), for bytes that are read once: past what the medium keeps in memory.
    fn read_once(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.read_at(offset, bytes)
    }
    /// Whether each read is a request to another machine.
    fn is_remote(&self) -> bool {
        false
    }
}

/// A held lock; dropping it lets go.
pub trait MediaLock: Send + Sync + fmt::Debug {
    /// Replaces the lock file's text.
    fn write(&self, text: &str) -> io::Result<()>;
    /// Lets go at once, also for processes that were forked off since.
    fn release(&self);
}

/// A whole file system that can be made durable at once.
pub trait Volume: Send + Sync + fmt::Debug {
    /// How many syncs one of the volume takes the place of with gain.
    fn pays_from(&self) -> usize;
    /// Whether there is something at `path` and it lies on this volume.
    fn holds(&self, path: &Path) -> bool;
    /// Makes all earlier writes and changes of names durable. Fails if any of them failed since the volume was opened.
    fn sync(&self, site: Site) -> io::Result<()>;
}

/// A file system.
pub trait Media: Send + Sync + fmt::Debug {
    /// This medium for the files of the store in the folder `root`. `root` itself is resolved as the system does, each
    /// time. Below it no link is followed, and only regular files and folders are opened or made; everything else,
    /// and every path that leads out of `root`, is refused, and so is a file with several names if it is to be written.
    fn rooted(&self, root: &Path) -> Arc<dyn Media>;
    /// Opens a file.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn MediaFile>>;
    /// What is at `path`; `None` if nothing.
    fn stat(&self, path: &Path) -> io::Result<Option<Kind>>;
    /// As [`stat`](Self::stat), with the bytes that the file system keeps for a file: less where it has holes.
    fn stat_allocated(&self, path: &Path) -> io::Result<Option<(Kind, u64)>> {
        Ok(self.stat(path)?.map(|kind| match kind {
            Kind::File(len) => (kind, len),
            Kind::Folder => (kind, 0),
        }))
    }
    /// Names in a folder, in no order.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;
    /// Makes one folder; its parent must exist. `false` if it was there.
    fn make_folder(&self, path: &Path) -> io::Result<bool>;
    /// Gives a file or folder another name, replacing a file there; atomic.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty folder.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// Makes names in a folder durable.
    fn sync_folder(&self, path: &Path, site: Site) -> io::Result<()>;
    /// The volume that the folder `root` lies on; `None` if it cannot be synced as a whole, or not so that errors of
    /// earlier writes are told.
    fn volume(&self, _root: &Path) -> io::Result<Option<Box<dyn Volume>>> {
        Ok(None)
    }
    /// Takes the lock on a file, which is made if missing; `None` if another process holds it. Gives the text that
    /// the last holder left, too.
    fn lock(&self, path: &Path) -> io::Result<Option<(Box<dyn MediaLock>, String)>>;
    /// Name of the network file system that `path` is on, if it is.
    fn network(&self, path: &Path) -> io::Result<Option<&'static str>>;
    /// As [`network`](Self::network), for a file that is open, whose path may be gone by now.
    fn network_of(&self, file: &dyn MediaFile) -> io::Result<Option<&'static str>> {
        file.as_os_file().map_or(Ok(None), platform::network_of)
    }
    /// Identity of the running system: changes when it restarts.
    fn boot_id(&self) -> String;
    /// Whether it is another machine's: read by requests, never written, and not forgotten by a restart of this one.
    fn is_remote(&self) -> bool {
        false
    }
    /// Whether others see what is written only once it is published.
    fn is_published(&self) -> bool {
        false
    }
    /// Makes what was written since the last call visible to others, its root record last. On a disk it is at once. `put` is
    /// called with bytes of samples as they are put.
    fn publish(&self, _put: &mut dyn FnMut(u64)) -> io::Result<()> {
        Ok(())
    }
    /// More was published, so what is known of files other than MANIFEST and logs is old.
    fn forget_known(&self) {}
    /// Begins to read the beginning and the end of a file, which is about to be opened. A hint.
    fn prefetch_ends(&self, _path: &Path) {}
    /// Whether a thread may work on it on its own; a simulation wants every call in a known order.
    fn has_background(&self) -> bool {
        true
    }

    /// Reads a whole file of at most `limit` bytes (see [`limits`]), for which there is memory; `None` if there is none.
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

    /// Makes a folder and those above it down from `root`; gives the ones made, topmost first.
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

    /// Copies a file to a new one; inside the kernel, which shares blocks where it can, if the system has the files. Holes
    /// stay holes then.
    fn copy(&self, from: &Path, to: &Path) -> io::Result<Arc<dyn MediaFile>> {
        let source = self.open(from, Access::Read)?;
        let copy = self.open(to, Access::CreateNew)?;
        if let (Some(source), Some(copy)) = (source.as_os_file(), copy.as_os_file()) {
            sparse::copy(source, copy)?;
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

    /// Removes a file, or a folder with all in it; nothing there is fine. Of a link only the link is removed.
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
