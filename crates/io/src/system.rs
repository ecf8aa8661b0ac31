//! System calls for files, page cache and memory. Linux-only ones are here and in `page_cache.rs`.
#![allow(unsafe_code)] // Advice about mapped memory takes its address; one call has no safe crate.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;

use isochrony_segment::{Buffer, BufferKind};

use crate::source::ShardFile;

/// A forked process has none of its parent's threads, and shares its io_uring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OwnerProcess(u32);

impl OwnerProcess {
    pub(crate) fn current() -> Self {
        Self(std::process::id())
    }

    pub(crate) fn check(self) -> io::Result<()> {
        match self == Self::current() {
            true => Ok(()),
            false => Err(io::Error::other(
                "this process was forked off during the scan, and reading ahead stays with its parent; begin a scan of its \
                 own here",
            )),
        }
    }
}

/// Advises to read a range ahead, in steps, since the kernel serves only one read-ahead window per request.
#[cfg(target_os = "linux")]
pub(crate) fn will_need(file: &File, range: Range<u64>, step: u64) -> io::Result<()> {
    let mut at = range.start;
    while at < range.end {
        let len = step.max(1).min(range.end - at);
        rustix::fs::fadvise(file, at, NonZeroU64::new(len), rustix::fs::Advice::WillNeed)?;
        at += len;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn will_need(_file: &File, _range: Range<u64>, _step: u64) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Frees the disk blocks of a range, which then reads as zeros. `Ok(false)`: not supported.
#[cfg(target_os = "linux")]
pub fn punch_hole(file: &File, range: Range<u64>) -> io::Result<bool> {
    use rustix::fs::FallocateFlags;
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(file, how, range.start, range.end - range.start) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(false),
        Err(other) => Err(other.into()),
    }
}

#[cfg(not(target_os = "linux"))]
pub fn punch_hole(_file: &File, _range: Range<u64>) -> io::Result<bool> {
    Ok(false)
}

/// If known. Cached by disk, since the look-up takes as long as some requests.
pub(crate) fn read_ahead_window(file: &File) -> u64 {
    const MIN_WINDOW: u64 = 128 << 10;
    static KNOWN_WINDOWS: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());
    let Ok(found) = file.metadata() else {
        return MIN_WINDOW;
    };
    // Never blocks: in a forked process, the thread that holds the lock may not exist.
    let mut known = KNOWN_WINDOWS.try_lock().ok();
    let same = |known: &&(u64, u64)| known.0 == found.dev();
    if let Some(&(_, window)) = known.as_ref().and_then(|known| known.iter().find(same)) {
        return window;
    }
    let (major, minor) = device_numbers(found.dev());
    let path = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    let kib = std::fs::read_to_string(path).ok();
    let kib = kib.and_then(|text| text.trim().parse::<u64>().ok());
    let window = kib.map_or(MIN_WINDOW, |kib| (kib << 10).clamp(MIN_WINDOW, 4 << 20));
    if let Some(known) = &mut known {
        known.push((found.dev(), window));
    }
    window
}

pub(crate) fn device_numbers(device: u64) -> (u32, u32) {
    (rustix::fs::major(device), rustix::fs::minor(device))
}

/// Fills page tables, reading what is not cached. `Ok(false)`: not supported.
#[cfg(target_os = "linux")]
pub(crate) fn populate(buffer: &Buffer) -> io::Result<bool> {
    if buffer.kind() != BufferKind::Mapped || buffer.is_empty() {
        return Ok(true);
    }
    let page = page_size();
    let skipped = buffer.as_ptr().addr() % page;
    let start = buffer.as_ptr().wrapping_sub(skipped).cast_mut();
    // SAFETY: the pages are those of `buffer`, which stay mapped while it lives. The advice changes no byte: it acts
    // like reading a byte of each page, and reports what cannot be read.
    let done = unsafe {
        rustix::mm::madvise(
            start.cast(),
            buffer.len() + skipped,
            rustix::mm::Advice::LinuxPopulateRead,
        )
    };
    match done {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::INVAL) => Ok(false),
        Err(other) => Err(other.into()),
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn populate(_buffer: &Buffer) -> io::Result<bool> {
    Ok(false)
}

pub(crate) fn page_size() -> usize {
    // SAFETY: the call touches no memory of ours.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size)
        .ok()
        .filter(|size| size.is_power_of_two())
        .unwrap_or(4096)
}

#[cfg(target_os = "linux")]
pub(crate) fn open_direct(shard: &dyn ShardFile) -> io::Result<File> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let file = shard.reopen()?;
    // The flag belongs to this open file description.
    fcntl_setfl(&file, fcntl_getfl(&file)? | OFlags::DIRECT)?;
    Ok(file)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn open_direct(_shard: &dyn ShardFile) -> io::Result<File> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Writes cached bytes to the disk and waits. Makes nothing durable, but leaves less to the following sync.
#[cfg(target_os = "linux")]
pub fn write_back(file: &File, bytes: std::ops::Range<u64>) {
    use std::os::fd::AsRawFd;

    const ALL: libc::c_uint = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    let end = bytes.end.min(i64::MAX.cast_unsigned());
    let start = bytes.start.min(end);
    if start == end {
        // The system call takes zero bytes as up to the end of the file.
        return;
    }
    // SAFETY: the descriptor is open while `file` is borrowed; the call touches no memory of ours. The sync that
    // follows reports errors.
    unsafe {
        libc::sync_file_range(
            file.as_raw_fd(),
            start.cast_signed(),
            (end - start).cast_signed(),
            ALL,
        );
    }
}

#[cfg(not(target_os = "linux"))]
pub fn write_back(_file: &File, _bytes: std::ops::Range<u64>) {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) logical: u64,
    pub(crate) physical: u64,
    pub(crate) length: u64,
}

