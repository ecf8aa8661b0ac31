//! `mmap`: samples in the page cache. Each new page costs a fault.

use std::ops::Range;
use std::sync::Arc;

use super::{DataPath, IoStrategy, StartError};
use crate::error::IoError;
use crate::scan::{Prefetcher, ReadOutcome, ScanSpec, TaskReader};
use crate::source::SampleSource;

pub(crate) struct MmapStrategy;

impl MmapStrategy {
    /// A scan without preparation, also of decoded sources.
    pub(crate) fn scan(source: &Arc<dyn SampleSource>) -> Arc<dyn Prefetcher> {
        Arc::new(MmapScan(source.clone()))
    }
}

impl IoStrategy for MmapStrategy {
    fn name(&self) -> &'static str {
        "mmap"
    }

    fn piece_bytes(&self) -> u64 {
        4 << 20
    }

    fn data_path(&self) -> DataPath {
        DataPath::MAPPED
    }

    fn start(&self, scan: ScanSpec) -> Result<Arc<dyn Prefetcher>, StartError> {
        Ok(Self::scan(&scan.source))
    }
}

#[derive(Debug)]
struct MmapScan(Arc<dyn SampleSource>);

impl Prefetcher for MmapScan {
    fn begin_task(self: Arc<Self>, _task: u64, _parts: &[Range<i64>]) -> Box<dyn TaskReader> {
        Box::new(MmapReader(self.0.clone()))
    }
}

#[derive(Debug)]
struct MmapReader(Arc<dyn SampleSource>);

impl TaskReader for MmapReader {
    fn read(&mut self, range: &Range<i64>) -> Result<ReadOutcome, IoError> {
        ReadOutcome::as_stored(&self.0, range)
    }
}
