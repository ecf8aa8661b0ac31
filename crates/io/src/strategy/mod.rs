//! How the samples of a scan come from the disk into memory.
//!
//! A scan reads a signal piece by piece through a [`Reader`]. Whatever the strategy, the samples are the same; what
//! differs is who waits for the disk, who copies, and what stays in the page cache. `docs/design.md`, section 19, has the
//! reasons and what each costs on a Linux of today.

mod ahead;
mod files;
mod flights;
mod lanes;
pub(crate) mod pieces;
mod pool;
mod positions;
mod reader;
mod readers;
mod reading;
mod requests;
mod ring;
#[cfg(all(test, target_os = "linux"))]
mod tests;
// Where the crate that it rests on knows the kernel's structures.
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
    path = "no_uring.rs"
)]
mod uring;

use std::fmt;

use crate::error::IoError;

pub use ahead::prefetch;
pub(crate) use files::Files;
pub use lanes::Tasks;
pub use positions::Positions;
pub use reader::Reader;
pub use readers::Readers;
pub use reading::Reading;

/// How samples come from the disk into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Strategy {
    /// `pread` into a buffer that is used again: one copy, no page faults, memory that does not grow.
    Read,
    /// The file as it lies in the page cache, mapped: no copy, a page fault where the process has not been yet.
    Mmap,
    /// Mapped, and at each piece the system is asked to read twice its length from there on (the paper's Ptr-Readahead).
    Readahead,
    /// Mapped, and at the beginning the system is asked for all that the scan will need (the paper's Long-Readahead), as
    /// far ahead as half of the free memory.
    ReadaheadAll,
    /// Mapped, and the page tables of each piece are filled by one call before it is handed out, which a thread does 64 MiB
    /// ahead of the scan.
    Populate,
    /// Past the page cache into a ring of aligned buffers, filled by threads ahead of the scan.
    Direct,
    /// Into a ring of buffers that the kernel fills ahead of the scan by several requests at once, through an io_uring.
    IoUring,
    /// The same past the page cache.
    IoUringDirect,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Read,
        Self::Mmap,
        Self::Readahead,
        Self::ReadaheadAll,
        Self::Populate,
        Self::Direct,
        Self::IoUring,
        Self::IoUringDirect,
    ];

    /// Its name: `"read"`, `"mmap"`, `"readahead"`, `"readahead_all"`, `"populate"`, `"direct"`,
    /// `"io_uring"`, `"io_uring_direct"`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Mmap => "mmap",
            Self::Readahead => "readahead",
            Self::ReadaheadAll => "readahead_all",
            Self::Populate => "populate",
            Self::Direct => "direct",
            Self::IoUring => "io_uring",
            Self::IoUringDirect => "io_uring_direct",
        }
    }

    /// The strategy of a name.
    ///
    /// ```
    /// use isochrony_io::Strategy;
    /// assert_eq!(Strategy::parse("readahead").unwrap(), Strategy::Readahead);
    /// assert!(Strategy::parse("fread").is_err());
    /// ```
    ///
    /// # Errors
    /// [`IoError::UnknownStrategy`].
    pub fn parse(name: &str) -> Result<Self, IoError> {
        let found = Self::ALL.into_iter().find(|one| one.name() == name);
        found.ok_or_else(|| IoError::UnknownStrategy {
            name: name.into(),
            known: Self::ALL.map(Self::name).join(", "),
        })
    }

    /// Bytes of samples that are best read at a time: what is copied is to be in the processor's cache still when it is
    /// processed; past the page cache each request costs the disk's latency.
    #[must_use]
    pub const fn piece_bytes(self) -> u64 {
        match self {
            Self::Read | Self::IoUring => 512 << 10,
            Self::Direct | Self::IoUringDirect => 2 << 20,
            _ => 4 << 20,
        }
    }

    /// Whether samples are copied into buffers of the process.
    #[must_use]
    pub const fn copies(self) -> bool {
        matches!(self, Self::Read) || self.is_direct() || self.is_uring()
    }

    /// Whether samples are read past the page cache, so that it does not matter what is in it.
    #[must_use]
    pub const fn is_direct(self) -> bool {
        matches!(self, Self::Direct | Self::IoUringDirect)
    }

    /// Whether it asks the kernel through an io_uring.
    #[must_use]
    pub const fn is_uring(self) -> bool {
        matches!(self, Self::IoUring | Self::IoUringDirect)
    }

    /// What takes its place where the kernel grants no io_uring.
    const fn without_uring(self) -> Self {
        match self {
            Self::IoUring => Self::Read,
            Self::IoUringDirect => Self::Direct,
            other => other,
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