/// In file order. None if the file system cannot tell, has not allocated them yet, or has very many.
#[cfg(target_os = "linux")]
pub(crate) fn extents(file: &File) -> io::Result<Option<Vec<Extent>>> {
    use std::os::fd::AsRawFd;

    const MAX_EXTENTS: usize = 512;
    const FIEMAP: u32 = 0xc020_660b;
    /// Unknown, not allocated yet, or inline in the inode.
    const UNUSABLE_FLAGS: u32 = 0x2 | 0x4 | 0x200;
    /// Defined in `linux/fiemap.h`.
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct FiemapExtent {
        logical: u64,
        physical: u64,
        length: u64,
        reserved: [u64; 2],
        flags: u32,
        more: [u32; 3],
    }
    #[repr(C)]
    struct ExtentRequest {
        start: u64,
        length: u64,
        flags: u32,
        mapped: u32,
        count: u32,
        reserved: u32,
        extents: [FiemapExtent; MAX_EXTENTS],
    }
    let none = FiemapExtent {
        logical: 0,
        physical: 0,
        length: 0,
        reserved: [0; 2],
        flags: 0,
        more: [0; 3],
    };
    let mut asked = Box::new(ExtentRequest {
        start: 0,
        length: u64::MAX,
        flags: 0,
        mapped: 0,
        count: MAX_EXTENTS as u32,
        reserved: 0,
        extents: [none; MAX_EXTENTS],
    });
    // SAFETY: the descriptor is open while `file` is borrowed. The request takes a `struct fiemap` followed by `count`
    // extents, which is what `ExtentRequest` is; the kernel writes to nothing else.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP as _, &raw mut *asked) };
    if done != 0 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::EINVAL | libc::ENOSYS) => Ok(None),
            _ => Err(error),
        };
    }
    let found = &asked.extents[..(asked.mapped as usize).min(MAX_EXTENTS)];
    if found.len() == MAX_EXTENTS || found.iter().any(|one| one.flags & UNUSABLE_FLAGS != 0) {
        return Ok(None);
    }
    let extents = found.iter().map(|one| Extent {
        logical: one.logical,
        physical: one.physical,
        length: one.length,
    });
    Ok(Some(extents.collect()))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn extents(_file: &File) -> io::Result<Option<Vec<Extent>>> {
    Ok(None)
}

/// Memory available to programs, in bytes.
pub fn free_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(1 << 30, |kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn extents_of_a_file_are_all_that_is_written_in_order_or_unknown() {
        use std::os::unix::fs::FileExt;
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 1 << 20], 0).unwrap();
        file.write_all_at(&[7; 1 << 20], 8 << 20).unwrap();
        file.sync_all().unwrap();
        // Some file systems, such as tmpfs, cannot tell.
        let Some(found) = extents(&file).unwrap() else {
            return;
        };
        let covered: u64 = found.iter().map(|one| one.length).sum();
        assert_eq!(covered, 2 << 20);
        assert!(found.iter().all(|one| {
            let end = one.logical + one.length;
            end <= 1 << 20 || (8 << 20) <= one.logical && end <= 9 << 20
        }));
        for pair in found.windows(2) {
            assert!(pair[0].logical + pair[0].length <= pair[1].logical);
        }
    }

    #[test]
    fn a_request_beyond_the_end_is_no_error() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(100).unwrap();
        #[cfg(target_os = "linux")]
        will_need(&file, 0..1 << 20, 128 << 10).unwrap();
        assert!(read_ahead_window(&file) >= 128 << 10);
        assert!(free_memory() > 0);
    }
}
