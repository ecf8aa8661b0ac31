//! The scratch folder of a calibration.
//!
//! Removed with its calibration, or, if that was killed, by the next in the same place: a folder in use is locked, and
//! locks end with their process.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{ErrorContext, IoError};
use crate::source::is_same;

/// Names are this and a UUID without hyphens.
const PREFIX: &str = ".isochrony-calibrate-";

/// Other calibrations may remove the folder before it is locked.
const ATTEMPTS: usize = 16;

#[derive(Debug)]
pub(super) struct ScratchFolder {
    path: PathBuf,
    /// Locked while open.
    _held: File,
    /// The process that made it.
    owner: u32,
}

impl ScratchFolder {
    /// A new folder. Removes those that are not in use.
    pub(super) fn make(within: &Path) -> Result<Self, IoError> {
        sweep(within);
        for _ in 0..ATTEMPTS {
            let path = within.join(format!("{PREFIX}{}", uuid::Uuid::new_v4().simple()));
            std::fs::create_dir(&path).with_path("make", &path)?;
            let Ok(held) = File::open(&path) else {
                continue;
            };
            match held.try_lock() {
                Ok(()) if File::open(&path).is_ok_and(|found| is_same(&held, &found)) => {}
                Ok(()) | Err(TryLockError::WouldBlock) => continue,
                // Folders that cannot be locked are not removed by others.
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

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // Not in a forked child.
        if self.owner == std::process::id() {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Removes what killed calibrations left, as far as possible.
fn sweep(within: &Path) {
    let Ok(entries) = std::fs::read_dir(within) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let ours = id.is_some_and(|id| {
            id.len() == 32
                && id
                    .bytes()
                    .all(|one| matches!(one, b'0'..=b'9' | b'a'..=b'f'))
        });
        // Follows no links.
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
    fn what_a_killed_calibration_left_goes_and_what_another_holds_stays() {
        let folder = tempfile::tempdir().unwrap();
        let dead = folder.path().join(format!("{PREFIX}{}", "0a".repeat(16)));
        std::fs::create_dir_all(dead.join("a.iso").join("scratch")).unwrap();
        std::fs::write(dead.join("a.iso").join("shard"), b"samples").unwrap();
        let others = [
            format!("{PREFIX}mine"),
            "isochrony-calibrate".to_owned(),
            format!("{PREFIX}{}", "ZZ".repeat(16)),
        ];
        for name in &others {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let linked = folder.path().join(format!("{PREFIX}{}", "0b".repeat(16)));
        std::os::unix::fs::symlink(folder.path().join(&others[1]), &linked).unwrap();

        let first = ScratchFolder::make(folder.path()).unwrap();
        assert!(!dead.exists());
        std::fs::write(first.path().join("in use"), b"").unwrap();
        let second = ScratchFolder::make(folder.path()).unwrap();
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
