//! Identifies the disk of a folder.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::{ErrorContext, IoError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DiskIdentity {
    /// File system identity. Device numbers may change at boot.
    pub(super) disk: String,
    /// Major and minor number, for display.
    pub(super) device: String,
    pub(super) filesystem: String,
}

impl DiskIdentity {
    pub(super) fn of(path: &Path) -> Result<Self, IoError> {
        let found = std::fs::metadata(path).with_path("look at", path)?;
        let (major, minor) = crate::system::device_numbers(found.dev());
        let device = format!("{major}:{minor}");
        let filesystem = filesystem(path);
        // ext4, btrfs, f2fs and others derive it from the file system's UUID, the rest from the device number.
        let id = rustix::fs::statvfs(path).map_or(0, |found| found.f_fsid);
        let disk = match id {
            0 => format!("{filesystem}:{device}"),
            id => format!("{filesystem}:{id:016x}"),
        };
        Ok(Self {
            disk,
            device,
            filesystem,
        })
    }
}

#[cfg(target_os = "linux")]
fn filesystem(path: &Path) -> String {
    let Ok(found) = rustix::fs::statfs(path) else {
        return "unknown".into();
    };
    match found.f_type as u64 & 0xffff_ffff {
        0xef53 => "ext4".into(),
        0x5846_5342 => "xfs".into(),
        0x9123_683e => "btrfs".into(),
        0x0102_1994 => "tmpfs".into(),
        0xf2f5_2010 => "f2fs".into(),
        0x794c_7630 => "overlayfs".into(),
        0x2fc1_2fc1 => "zfs".into(),
        other => format!("{other:#x}"),
    }
}

#[cfg(not(target_os = "linux"))]
fn filesystem(_path: &Path) -> String {
    "unknown".into()
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
        // A different file system on every Linux.
        if let Ok(other) = DiskIdentity::of(Path::new("/proc")) {
            assert_ne!(other.disk, place.disk);
        }
    }
}
