//! Large pages for big allocations, and release of pages.
//!
//! The first write to each 4 KiB page costs a fault, which takes longer than computing a result of 32 MiB. On request,
//! Linux maps 2 MiB at once.
#![allow(unsafe_code)] // Advice to the system about memory is given by its address.

use std::mem::MaybeUninit;

/// Minimum size worth a system call; allocators mostly reuse smaller memory.
const LARGE: usize = 4 << 20;
/// A multiple of every system's page size.
#[cfg(target_os = "linux")]
const PAGE: usize = 1 << 16;

/// Advises the system to back new memory with large pages, if it is large; contents and use do not change.
pub fn prefer_large_pages(memory: &mut [MaybeUninit<u8>]) {
    if memory.len() < LARGE {
        return;
    }
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};

        let skipped = memory.as_ptr().addr().wrapping_neg() % PAGE;
        let whole = &mut memory[skipped..];
        let bytes = whole.len() / PAGE * PAGE;
        // SAFETY: the range is page-aligned and inside `memory`. The advice affects only pages not yet mapped, and
        // fails harmlessly where there are no large pages.
        let _ = unsafe { madvise(whole.as_mut_ptr().cast(), bytes, Advice::LinuxHugepage) };
    }
}

/// Returns the pages of memory about to be freed, which an allocator might keep in this thread's arena; contents become
/// undefined but initialised.
pub fn give_pages_back(memory: &mut [u8]) {
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};

        let skipped = memory.as_ptr().addr().wrapping_neg() % PAGE;
        let Some(whole) = memory.get_mut(skipped..) else {
            return;
        };
        let bytes = whole.len() / PAGE * PAGE;
        if bytes > 0 {
            // SAFETY: the range is page-aligned and inside `memory`, which has no other references. Its bytes stay
            // initialised: private memory reads as zeros, a mapped file as the file; if the system refuses (locked
            // memory), nothing changes.
            let _ = unsafe { madvise(whole.as_mut_ptr().cast(), bytes, Advice::LinuxDontNeed) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_do_not_change() {
        for (bytes, from) in [
            (0, 0),
            (100, 3),
            (LARGE, 0),
            (LARGE + 77, 1),
            (3 * LARGE, 70_001),
        ] {
            let mut memory: Vec<u8> = Vec::with_capacity(from + bytes);
            memory.resize(from, 7);
            prefer_large_pages(memory.spare_capacity_mut());
            memory.resize(from + bytes, 9);
            assert!(memory[..from].iter().all(|&byte| byte == 7));
            assert!(memory[from..].iter().all(|&byte| byte == 9));
        }
    }
    #[cfg(target_os = "linux")]
    #[test]
    fn releases_whole_pages_only() {
        let own = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("RssAnon"));
            let number = line.and_then(|line| line.split_whitespace().nth(1));
            number.unwrap().parse::<usize>().unwrap() << 10
        };
        let mut memory = vec![7u8; 64 << 20];
        let before = own();
        let (first, rest) = memory.split_at_mut(100_001);
        let (part, last) = rest.split_at_mut(60 << 20);
        give_pages_back(part);
        assert!(own() + (50 << 20) < before, "{} of {before}", own());
        assert!(first.iter().chain(&*last).all(|&byte| byte == 7));
        assert!(part.iter().all(|&byte| byte == 7 || byte == 0));
        for small in [0, 1, 5000, PAGE] {
            give_pages_back(&mut vec![1; small]);
        }
    }
}
