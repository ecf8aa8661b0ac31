//! Identifies the disk of a folder.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use isochrony_system::volume;

use crate::error::{ErrorContext, IoError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DiskIdentity {
    /// File system identity, stable across boots.
    pub(super) disk: String,
    /// Major and minor number, for display.
    pub(super) device: String,
    pub(super) filesystem: String,
}

impl DiskIdentity {
    pub(super) fn of(path: &Path) -> Result<Self, IoError> {
        let found = std::fs::metadata(path).with_path("look at", path)?;
        let (major, minor) = volume::device_numbers(found.dev());
        let device = format!("{major}:{minor}");
        let filesystem = volume::file_system(path).unwrap_or_else(|| "unknown".into());
        let disk = match volume::identity(path) {
            None => format!("{filesystem}:{device}"),
            Some(id) => format!("{filesystem}:{id:016x}"),
        };
        Ok(Self {
            disk,
            device,
            filesystem,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_one_file_system_are_on_one_disk() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let inner = folder.path().join("a").join("b");
        std::fs::create_dir_all(&inner).unwrap();
        let place = DiskIdentity::of(folder.path()).unwrap();
        assert_eq!(DiskIdentity::of(&inner).unwrap(), place);
        assert!(place.disk.starts_with(&format!("{}:", place.filesystem)));
        if let Ok(other) = DiskIdentity::of(Path::new("/proc")) {
            assert_ne!(other.disk, place.disk);
        }
    }
}
