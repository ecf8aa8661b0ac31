//! Page cache state and page faults, for measurements.
#![allow(unsafe_code)] // One call has no safe crate; costs of mapping show only by mapping.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::time::Instant;

/// Drops cached pages that are neither mapped nor dirty.
pub(crate) fn drop_cached(file: &File) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?;
    #[cfg(not(target_os = "linux"))]
    let _ = file;
    Ok(())
}

/// None if the system cannot tell: before Linux 6.5, for other users' files, and on overlays, which have no pages.
#[cfg(target_os = "linux")]
pub(crate) fn cached(file: &File, range: Range<u64>) -> Option<u64> {
    use std::os::fd::AsRawFd;
    /// The same on all architectures except Alpha.
    const CACHESTAT: libc::c_long = 451;
    const OVERLAY: u64 = 0x794c_7630;
    if range.is_empty() {
        return Some(0);
    }
    let kind = rustix::fs::fstatfs(file).map(|found| found.f_type as u64 & 0xffff_ffff);
    if kind.is_ok_and(|kind| kind == OVERLAY) {
        return None;
    }
    let asked = [range.start, range.end - range.start];
    let mut told = [0u64; 5];
    // SAFETY: the call reads the two numbers of `asked` (offset, length) and writes the five of `told`, as Linux
    // defines both; the descriptor is open while `file` is.
    let done = unsafe {
        libc::syscall(
            CACHESTAT,
            file.as_raw_fd(),
            asked.as_ptr(),
            told.as_mut_ptr(),
            0,
        )
    };
    let bytes = told[0] * crate::system::page_size() as u64;
    (done == 0).then_some(bytes.min(asked[1]))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn cached(_file: &File, _range: Range<u64>) -> Option<u64> {
    None
}

/// Minor and major page faults of this thread.
#[cfg(target_os = "linux")]
pub(crate) fn faults() -> (u64, u64) {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call fills the structure, for which zeros are valid.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    (usage.ru_minflt as u64, usage.ru_majflt as u64)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn faults() -> (u64, u64) {
    (0, 0)
}

/// Seconds per fault: reads a byte in every `stride` of an uncached file. None if most reads did not fault, or the file
/// cannot be mapped.
pub(crate) fn major_fault(file: &File, stride: usize) -> Option<f64> {
    drop_cached(file).ok()?;
    // SAFETY: a calibration's own file, which nobody writes or truncates while this mapping lives.
    let mapped = unsafe { memmap2::Mmap::map(file) }.ok()?;
    mapped.advise(memmap2::Advice::Random).ok()?;
    let before = faults().1;
    let begun = Instant::now();
    let mut touched = 0u64;
    for at in (0..mapped.len()).step_by(stride.max(1)) {
        std::hint::black_box(mapped[at]);
        touched += 1;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let faults = faults().1 - before;
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
    fn faults_are_counted() {
        let before = faults();
        std::hint::black_box(vec![1u8; 64 << 20]);
        #[cfg(target_os = "linux")]
        assert!(faults().0 > before.0);
        #[cfg(not(target_os = "linux"))]
        assert_eq!(faults(), before);
    }
}
