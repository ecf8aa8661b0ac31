//! `mmap`: samples as the source has them, in the page cache. Each new page costs a fault.

use std::ops::Range;
use std::sync::Arc;

use super::{CostModel, IoStrategy, StartError};
use crate::error::IoError;
use crate::scan::{Outcome, Prefetcher, ScanSpec, TaskReader};
use crate::source::Source;

pub(crate) struct Mmap;

impl Mmap {
    /// A scan that prepares nothing, also of sources that are decoded.
    pub(crate) fn scan(source: &Arc<dyn Source>) -> Arc<dyn Prefetcher> {
        Arc::new(MmapScan(source.clone()))
    }
}

impl IoStrategy for Mmap {
    fn name(&self) -> &'static str {
        "mmap"
    }

    fn piece_bytes(&self) -> u64 {
        4 << 20
    }

    fn cost_model(&self) -> CostModel {
        CostModel::MAPPED
    }

    fn start(&self, scan: ScanSpec) -> Result<Arc<dyn Prefetcher>, StartError> {
        Ok(Self::scan(&scan.source))
    }
}

#[derive(Debug)]
struct MmapScan(Arc<dyn Source>);

impl Prefetcher for MmapScan {
    fn begin_task(self: Arc<Self>, _task: u64, _parts: &[Range<i64>]) -> Box<dyn TaskReader> {
        Box::new(MmapReader(self.0.clone()))
    }
}

#[derive(Debug)]
struct MmapReader(Arc<dyn Source>);

impl TaskReader for MmapReader {
    fn read(&mut self, range: &Range<i64>) -> Result<Outcome, IoError> {
        Outcome::as_stored(&self.0, range)
    }
}
