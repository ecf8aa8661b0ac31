//! Scratch folders of calibrations and pushes.
//!
//! Removed with their owner or, if that was killed, by the next owner of this kind and place: a folder is locked by its
//! process.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{ErrorContext, IoError};
use crate::source::is_same;

/// Others may remove an unlocked folder.
const MAX_ATTEMPTS: usize = 16;

/// A temporary folder, removed when dropped.
#[derive(Debug)]
pub struct ScratchFolder {
    path: PathBuf,
    _held: File,
    owner: u32,
}

impl ScratchFolder {
    /// Creates a folder. Removes unused ones of this kind.
    ///
    /// # Errors
    /// [`IoError::System`].
    pub fn make(within: &Path, kind: &str) -> Result<Self, IoError> {
        sweep(within, kind);
        for _ in 0..MAX_ATTEMPTS {
            let id = uuid::Uuid::new_v4().simple().to_string();
            let path = within.join(format!("{}{id}", prefix(kind)));
            std::fs::create_dir(&path).with_path("make", &path)?;
            let Ok(held) = File::open(&path) else {
                continue;
            };
            match held.try_lock() {
                Ok(()) if File::open(&path).is_ok_and(|found| is_same(&held, &found)) => {}
                Ok(()) | Err(TryLockError::WouldBlock) => continue,
                // Folders that cannot be locked are not removed.
                Err(TryLockError::Error(_)) => {}
            }
            return Ok(Self {
                path,
                _held: held,
                owner: std::process::id(),
            });
        }
        Err(io::Error::from(io::ErrorKind::ResourceBusy))
            .with_path("make a scratch folder in", within)
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        if self.owner == std::process::id() {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Followed by a UUID without hyphens.
fn prefix(kind: &str) -> String {
    format!(".isochrony-{kind}-")
}

/// Removes folders of killed processes.
fn sweep(within: &Path, kind: &str) {
    let prefix = prefix(kind);
    let Ok(entries) = std::fs::read_dir(within) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix(&prefix));
        let ours = id.is_some_and(|id| {
            id.len() == 32
                && id
                    .bytes()
                    .all(|one| matches!(one, b'0'..=b'9' | b'a'..=b'f'))
        });
        if !ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if let Ok(folder) = File::open(entry.path())
            && folder.try_lock().is_ok()
        {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_killed_processes_are_removed_and_locked_ones_kept() {
        let folder = tempfile::tempdir().unwrap();
        let prefix = prefix("calibrate");
        let dead = folder.path().join(format!("{prefix}{}", "0a".repeat(16)));
        std::fs::create_dir_all(dead.join("a.iso").join("scratch")).unwrap();
        std::fs::write(dead.join("a.iso").join("shard"), b"samples").unwrap();
        let others = [
            format!("{prefix}mine"),
            format!(".isochrony-push-{}", "0a".repeat(16)),
            "isochrony-calibrate".to_owned(),
            format!("{prefix}{}", "ZZ".repeat(16)),
        ];
        for name in &others {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let linked = folder.path().join(format!("{prefix}{}", "0b".repeat(16)));
        std::os::unix::fs::symlink(folder.path().join(&others[1]), &linked).unwrap();

        let first = ScratchFolder::make(folder.path(), "calibrate").unwrap();
        assert!(!dead.exists());
        std::fs::write(first.path().join("in use"), b"").unwrap();
        let second = ScratchFolder::make(folder.path(), "calibrate").unwrap();
        assert!(first.path().join("in use").exists(), "it is held");
        assert_ne!(first.path(), second.path());
        drop((first, second));
        let mut left: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut expected = others.to_vec();
        expected.push(linked.file_name().unwrap().to_str().unwrap().to_owned());
        expected.sort();
        assert_eq!(left, expected);
    }
}
