//! What only the operating system can tell: the one place with Linux-only calls.

use std::io;
use std::path::Path;

/// Identity of the running system; changes when it restarts.
pub(crate) fn boot_id() -> String {
    #[cfg(target_os = "linux")]
    if let Ok(text) = std::fs::read_to_string("/proc/sys/kernel/random/boot_id") {
        return text.trim().to_owned();
    }
    // Unknown: never equal to a stored one, so recovery does more than it must.
    uuid::Uuid::new_v4().to_string()
}

/// Name of this machine.
pub(crate) fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// The network file system that `path` is on, if it is on one.
///
/// FUSE counts as local: most of it is (ntfs-3g, mergerfs, encfs), and its locks and mappings are the kernel's own.
/// 9p and virtiofs share a host's folder without coherent locks, so they count as network.
#[cfg(target_os = "linux")]
pub(super) fn network(path: &Path) -> io::Result<Option<&'static str>> {
    let magic = rustix::fs::statfs(path)?.f_type as u64 & 0xffff_ffff;
    Ok(match magic {
        0x6969 => Some("NFS"),
        0xff53_4d42 | 0xfe53_4d42 | 0x517b => Some("SMB/CIFS"),
        0x0102_1997 => Some("9p"),
        0x0bd0_0bd0 => Some("Lustre"),
        0x00c3_6400 => Some("Ceph"),
        0x5346_414f | 0x6b41_4653 => Some("AFS"),
        0x4750_4653 => Some("GPFS"),
        _ => None,
    })
}

/// The network file system that `path` is on, if it is on one: not known here.
#[cfg(not(target_os = "linux"))]
pub(super) fn network(_path: &Path) -> io::Result<Option<&'static str>> {
    Ok(None)
}
