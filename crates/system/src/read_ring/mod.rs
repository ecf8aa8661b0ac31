//! File reads in flight: the system fills memory meanwhile.
#![allow(unsafe_code)] // An implementer promises that its memory stays.

use std::io::{self, ErrorKind};
use std::os::fd::RawFd;

use rustix::io::Errno;

// Where the io_uring crate knows the kernel's structures.
#[cfg_attr(
    not(all(
        target_os = "linux",
        any(
            target_arch = "x86_64",
            target_arch = "aarch64",
            target_arch = "riscv64",
            target_arch = "loongarch64",
            target_arch = "powerpc64"
        )
    )),
    path = "unsupported.rs"
)]
mod ring;

pub use ring::ReadRing;

/// Part of a file and its memory.
#[derive(Debug, Clone, Copy)]
pub struct ReadPart {
    /// Descriptor of the open file.
    pub file: RawFd,
    /// Offset in the file.
    pub offset: u64,
    /// First byte to write to.
    pub memory: *mut u8,
    /// Bytes to read at most.
    pub len: usize,
}

/// Files and memory of a read, which a [`ReadRing`] owns until the read is complete.
///
/// # Safety
/// From the call of [`parts`](Self::parts) until the value is dropped or used again, also if it is moved:
/// - each descriptor stays open and refers to the same file;
/// - the memory of each part stays valid for writes, and no one else reads, writes or refers to it.
pub unsafe trait ReadTarget {
    /// Number of parts.
    fn part_count(&self) -> usize;

    /// The parts, in any order. None if someone else has a view of the memory, or it is too short: nothing is read.
    fn parts(&mut self) -> Option<Vec<ReadPart>>;
}

/// A read that is complete.
#[derive(Debug)]
pub struct CompletedRead<T> {
    /// What was submitted.
    pub target: T,
    /// Bytes read per part; 0 if it failed.
    pub got: Vec<usize>,
}

/// Remedy for an error of [`ReadRing::new`], as the end of a sentence; empty if unknown.
#[must_use]
pub fn remedy(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::ACCESS) => {
            "; the profile of a container may forbid it, or sysctl kernel.io_uring_disabled, which 0 allows"
        }
        Some(Errno::NOSYS | Errno::INVAL) => "; it needs Linux 5.6 or later",
        None if error.kind() == ErrorKind::Unsupported => "; it needs Linux 5.6 or later",
        Some(Errno::NOMEM) => "; before Linux 5.12 its memory counts as locked: raise `ulimit -l`",
        Some(Errno::MFILE) => "; raise `ulimit -n`",
        _ => "",
    }
}

#[cfg(test)]
mod remedy_tests {
    use super::*;

    #[test]
    fn a_refusal_has_a_remedy() {
        for (errno, mend) in [
            (Errno::PERM, "kernel.io_uring_disabled"),
            (Errno::NOSYS, "Linux 5.6 or later"),
            (Errno::NOMEM, "`ulimit -l`"),
            (Errno::MFILE, "`ulimit -n`"),
        ] {
            let told = remedy(&errno.into());
            assert!(told.contains(mend), "{told}");
        }
        assert!(remedy(&ErrorKind::Unsupported.into()).contains("Linux 5.6 or later"));
        assert_eq!(remedy(&ErrorKind::NotFound.into()), "");
    }
}
