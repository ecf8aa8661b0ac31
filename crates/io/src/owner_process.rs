//! The process that began a scan.

use std::io;

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
