//! The system's cache of file pages.
#![allow(unsafe_code)] // Some calls have no safe crate; costs of mapping show only by mapping.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;
use std::time::Instant;

use crate::usage::page_faults;

/// Advises to read a range ahead, in steps: the system serves one window per request.
///
/// # Errors
/// Of the system; `Unsupported` without such advice.
#[cfg(target_os = "linux")]
pub fn will_need(file: &File, range: Range<u64>, step: u64) -> io::Result<()> {
    let mut at = range.start;
    while at < range.end {
        let len = step.max(1).min(range.end - at);
        let len_or_rest = std::num::NonZeroU64::new(len);
        rustix::fs::fadvise(file, at, len_or_rest, rustix::fs::Advice::WillNeed)?;
        at += len;
    }
    Ok(())
}

/// Not supported on this system.
///
/// # Errors
/// `Unsupported`.
#[cfg(not(target_os = "linux"))]
pub fn will_need(_file: &File, _range: Range<u64>, _step: u64) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Advises that a file is read from front to back.
pub fn advise_sequential(file: &File) {
    #[cfg(target_os = "linux")]
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Sequential);
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}

/// Bytes that the system reads ahead at once from a file's disk; 128 KiB if unknown. Cached by disk.
#[must_use]
pub fn read_ahead_window(file: &File) -> u64 {
    const MIN_WINDOW: u64 = 128 << 10;
    static KNOWN_WINDOWS: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());
    let Ok(found) = file.metadata() else {
        return MIN_WINDOW;
    };
    // Never blocks: after a fork, the thread that holds the lock may not exist.
    let mut known = KNOWN_WINDOWS.try_lock().ok();
    let same = |known: &&(u64, u64)| known.0 == found.dev();
    if let Some(&(_, window)) = known.as_ref().and_then(|known| known.iter().find(same)) {
        return window;
    }
    let (major, minor) = crate::volume::device_numbers(found.dev());
    let path = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    let kib = std::fs::read_to_string(path).ok();
    let kib = kib.and_then(|text| text.trim().parse::<u64>().ok());
    let window = kib.map_or(MIN_WINDOW, |kib| (kib << 10).clamp(MIN_WINDOW, 4 << 20));
    if let Some(known) = &mut known {
        known.push((found.dev(), window));
    }
    window
}

/// Makes reads and writes of an open file bypass the cache; offsets, lengths and memory must be aligned to blocks.
///
/// # Errors
/// Of the system; `Unsupported` where no file can.
#[cfg(target_os = "linux")]
pub fn bypass(file: &File) -> io::Result<()> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    // The flag belongs to this open file description.
    Ok(fcntl_setfl(file, fcntl_getfl(file)? | OFlags::DIRECT)?)
}

/// Not supported on this system.
///
/// # Errors
/// `Unsupported`.
#[cfg(not(target_os = "linux"))]
pub fn bypass(_file: &File) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Fills page tables for mapped bytes, reading what is not cached. `Ok(false)`: not supported.
///
/// # Errors
/// Of reading.
#[cfg(target_os = "linux")]
pub fn populate(mapped: &[u8]) -> io::Result<bool> {
    if mapped.is_empty() {
        return Ok(true);
    }
    let skipped = mapped.as_ptr().addr() % crate::memory::page_size();
    let start = mapped.as_ptr().wrapping_sub(skipped).cast_mut();
    // SAFETY: the pages stay mapped while `mapped` is borrowed. The advice changes no byte.
    let done = unsafe {
        rustix::mm::madvise(
            start.cast(),
            mapped.len() + skipped,
            rustix::mm::Advice::LinuxPopulateRead,
        )
    };
    match done {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::INVAL) => Ok(false),
        Err(other) => Err(other.into()),
    }
}

/// `Ok(false)`: not supported on this system.
#[cfg(not(target_os = "linux"))]
pub fn populate(_mapped: &[u8]) -> io::Result<bool> {
    Ok(false)
}

/// Writes cached bytes to the disk and waits. Makes nothing durable; the next sync reports errors.
#[cfg(target_os = "linux")]
pub fn write_back(file: &File, bytes: Range<u64>) {
    const ALL: libc::c_uint = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    let end = bytes.end.min(i64::MAX.cast_unsigned());
    let start = bytes.start.min(end);
    if start == end {
        // Zero bytes would mean up to the end of the file.
        return;
    }
    let _ = sync_range(file, start.cast_signed(), (end - start).cast_signed(), ALL);
}

/// Left to the system here.
#[cfg(not(target_os = "linux"))]
pub fn write_back(_file: &File, _bytes: Range<u64>) {}

