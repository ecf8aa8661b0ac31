//! What only the system can tell or do about the page cache: the one place of the strategies with calls of Linux alone.
#![allow(unsafe_code)] // Advice about mapped memory is given by its address; one call has no safe crate.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use isochrony_segment::{Buffer, BufferKind};

/// Asks the system to begin reading a range of a file into the page cache.
///
/// The kernel takes in at most its read-ahead window at a time and forgets the rest of the request, so it is asked
/// step by step.
#[cfg(target_os = "linux")]
pub(super) fn will_need(file: &File, range: Range<u64>, step: u64) -> io::Result<()> {
    let mut at = range.start;
    while at < range.end {
        let len = step.max(1).min(range.end - at);
        rustix::fs::fadvise(file, at, NonZeroU64::new(len), rustix::fs::Advice::WillNeed)?;
        at += len;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn will_need(_file: &File, _range: Range<u64>, _step: u64) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Gives the blocks of a range of a file back to the disk; its bytes are zeros from then on. `Ok(false)`: the file system
/// cannot, and keeps them.
#[cfg(target_os = "linux")]
pub(crate) fn punch_hole(file: &File, range: Range<u64>) -> io::Result<bool> {
    use rustix::fs::FallocateFlags;
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(file, how, range.start, range.end - range.start) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(false),
        Err(other) => Err(other.into()),
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn punch_hole(_file: &File, _range: Range<u64>) -> io::Result<bool> {
    Ok(false)
}

/// Bytes that one such request may ask for: the window of the file's disk where it is known, else what all have.
pub(super) fn read_ahead_window(file: &File) -> u64 {
    const LEAST: u64 = 128 << 10;
    let Ok(found) = file.metadata() else {
        return LEAST;
    };
    let (major, minor) = device_numbers(found.dev());
    let path = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    let kib = std::fs::read_to_string(path).ok();
    let kib = kib.and_then(|text| text.trim().parse::<u64>().ok());
    kib.map_or(LEAST, |kib| (kib << 10).clamp(LEAST, 4 << 20))
}

/// Major and minor number of a device.
pub(crate) fn device_numbers(device: u64) -> (u32, u32) {
    (rustix::fs::major(device), rustix::fs::minor(device))
}

/// Fills the page tables for mapped bytes, and reads what is not in the page cache. `Ok(false)`: the system cannot.
#[cfg(target_os = "linux")]
pub(super) fn populate(buffer: &Buffer) -> io::Result<bool> {
    if buffer.kind() != BufferKind::Mapped || buffer.is_empty() {
        return Ok(true);
    }
    let page = page_size();
    let skipped = buffer.as_ptr().addr() % page;
    let start = buffer.as_ptr().wrapping_sub(skipped).cast_mut();
    // SAFETY: the pages are those that `buffer` lies in, so they are mapped and stay so while it lives. This advice
    // changes no byte of them: it does what reading one byte of each would do, and reports what cannot be read.
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
pub(super) fn populate(_buffer: &Buffer) -> io::Result<bool> {
    Ok(false)
}

/// Bytes of a page of memory.
pub(crate) fn page_size() -> usize {
    // SAFETY: the call reads a number of the system and touches no memory of ours.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size)
        .ok()
        .filter(|size| size.is_power_of_two())
        .unwrap_or(4096)
}

/// Opens a file for reading past the page cache.
#[cfg(target_os = "linux")]
pub(super) fn open_direct(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn open_direct(_path: &Path) -> io::Result<File> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Memory that programs can still have, in bytes.
pub(crate) fn free_memory() -> u64 {
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

    #[test]
    fn a_request_behind_the_end_is_none() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(100).unwrap();
        #[cfg(target_os = "linux")]
        will_need(&file, 0..1 << 20, 128 << 10).unwrap();
        assert!(read_ahead_window(&file) >= 128 << 10);
        assert!(free_memory() > 0);
    }
}
