//! File systems: identity, free space, syncing as a whole.

use std::fs::File;
use std::io;
use std::path::Path;

/// The part of a file system's number that all architectures have.
#[cfg(target_os = "linux")]
fn magic(volume: &rustix::fs::StatFs) -> u64 {
    volume.f_type as u64 & 0xffff_ffff
}

/// Name of the network file system of `path`; `None` if local.
///
/// FUSE counts as local: the kernel handles its locks and mappings. 9p and virtiofs share a host's folder without
/// coherent locks, so they count as network.
///
/// # Errors
/// Of looking it up.
#[cfg(target_os = "linux")]
pub fn network(path: &Path) -> io::Result<Option<&'static str>> {
    Ok(network_name(magic(&rustix::fs::statfs(path)?)))
}

/// As [`network`], for an open file.
///
/// # Errors
/// Of looking it up.
#[cfg(target_os = "linux")]
pub fn network_of(file: &File) -> io::Result<Option<&'static str>> {
    Ok(network_name(magic(&rustix::fs::fstatfs(file)?)))
}

#[cfg(target_os = "linux")]
fn network_name(magic: u64) -> Option<&'static str> {
    match magic {
        0x6969 => Some("NFS"),
        0xff53_4d42 | 0xfe53_4d42 | 0x517b => Some("SMB/CIFS"),
        0x0102_1997 => Some("9p"),
        0x0bd0_0bd0 => Some("Lustre"),
        0x00c3_6400 => Some("Ceph"),
        0x5346_414f | 0x6b41_4653 => Some("AFS"),
        0x4750_4653 => Some("GPFS"),
        _ => None,
    }
}

/// Not detected on this system.
#[cfg(not(target_os = "linux"))]
pub fn network(_path: &Path) -> io::Result<Option<&'static str>> {
    Ok(None)
}

/// Not detected on this system.
#[cfg(not(target_os = "linux"))]
pub fn network_of(_file: &File) -> io::Result<Option<&'static str>> {
    Ok(None)
}

/// Whether a file is on an overlay, whose files have no pages of their own.
#[cfg(target_os = "linux")]
pub(crate) fn is_overlay(file: &File) -> bool {
    const OVERLAY: u64 = 0x794c_7630;
    rustix::fs::fstatfs(file).is_ok_and(|found| magic(&found) == OVERLAY)
}

/// Name of the file system: `ext4`, or its number in hexadecimal. None if unknown.
#[cfg(target_os = "linux")]
#[must_use]
pub fn file_system(path: &Path) -> Option<String> {
    Some(match magic(&rustix::fs::statfs(path).ok()?) {
        0xef53 => "ext4".into(),
        0x5846_5342 => "xfs".into(),
        0x9123_683e => "btrfs".into(),
        0x0102_1994 => "tmpfs".into(),
        0xf2f5_2010 => "f2fs".into(),
        0x794c_7630 => "overlayfs".into(),
        0x2fc1_2fc1 => "zfs".into(),
        other => format!("{other:#x}"),
    })
}

/// None: unknown on this system.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn file_system(_path: &Path) -> Option<String> {
    None
}

/// Identity of the file system, if any: from its UUID (ext4, btrfs, f2fs and others), which survives restarts, or the
/// device number.
#[must_use]
pub fn identity(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_fsid).filter(|&id| id != 0)
}

/// Major and minor number of a `MetadataExt::dev`.
#[must_use]
pub fn device_numbers(device: u64) -> (u32, u32) {
    (rustix::fs::major(device), rustix::fs::minor(device))
}

/// Bytes that this user can still write to the file system.
///
/// # Errors
/// Of looking it up.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let room = rustix::fs::statvfs(path)?;
    Ok(room.f_bavail.saturating_mul(room.f_frsize))
}

/// Whether [`sync`] makes all writes durable and reports earlier errors: not before Linux 5.8, nor on file systems
/// whose sync may not reach the disk.
///
/// # Errors
/// Of looking it up.
#[cfg(target_os = "linux")]
pub fn syncs_reliably(path: &Path) -> io::Result<bool> {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|number| number.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let magic = magic(&rustix::fs::statfs(path)?);
    // ext2 to ext4, XFS, Btrfs, F2FS.
    let known = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010];
    Ok(version >= (5, 8) && known.contains(&magic))
}

/// Makes all writes to the folder's file system durable. Fails if one has failed since the folder was opened.
///
/// # Errors
/// Of the disk.
#[cfg(target_os = "linux")]
pub fn sync(folder: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(folder)?)
}

/// Not supported on this system.
#[cfg(not(target_os = "linux"))]
pub fn syncs_reliably(_path: &Path) -> io::Result<bool> {
    Ok(false)
}

/// Not supported on this system.
///
/// # Errors
/// `Unsupported`.
#[cfg(not(target_os = "linux"))]
pub fn sync(_folder: &File) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_and_its_files_are_on_the_same_file_system() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"x").unwrap();
        assert_eq!(identity(folder.path()), identity(&path));
        assert_eq!(file_system(folder.path()), file_system(&path));
        let file = File::open(&path).unwrap();
        assert_eq!(network(folder.path()).unwrap(), network_of(&file).unwrap());
        assert!(free_bytes(folder.path()).unwrap() > 0);
        network(&path.join("missing")).unwrap_err();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn file_systems_are_told_apart() {
        assert_eq!(network_name(0x6969), Some("NFS"));
        assert_eq!(network_name(0xef53), None);
        // On every Linux, and without a disk to sync.
        let other = Path::new("/proc");
        assert_eq!(file_system(other).as_deref(), Some("0x9fa0"));
        assert!(!syncs_reliably(other).unwrap());
        assert_eq!(file_system(Path::new("/missing")), None);
    }
}
