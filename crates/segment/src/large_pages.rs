//! Large pages for much memory.
//!
//! Memory that a process has not touched before is given to it page by page as it writes there, and each page of 4 KiB
//! costs a fault: of a result of 32 MiB that takes longer than computing it. Linux gives 2 MiB at once where it is asked to.
#![allow(unsafe_code)] // Advice to the system about memory is given by its address.

use std::mem::MaybeUninit;

/// Bytes from which on it is worth a system call; smaller memory is mostly used again by the allocator.
const LARGE: usize = 4 << 20;

/// Asks the system to back memory that is about to be written for the first time by large pages, if there is much of it
/// and the system has them; changes neither what it holds nor how it is used.
pub fn prefer_large_pages(memory: &mut [MaybeUninit<u8>]) {
    if memory.len() < LARGE {
        return;
    }
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};

        /// A multiple of every system's pages.
        const PAGE: usize = 1 << 16;

        let skipped = memory.as_ptr().addr().wrapping_neg() % PAGE;
        let whole = &mut memory[skipped..];
        let bytes = whole.len() / PAGE * PAGE;
        // SAFETY: the range begins at a page and lies inside `memory`. This advice says how pages that are not there yet
        // are to come; it leaves those alone that are. Where the system knows no such pages it says so, and all is as before.
        let _ = unsafe { madvise(whole.as_mut_ptr().cast(), bytes, Advice::LinuxHugepage) };
    }
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
}
