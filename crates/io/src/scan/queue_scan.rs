//! Scans that read each task's pieces ahead into buffers.

use std::fmt;
use std::io::ErrorKind;
use std::ops::Range;
use std::sync::Arc;

use isochrony_segment::Buffer;

use super::{Attempt, Fallback, Prefetcher, ReadOutcome, TaskReader};
use crate::error::IoError;
use crate::owner_process::OwnerProcess;
use crate::source::SampleSource;
use crate::strategy::Strategy;

pub(crate) trait ReadAheadQueue: fmt::Debug + Send + Sync + 'static {
    /// Returns the task's queue.
    fn begin_task(&self, task: u64, parts: &[Range<i64>]) -> u64;
    fn end_task(&self, queue: u64);
    /// The request with the piece; read now if unexpected.
    fn take(&self, queue: u64, piece: &Range<i64>) -> Result<(Range<i64>, Attempt), IoError>;
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
            last: None,
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
    /// The last request, if it had more than one piece.
    last: Option<(Range<i64>, Buffer)>,
}

impl<Q: ReadAheadQueue> QueueReader<Q> {
    fn within_last(&self, piece: &Range<i64>) -> Option<Buffer> {
        let (range, buffer) = self.last.as_ref()?;
        if piece.start < range.start || range.end < piece.end {
            return None;
        }
        let size = self.scan.source.dtype().size();
        let byte = |index: i64| (index - range.start) as usize * size;
        buffer.slice(byte(piece.start)..byte(piece.end))
    }
}

impl<Q: ReadAheadQueue> TaskReader for QueueReader<Q> {
    fn read(&mut self, piece: &Range<i64>) -> Result<ReadOutcome, IoError> {
        let refused = |why| {
            Ok(ReadOutcome::FallBack(Fallback {
                strategy: Strategy::Read,
                why,
            }))
        };
        if let Err(error) = self.scan.owner.check() {
            return refused(error.to_string());
        }
        let source = &self.scan.source;
        if let Some(buffer) = self.within_last(piece) {
            return ReadOutcome::copied(source, piece, buffer);
        }
        self.last = None;
        match self.scan.queue.take(self.queue, piece) {
            Ok((request, Attempt::Read(buffer))) if request == *piece => {
                ReadOutcome::copied(source, piece, buffer)
            }
            Ok((request, Attempt::Read(buffer))) => {
                self.last = Some((request, buffer));
                match self.within_last(piece) {
                    Some(buffer) => ReadOutcome::copied(source, piece, buffer),
                    None => ReadOutcome::as_stored(source, piece),
                }
            }
            Ok((_, Attempt::FallBack(why))) => refused(why),
            // The file was replaced: the source reopens it, and checks that it holds the same samples.
            Err(IoError::System { source: error, .. })
                if error.kind() == ErrorKind::StaleNetworkFileHandle =>
            {
                ReadOutcome::as_stored(source, piece)
            }
            Err(error) => Err(error),
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
