//! Scans by strategies that read each task's pieces ahead, into buffers: `direct` and both of `io_uring`.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::{Attempt, Fallback, Prefetcher, ReadOutcome, TaskReader};
use crate::error::IoError;
use crate::source::SampleSource;
use crate::strategy::Strategy;
use crate::system::OwnerProcess;

/// Reads pieces ahead, in one queue per task.
pub(crate) trait ReadAheadQueue: fmt::Debug + Send + Sync + 'static {
    /// Returns the id of the task's queue.
    fn begin_task(&self, task: u64, parts: &[Range<i64>]) -> u64;
    fn end_task(&self, queue: u64);
    /// A piece as it was read ahead, or, out of order, read now.
    fn take(&self, queue: u64, piece: &Range<i64>) -> Result<Attempt, IoError>;
    fn stop(&self);
}

#[derive(Debug)]
pub(crate) struct QueueScan<Q> {
    source: Arc<dyn SampleSource>,
    queue: Q,
    owner: OwnerProcess,
}

impl<Q: ReadAheadQueue> QueueScan<Q> {
    pub(crate) fn shared(source: Arc<dyn SampleSource>, queue: Q) -> Arc<dyn Prefetcher> {
        Arc::new(Self {
            source,
            queue,
            owner: OwnerProcess::current(),
        })
    }
}

impl<Q: ReadAheadQueue> Prefetcher for QueueScan<Q> {
    fn begin_task(self: Arc<Self>, task: u64, parts: &[Range<i64>]) -> Box<dyn TaskReader> {
        Box::new(QueueReader {
            queue: self.queue.begin_task(task, parts),
            scan: self,
        })
    }

    fn stop(&self) {
        if self.owner.check().is_ok() {
            self.queue.stop();
        }
    }

    fn survives_fork(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct QueueReader<Q: ReadAheadQueue> {
    scan: Arc<QueueScan<Q>>,
    queue: u64,
}

impl<Q: ReadAheadQueue> TaskReader for QueueReader<Q> {
    fn read(&mut self, range: &Range<i64>) -> Result<ReadOutcome, IoError> {
        let refused = |why| {
            Ok(ReadOutcome::FallBack(Fallback {
                strategy: Strategy::Read,
                why,
            }))
        };
        if let Err(error) = self.scan.owner.check() {
            return refused(error.to_string());
        }
        match self.scan.queue.take(self.queue, range)? {
            Attempt::Read(buffer) => ReadOutcome::copied(&self.scan.source, range, buffer),
            Attempt::FallBack(why) => refused(why),
        }
    }
}

impl<Q: ReadAheadQueue> Drop for QueueReader<Q> {
    fn drop(&mut self) {
        if self.scan.owner.check().is_ok() {
            self.scan.queue.end_task(self.queue);
        }
    }
}
