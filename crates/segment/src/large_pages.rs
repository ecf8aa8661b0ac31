//! Large pages for much memory, and giving pages back.
//!
//! Memory that a process has not touched before is given to it page by page as it writes there, and each page of 4 KiB
//! costs a fault: of a result of 32 MiB that takes longer than computing it. Linux gives 2 MiB at once where it is asked to.
#![allow(unsafe_code)] // Advice to the system about memory is given by its address.

use std::mem::MaybeUninit;

/// Bytes from which on it is worth a system call; smaller memory is mostly used again by the allocator.
const LARGE: usize = 4 << 20;
/// A multiple of every system's pages.
#[cfg(target_os = "linux")]
const PAGE: usize = 1 << 16;

/// Asks the system to back memory that is about to be written for the first time by large pages, if there is much of it
/// and the system has them; changes neither what it holds nor how it is used.
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
        // SAFETY: the range begins at a page and lies inside `memory`. This advice says how pages that are not there yet
        // are to come; it leaves those alone that are. Where the system knows no such pages it says so, and all is as before.
        let _ = unsafe { madvise(whole.as_mut_ptr().cast(), bytes, Advice::LinuxHugepage) };
    }
}

/// Gives the pages of memory that is about to be freed back to the system, which an allocator may keep in this thread's
/// part of the heap, where other threads do not find it. What the memory holds behind that is zeros or what it was.
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
            // SAFETY: the range begins at a page and lies inside `memory`, to which nobody else has a reference. Its bytes
            // stay initialised: private memory reads as zeros from now on, a mapped file as the file. Where the system
            // refuses, as of memory that is locked, all is as before.
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
    fn memory_stays_as_it_was() {
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
    fn pages_are_given_back_and_nothing_beside_them() {
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
