//! I/O strategies.
//!
//! All give the same samples. They differ in who waits for the disk, who copies and what the page cache keeps:
//! `docs/design/io_strategies.md`.
//!
//! A strategy is one file here that implements [`IoStrategy`], and one entry of the table below.

mod direct;
mod io_uring;
mod io_uring_direct;
mod mmap;
mod populate;
mod range_requests;
mod read;
mod readahead;
mod readahead_all;
#[cfg(all(test, target_os = "linux"))]
mod tests;

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::error::IoError;
use crate::scan::{Fallback, Prefetcher, ScanSpec, SourceFiles};

pub(crate) use mmap::MmapStrategy;

/// Generates [`Strategy`]: variants in order, with help.
macro_rules! strategies {
    ($($(#[doc = $help:literal])+ $variant:ident = $implementation:path,)+) => {
        /// How samples get from disk into memory.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Strategy {
            $($(#[doc = $help])+ $variant,)+
        }

        const COUNT: usize = [$(stringify!($variant)),+].len();

        impl Strategy {
            /// All strategies.
            pub const ALL: [Self; COUNT] = [$(Self::$variant),+];

            /// Description for users.
            #[must_use]
            pub const fn help(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($help),+).trim_ascii(),)+
                }
            }

            pub(crate) fn implementation(self) -> &'static dyn IoStrategy {
                match self {
                    $(Self::$variant => &$implementation,)+
                }
            }
        }
    };
}

strategies! {
    /// `pread` into a reused buffer: one copy, no page faults, bounded memory.
    Read = read::ReadStrategy,
    /// Maps the file in the page cache: no copy, page faults on first access.
    Mmap = mmap::MmapStrategy,
    /// Mapped, with advice at each piece to read ahead twice its length (the paper's Ptr-Readahead).
    Readahead = readahead::ReadaheadStrategy,
    /// Mapped. A thread advises the whole scan, up to half of the free memory ahead (the paper's Long-Readahead).
    ReadaheadAll = readahead_all::ReadaheadAllStrategy,
    /// Mapped. A thread fills the page tables 64 MiB ahead.
    Populate = populate::PopulateStrategy,
    /// Bypasses the page cache (`O_DIRECT`) into aligned buffers, filled ahead by threads.
    Direct = direct::DirectStrategy,
    /// Into buffers filled ahead by the kernel, several requests at once, through an io_uring.
    IoUring = io_uring::IoUringStrategy,
    /// The same, bypassing the page cache (`O_DIRECT`).
    IoUringDirect = io_uring_direct::IoUringDirectStrategy,
    /// For stores at URLs: several ranges of objects at a time, ahead of the scan.
    RangeRequests = range_requests::RangeRequestsStrategy,
}

pub(crate) trait IoStrategy: Sync {
    /// Its permanent name in options, reports and machine profiles.
    fn name(&self) -> &'static str;

    /// Copies should stay in the CPU cache; past the page cache each request costs the disk's latency.
    fn piece_bytes(&self) -> u64;

    fn cost_model(&self) -> CostModel;

    fn uses_io_uring(&self) -> bool {
        false
    }

    /// For files on other machines.
    fn is_remote(&self) -> bool {
        false
    }

    /// Can read unmappable files, such as on network file systems.
    fn reads_any_file(&self) -> bool {
        false
    }

    /// None if available, else its replacement. `first`: first piece of a scan.
    fn fallback(&self, _files: SourceFiles, _first: &Range<i64>) -> Option<Fallback> {
        None
    }

    fn start(&self, scan: ScanSpec) -> Result<Arc<dyn Prefetcher>, StartError>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CostModel {
    /// Copied samples: in the CPU cache, without page faults.
    pub(crate) copies: bool,
    /// Samples bypass the page cache.
    pub(crate) direct: bool,
}

impl CostModel {
    pub(crate) const MAPPED: Self = Self {
        copies: false,
        direct: false,
    };
    pub(crate) const COPIED: Self = Self {
        copies: true,
        direct: false,
    };
    pub(crate) const DIRECT: Self = Self {
        copies: true,
        direct: true,
    };
}

#[derive(Debug)]
pub(crate) enum StartError {
    Thread(io::Error),
    /// It became unavailable after [`IoStrategy::fallback`].
    FallBack(Fallback),
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Thread(error)
    }
}

impl Strategy {
    /// Its name, such as `"readahead_all"`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.implementation().name()
    }

    /// Parses a strategy's name.
    ///
    /// ```
    /// use isochrony_io::Strategy;
    /// assert_eq!(Strategy::parse("readahead")?, Strategy::Readahead);
    /// assert!(Strategy::parse("fread").is_err());
    /// # Ok::<(), isochrony_io::IoError>(())
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

    /// Bytes per read.
    #[must_use]
    pub fn piece_bytes(self) -> u64 {
        self.implementation().piece_bytes()
    }

    /// Whether samples are copied into buffers.
    #[must_use]
    pub fn copies(self) -> bool {
        self.implementation().cost_model().copies
    }

    /// Whether samples bypass the page cache.
    #[must_use]
    pub fn is_direct(self) -> bool {
        self.implementation().cost_model().direct
    }

    /// Strategies for files of this machine: all except [`is_remote`](Self::is_remote).
    pub fn local() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|one| !one.is_remote())
    }

    /// Whether it is for stores on other machines.
    #[must_use]
    pub fn is_remote(self) -> bool {
        self.implementation().is_remote()
    }

    /// Whether it uses an io_uring.
    #[must_use]
    pub fn is_uring(self) -> bool {
        self.implementation().uses_io_uring()
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod table {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_strategy_has_a_unique_name_and_help() {
        let names: BTreeSet<_> = Strategy::ALL.map(Strategy::name).into();
        assert_eq!(names.len(), Strategy::ALL.len());
        for one in Strategy::ALL {
            assert!(one.help().ends_with('.'), "{one}: {}", one.help());
            assert_eq!(Strategy::parse(one.name()).unwrap(), one);
        }
    }

    #[test]
    fn documents_describe_every_strategy() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let read = |path| std::fs::read_to_string(root.join(path)).unwrap();
        let (page, scan) = (
            read("docs/design/io_strategies.md"),
            read("python/isochrony/plan/sources.py"),
        );
        for one in Strategy::ALL {
            assert!(page.contains(&format!("\n| `{one}` | ")), "{one}");
            assert!(scan.contains(&format!("``\"{one}\"``")), "{one}");
        }
    }
}
