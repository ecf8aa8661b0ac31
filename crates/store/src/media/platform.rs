//! Operating system functions: the only Linux-specific calls.
#![allow(unsafe_code)] // One system call that no safe crate has.

use std::io;
use std::path::Path;

pub(crate) fn boot_id() -> String {
    #[cfg(target_os = "linux")]
    if let Ok(text) = std::fs::read_to_string("/proc/sys/kernel/random/boot_id") {
        return text.trim().to_owned();
    }
    // Unknown: never equals a stored one, so recovery does more than necessary.
    uuid::Uuid::new_v4().to_string()
}

pub(crate) fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// `None` if local.
///
/// FUSE counts as local: most of it is (ntfs-3g, mergerfs, encfs), and the kernel handles its locks and mappings. 9p
/// and virtiofs share a host's folder without coherent locks, so they count as network.
#[cfg(target_os = "linux")]
pub(super) fn network(path: &Path) -> io::Result<Option<&'static str>> {
    Ok(network_name(&rustix::fs::statfs(path)?))
}

/// As [`network`], for an open file.
#[cfg(target_os = "linux")]
pub(super) fn network_of(file: &std::fs::File) -> io::Result<Option<&'static str>> {
    Ok(network_name(&rustix::fs::fstatfs(file)?))
}

#[cfg(target_os = "linux")]
fn network_name(volume: &rustix::fs::StatFs) -> Option<&'static str> {
    match volume.f_type as u64 & 0xffff_ffff {
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

/// Not detected on this platform.
#[cfg(not(target_os = "linux"))]
pub(super) fn network(_path: &Path) -> io::Result<Option<&'static str>> {
    Ok(None)
}

/// Not detected on this platform.
#[cfg(not(target_os = "linux"))]
pub(super) fn network_of(_file: &std::fs::File) -> io::Result<Option<&'static str>> {
    Ok(None)
}

/// False for kernels before 5.8, which do not report earlier write errors, and for other file systems, where the sync
/// may not reach the disk.
#[cfg(target_os = "linux")]
pub(super) fn syncs_volumes(path: &Path) -> io::Result<bool> {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|number| number.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let magic = rustix::fs::statfs(path)?.f_type as u64 & 0xffff_ffff;
    // ext2 to ext4, XFS, Btrfs, F2FS.
    let known = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010];
    Ok(version >= (5, 8) && known.contains(&magic))
}

#[cfg(target_os = "linux")]
pub(super) fn sync_volume(folder: &std::fs::File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(folder)?)
}

/// Not supported on this platform.
#[cfg(not(target_os = "linux"))]
pub(super) fn syncs_volumes(_path: &Path) -> io::Result<bool> {
    Ok(false)
}

/// Not supported on this platform.
#[cfg(not(target_os = "linux"))]
pub(super) fn sync_volume(_folder: &std::fs::File) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Hint without waiting: makes nothing durable; the next sync reports errors.
#[cfg(target_os = "linux")]
pub(super) fn begin_writing_back(file: &std::fs::File, offset: u64, len: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let number = |bytes: u64| i64::try_from(bytes).map_err(io::Error::other);
    let (offset, len) = (number(offset)?, number(len)?);
    let flags = libc::SYNC_FILE_RANGE_WRITE;
    // SAFETY: the descriptor is open as long as `file` is; the call takes numbers and accesses no memory of ours.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Left to the system on this platform.
#[cfg(not(target_os = "linux"))]
pub(super) fn begin_writing_back(_file: &std::fs::File, _offset: u64, _len: u64) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_back_ahead_of_a_sync() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shard");
        std::fs::write(&path, vec![1; 3 << 20]).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        begin_writing_back(&file, 1 << 20, 1 << 20).unwrap();
        // Past the end nothing happens; an overflowing offset is an error.
        begin_writing_back(&file, 8 << 20, 8 << 20).unwrap();
        #[cfg(target_os = "linux")]
        begin_writing_back(&file, u64::MAX, 1).unwrap_err();
    }
}
