//! I/O strategies.
//!
//! All give the same samples. They differ in which thread waits for the disk, whether samples are copied, and whether
//! they stay in the page cache: `docs/design/io_strategies.md`.
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

/// Generates [`Strategy`]: variants in order, with their documentation.
macro_rules! strategies {
    ($($(#[doc = $doc:literal])+ $variant:ident = $implementation:path,)+) => {
        /// How samples get from disk into memory.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Strategy {
            $($(#[doc = $doc])+ $variant,)+
        }

        const COUNT: usize = [$(stringify!($variant)),+].len();

        impl Strategy {
            /// All strategies.
            pub const ALL: [Self; COUNT] = [$(Self::$variant),+];

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
    /// Maps the file; at each piece the kernel is advised to read ahead twice its length (Ptr-Readahead of Smith,
    /// 2010).
    Readahead = readahead::ReadaheadStrategy,
    /// Maps the file; a thread advises the kernel to read the whole scan ahead, up to half of the free memory
    /// (Long-Readahead of Smith, 2010).
    ReadaheadAll = readahead_all::ReadaheadAllStrategy,
    /// Maps the file; a thread fills the page tables 64 MiB ahead.
    Populate = populate::PopulateStrategy,
    /// Reads past the page cache (`O_DIRECT`) into aligned buffers, filled ahead by threads.
    Direct = direct::DirectStrategy,
    /// Reads into buffers that the kernel fills ahead, several requests at once, through an io_uring.
    IoUring = io_uring::IoUringStrategy,
    /// As `io_uring`, bypassing the page cache (`O_DIRECT`).
    IoUringDirect = io_uring_direct::IoUringDirectStrategy,
    /// For stores at URLs: several ranges of objects at a time, ahead of the scan.
    RangeRequests = range_requests::RangeRequestsStrategy,
}

pub(crate) trait IoStrategy: Sync {
    /// Its permanent name in options, reports and machine profiles.
    fn name(&self) -> &'static str;

    /// Bytes per read. Small for strategies that copy, so that the copy stays in the CPU cache; large for those that
    /// bypass the page cache, where each request costs a disk access.
    fn piece_bytes(&self) -> u64;

    fn data_path(&self) -> DataPath;

    fn uses_io_uring(&self) -> bool {
        false
    }

    /// Whether it reads files on other machines.
    fn is_remote(&self) -> bool {
        false
    }

    /// Whether it reads files that cannot be memory-mapped, such as some on network file systems.
    fn reads_any_file(&self) -> bool {
        false
    }

    /// None if this strategy can read these files, else the strategy to use instead, and why. `first`: first piece of a
    /// scan.
    fn fallback(&self, _files: SourceFiles, _first: &Range<i64>) -> Option<Fallback> {
        None
    }

    fn start(&self, scan: ScanSpec) -> Result<Arc<dyn Prefetcher>, StartError>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DataPath {
    /// Samples are copied into a reused buffer: consumers see no page faults.
    pub(crate) copies: bool,
    pub(crate) bypasses_page_cache: bool,
}

impl DataPath {
    pub(crate) const MAPPED: Self = Self {
        copies: false,
        bypasses_page_cache: false,
    };
    pub(crate) const COPIED: Self = Self {
        copies: true,
        bypasses_page_cache: false,
    };
    pub(crate) const DIRECT: Self = Self {
        copies: true,
        bypasses_page_cache: true,
    };
}

#[derive(Debug)]
pub(crate) enum StartError {
    Thread(io::Error),
    /// The strategy was available when [`IoStrategy::fallback`] was asked, but failed to start: use this one.
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
        self.implementation().data_path().copies
    }

    /// Whether samples bypass the page cache.
    #[must_use]
    pub fn bypasses_page_cache(self) -> bool {
        self.implementation().data_path().bypasses_page_cache
    }

    /// Strategies for files of this machine: all except [`is_remote`](Self::is_remote).
    pub fn local() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|one| !one.is_remote())
    }

    /// Whether it reads stores on other machines.
    #[must_use]
    pub fn is_remote(self) -> bool {
        self.implementation().is_remote()
    }

    /// Whether it uses an io_uring.
    #[must_use]
    pub fn uses_io_uring(self) -> bool {
        self.implementation().uses_io_uring()
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod names_and_documents {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_strategy_has_a_unique_name() {
        let names: BTreeSet<_> = Strategy::ALL.map(Strategy::name).into();
        assert_eq!(names.len(), Strategy::ALL.len());
        for one in Strategy::ALL {
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
