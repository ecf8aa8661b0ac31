//! Kernel file locks of the index, of open caches, and of objects.
//!
//! They belong to an open file, so two handles in one process exclude each other, and the kernel releases them however
//! the process ends.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::{CacheError, IoContext};
use crate::folder::{Folder, remove};
use crate::journal::OwnerId;

/// A change takes well below a millisecond; removing many large files may take seconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);
/// Initial and maximum time between attempts.
const RETRY_INTERVAL: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(2));

/// `false` if another open file conflicts.
fn try_lock(file: &File, exclusive: bool) -> io::Result<bool> {
    loop {
        let taken = match exclusive {
            true => file.try_lock(),
            false => file.try_lock_shared(),
        };
        match taken {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Closing may be too late: a process that another thread starts briefly has copies of all open files.
pub(crate) fn unlock(file: &File) {
    // Fails only for files without locks.
    let _ = file.unlock();
}

pub(crate) fn is_unlocked(file: &File) -> io::Result<bool> {
    let is_locked = try_lock(file, true)?;
    if is_locked {
        unlock(file);
    }
    Ok(is_locked)
}

/// Call with the index lock held: exclusive locks are only taken under it, so this waits at most for the start of a
/// process.
pub(crate) fn lock_pinned(file: &File, path: &Path) -> Result<(), CacheError> {
    let start = Instant::now();
    while !try_lock(file, false).at("lock", path)? {
        if start.elapsed() > LOCK_TIMEOUT {
            return Err(CacheError::IndexLocked {
                path: path.to_path_buf(),
                waited: start.elapsed(),
            });
        }
        std::thread::sleep(RETRY_INTERVAL.0);
    }
    Ok(())
}

#[derive(Debug)]
pub(crate) struct IndexLock {
    file: File,
}

impl IndexLock {
    pub(crate) fn open(folder: &Folder) -> Result<Self, CacheError> {
        folder.create_root()?;
        let path = folder.lock();
        let file = (File::options().read(true).write(true).create(true))
            .truncate(false)
            .open(&path)
            .at("open", &path)?;
        Ok(Self { file })
    }

    /// Recreates a removed folder, since a lock on a deleted file excludes nobody.
    pub(crate) fn acquire(&mut self, folder: &Folder) -> Result<(), CacheError> {
        while !self.acquire_existing(folder)? {
            *self = Self::open(folder)?;
        }
        Ok(())
    }

    /// Waits for the lock. `false`, and unlocked, if the folder was removed.
    pub(crate) fn acquire_existing(&self, folder: &Folder) -> Result<bool, CacheError> {
        let path = folder.lock();
        let start = Instant::now();
        let mut interval = RETRY_INTERVAL.0;
        loop {
            if try_lock(&self.file, true).at("lock", &path)? {
                let is_there = is_at(&self.file, &path).at("look at", &path);
                if !matches!(is_there, Ok(true)) {
                    self.release();
                }
                return is_there;
            }
            if start.elapsed() > LOCK_TIMEOUT {
                return Err(CacheError::IndexLocked {
                    path,
                    waited: start.elapsed(),
                });
            }
            std::thread::sleep(interval);
            interval = (interval * 2).min(RETRY_INTERVAL.1);
        }
    }

    pub(crate) fn release(&self) {
        unlock(&self.file);
    }
}

pub(crate) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let open = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(named) => Ok((open.dev(), open.ino()) == (named.dev(), named.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A locked file that shows this cache to other processes.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) id: OwnerId,
    file: File,
}

impl Owner {
    /// Call with the index lock held, so that nobody finds the file unlocked.
    pub(crate) fn create(folder: &Folder, id: OwnerId) -> Result<Self, CacheError> {
        let path = folder.owner(id);
        let file = (File::options().write(true).create(true))
            .truncate(false)
            .open(&path)
            .at("create", &path)?;
        // The number is unique, so no other lock can conflict.
        try_lock(&file, true).at("lock", &path)?;
        Ok(Self { id, file })
    }

    /// Recreates the file if the folder was removed.
    pub(crate) fn keep(&mut self, folder: &Folder) -> Result<(), CacheError> {
        let path = folder.owner(self.id);
        if !is_at(&self.file, &path).at("look at", &path)? {
            *self = Self::create(folder, self.id)?;
        }
        Ok(())
    }

    pub(crate) fn close(&self, folder: &Folder) {
        // Else the unlocked file counts as a dead owner's.
        let _ = remove(&folder.owner(self.id));
    }
}

/// Call with the index lock held.
pub(crate) fn is_alive(folder: &Folder, id: OwnerId) -> Result<bool, CacheError> {
    let path = folder.owner(id);
    match File::open(&path) {
        Ok(file) => Ok(!is_unlocked(&file).at("lock", &path)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).at("open", &path),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnlinkOutcome {
    /// The file is deleted.
    Done,
    /// Pinned, or refused by the system.
    InUse,
}

/// Call with the index lock held, so that nobody pins the file meanwhile.
pub(crate) fn unlink_unpinned(path: &Path) -> UnlinkOutcome {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return UnlinkOutcome::Done,
        Err(_) => return UnlinkOutcome::InUse,
    };
    match is_unlocked(&file) {
        Ok(true) if remove(path).is_ok() => UnlinkOutcome::Done,
        _ => UnlinkOutcome::InUse,
    }
}