/// Begins to write cached bytes to the disk. Makes nothing durable; the next sync reports errors.
///
/// # Errors
/// Of the system, or an offset beyond 2^63.
#[cfg(target_os = "linux")]
pub fn begin_writing_back(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let number = |bytes: u64| i64::try_from(bytes).map_err(io::Error::other);
    let (offset, len) = (number(offset)?, number(len)?);
    sync_range(file, offset, len, libc::SYNC_FILE_RANGE_WRITE)
}

/// Left to the system here.
#[cfg(not(target_os = "linux"))]
pub fn begin_writing_back(_file: &File, _offset: u64, _len: u64) -> io::Result<()> {
    Ok(())
}

#[cfg(target_os = "linux")]
fn sync_range(file: &File, offset: i64, len: i64, flags: libc::c_uint) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    // SAFETY: `file` keeps the descriptor open; the call accesses no memory of ours.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Drops cached pages that are neither mapped nor dirty.
///
/// # Errors
/// Of the system.
pub fn drop_cached(file: &File) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?;
    #[cfg(not(target_os = "linux"))]
    let _ = file;
    Ok(())
}

/// Cached bytes of a range. None if unknown: before Linux 6.5, for other users' files, and on overlays.
#[cfg(target_os = "linux")]
#[must_use]
pub fn cached(file: &File, range: Range<u64>) -> Option<u64> {
    use std::os::fd::AsRawFd;
    /// The same on all architectures except Alpha.
    const CACHESTAT: libc::c_long = 451;
    if range.is_empty() {
        return Some(0);
    }
    if crate::volume::is_overlay(file) {
        return None;
    }
    let asked = [range.start, range.end - range.start];
    let mut told = [0u64; 5];
    // SAFETY: the call reads the two numbers of `asked` (offset, length) and writes the five of `told`; `file` keeps
    // the descriptor open.
    let done = unsafe {
        libc::syscall(
            CACHESTAT,
            file.as_raw_fd(),
            asked.as_ptr(),
            told.as_mut_ptr(),
            0,
        )
    };
    let bytes = told[0] * crate::memory::page_size() as u64;
    (done == 0).then_some(bytes.min(asked[1]))
}

/// None: this system cannot tell.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn cached(_file: &File, _range: Range<u64>) -> Option<u64> {
    None
}

/// Seconds per page fault that reads: touches a byte per `stride` of an uncached file. None if most touches did not
/// fault, or the file cannot be mapped. Truncating the file meanwhile ends the process.
#[must_use]
pub fn fault_seconds(file: &File, stride: usize) -> Option<f64> {
    drop_cached(file).ok()?;
    let mapped = memmap2::MmapOptions::new().map_raw_read_only(file).ok()?;
    mapped.advise(memmap2::Advice::Random).ok()?;
    let before = page_faults().1;
    let begun = Instant::now();
    let mut touched = 0u64;
    for at in (0..mapped.len()).step_by(stride.max(1)) {
        // SAFETY: `at` is inside the mapping, which lives until the end of this function.
        std::hint::black_box(unsafe { mapped.as_ptr().add(at).read_volatile() });
        touched += 1;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let faults = page_faults().1 - before;
    (faults > 0 && faults * 2 >= touched).then(|| seconds / faults as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_pages_are_cached_and_can_be_dropped() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![1; 1 << 20]).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        let Some(before) = cached(&file, 0..1 << 20) else {
            return; // not supported by this kernel
        };
        assert_eq!(before, 1 << 20);
        drop_cached(&file).unwrap();
        assert!(cached(&file, 0..1 << 20).unwrap() <= before);
        assert_eq!(cached(&file, 5..5), Some(0));
    }

    #[test]
    fn a_request_beyond_the_end_is_no_error() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(100).unwrap();
        #[cfg(target_os = "linux")]
        will_need(&file, 0..1 << 20, 128 << 10).unwrap();
        assert!(read_ahead_window(&file) >= 128 << 10);
    }

    #[test]
    fn writes_back_ahead_of_a_sync() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shard");
        std::fs::write(&path, vec![1; 3 << 20]).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        begin_writing_back(&file, 1 << 20, 1 << 20).unwrap();
        begin_writing_back(&file, 8 << 20, 8 << 20).unwrap();
        #[cfg(target_os = "linux")]
        begin_writing_back(&file, u64::MAX, 1).unwrap_err();
        for range in [0..3 << 20, 5..5, 8 << 20..u64::MAX] {
            write_back(&file, range);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn bytes_within_a_page_are_populated_with_their_pages() {
        let memory = vec![7u8; 1 << 16];
        // Before Linux 5.14: not supported.
        let is_supported = populate(&memory).unwrap();
        assert_eq!(populate(&memory[5000..5001]).unwrap(), is_supported);
        assert!(populate(&[]).unwrap());
        assert!(memory.iter().all(|&byte| byte == 7));
    }
}
