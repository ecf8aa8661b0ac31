//! `readahead`: mapped, with advice at each piece to read twice its length.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::{DataPath, IoStrategy, StartError};
use crate::error::IoError;
use crate::scan::{
    Prefetcher, ReadAdvice, ReadOutcome, ScanSpec, SourceFiles, SparePool, TaskReader,
};
use crate::source::SampleSource;

/// Pages further back may have been evicted.
const REMEMBERED_PIECES: i64 = 64;

pub(crate) struct ReadaheadStrategy;

impl IoStrategy for ReadaheadStrategy {
    fn name(&self) -> &'static str {
        "readahead"
    }

    fn piece_bytes(&self) -> u64 {
        4 << 20
    }

    fn data_path(&self) -> DataPath {
        DataPath::MAPPED
    }

    fn start(&self, scan: ScanSpec) -> Result<Arc<dyn Prefetcher>, StartError> {
        Ok(Arc::new(ReadaheadScan {
            requested: RequestedRanges::new(scan.readers),
            source: scan.source,
            spares: SparePool::default(),
        }))
    }
}

#[derive(Debug)]
struct ReadaheadScan {
    source: Arc<dyn SampleSource>,
    requested: RequestedRanges,
    spares: SparePool<ReadAdvice>,
}

impl Prefetcher for ReadaheadScan {
    fn begin_task(self: Arc<Self>, _task: u64, _parts: &[Range<i64>]) -> Box<dyn TaskReader> {
        let spare = self.spares.take();
        let advice = spare.unwrap_or_else(|| ReadAdvice::new(SourceFiles::new(&self.source)));
        Box::new(ReadaheadReader {
            scan: self,
            advice: Some(advice),
        })
    }
}

#[derive(Debug)]
struct ReadaheadReader {
    scan: Arc<ReadaheadScan>,
    /// Set until dropped.
    advice: Option<ReadAdvice>,
}

impl TaskReader for ReadaheadReader {
    fn read(&mut self, range: &Range<i64>) -> Result<ReadOutcome, IoError> {
        let source = &self.scan.source;
        if let Some(advice) = &mut self.advice {
            let len = range.end - range.start;
            let until = range.start.saturating_add(2 * len).min(source.end());
            // A shard-sized gap has no file.
            let gap = source.gap_within(range.start..until);
            let until = gap.map_or(until, |gap| gap.start);
            advice.request(self.scan.requested.add(range.start..until, len));
        }
        ReadOutcome::as_stored(source, range)
    }
}

impl Drop for ReadaheadReader {
    fn drop(&mut self) {
        self.scan.spares.put(self.advice.take());
    }
}

#[derive(Debug)]
struct RequestedRanges {
    /// One per reader, the latest last.
    ranges: Mutex<Vec<Range<i64>>>,
    readers: usize,
}

impl RequestedRanges {
    /// `readers`: concurrent readers.
    fn new(readers: usize) -> Self {
        Self {
            ranges: Mutex::default(),
            readers,
        }
    }

    /// Returns the part not requested before. `len`: samples per piece.
    fn add(&self, range: Range<i64>, len: i64) -> Range<i64> {
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut rest, mut all) = (range.clone(), range);
        ranges.retain(|one| {
            if all.start > one.end || one.start > all.end {
                return true;
            }
            if one.start <= rest.start {
                rest.start = rest.start.max(one.end);
            } else if one.end >= rest.end {
                // Tasks may come in another order.
                rest.end = rest.end.min(one.start);
            }
            all = all.start.min(one.start)..all.end.max(one.end);
            false
        });
        let oldest = all
            .end
            .saturating_sub(len.saturating_mul(REMEMBERED_PIECES));
        all.start = all.start.max(oldest);
        ranges.push(all);
        if ranges.len() > self.readers {
            ranges.remove(0);
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_requested_once_for_any_task_order() {
        let requested = RequestedRanges::new(1);
        assert_eq!(requested.add(0..200, 100), 0..200);
        assert_eq!(requested.add(100..300, 100), 200..300);
        assert_eq!(requested.add(500..700, 100), 500..700);
        assert_eq!(requested.add(400..600, 100), 400..500);
        assert!(requested.add(600..700, 100).is_empty());
        // After a jump, pages may have been evicted.
        assert_eq!(requested.add(0..200, 100), 0..200);
        for start in (100..20_000).step_by(100) {
            assert_eq!(
                requested.add(start..start + 200, 100),
                start + 100..start + 200
            );
        }
        assert_eq!(requested.add(0..200, 100), 0..200);
        assert_eq!(requested.add(300..500, 100), 300..500);
        assert_eq!(requested.add(200..600, 100), 200..600);
    }

    #[test]
    fn distant_readers_keep_each_others_requests() {
        let requested = RequestedRanges::new(2);
        let tasks = [0, 100_000];
        for task in tasks {
            assert_eq!(requested.add(task..task + 200, 100), task..task + 200);
        }
        for at in (100..99_900).step_by(100) {
            for start in tasks.map(|task| task + at) {
                assert_eq!(
                    requested.add(start..start + 200, 100),
                    start + 100..start + 200
                );
            }
        }
        assert_eq!(requested.add(99_900..100_100, 100), 100_000..100_100);
        assert_eq!(requested.add(199_900..200_100, 100), 200_000..200_100);
        assert_eq!(requested.add(200_000..200_200, 100), 200_100..200_200);
    }
}
