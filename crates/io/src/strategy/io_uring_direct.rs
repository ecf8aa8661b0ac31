//! `io_uring_direct`: `io_uring` past the page cache.

use std::ops::Range;
use std::sync::Arc;

use super::io_uring::{refusal, start};
use super::{DataPath, IoStrategy, StartError, Strategy, direct};
use crate::scan::{Fallback, Prefetcher, ScanSpec, SourceFiles};

pub(crate) struct IoUringDirectStrategy;

impl IoStrategy for IoUringDirectStrategy {
    fn name(&self) -> &'static str {
        "io_uring_direct"
    }

    fn piece_bytes(&self) -> u64 {
        2 << 20
    }

    fn data_path(&self) -> DataPath {
        DataPath::DIRECT
    }

    fn uses_io_uring(&self) -> bool {
        true
    }

    fn fallback(&self, files: SourceFiles, first: &Range<i64>) -> Option<Fallback> {
        direct::fallback(files, first).or_else(|| {
            Some(Fallback {
                strategy: Strategy::Direct,
                why: refusal()?,
            })
        })
    }

    fn start(&self, scan: ScanSpec) -> Result<Arc<dyn Prefetcher>, StartError> {
        start(scan, true)
    }
}
