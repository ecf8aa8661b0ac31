//! Concurrent readers of a scan.
//!
//! Each task has a [`PieceReader`]. Read-ahead, files and buffers are shared.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::{Fallback, PieceReader, Prefetcher, Reading, ScanSpec, TaskParts};
use crate::error::{ErrorContext, IoError};
use crate::owner_process::OwnerProcess;
use crate::source::SampleSource;
use crate::strategy::{MmapStrategy, StartError, Strategy};

/// State shared by the readers of a scan.
pub struct ScanReaders {
    source: Arc<dyn SampleSource>,
    piece: i64,
    prefetcher: Arc<dyn Prefetcher>,
    reading: Reading,
    /// In use since a reader was refused.
    fallback: OnceLock<(Fallback, Arc<dyn Prefetcher>)>,
    owner: OwnerProcess,
}

impl ScanReaders {
    /// Readers of pieces of at most `piece` samples, plus a short end. Up to `at_once` readers run the tasks, numbered
    /// from 0 in expected order.
    ///
    /// # Errors
    /// [`IoError::System`] if a thread cannot be started.
    pub fn new(
        source: &Arc<dyn SampleSource>,
        parts: &[Range<i64>],
        piece: i64,
        strategy: Strategy,
        at_once: usize,
        tasks: TaskParts,
    ) -> Result<Arc<Self>, IoError> {
        let mut reading = Reading::foresee(source, parts, strategy);
        let scan = ScanSpec {
            source: source.clone(),
            parts: parts.to_vec(),
            piece,
            readers: at_once.max(1),
            tasks,
        };
        let started = match reading.used {
            Some(used) => used.implementation().start(scan),
            // The source decodes it.
            None => Ok(MmapStrategy::scan(source)),
        };
        let prefetcher = match started {
            Ok(prefetcher) => prefetcher,
            Err(StartError::FallBack(fallback)) => {
                let prefetcher = unprepared(source, fallback.strategy);
                reading.replace(&fallback);
                prefetcher
            }
            Err(StartError::Thread(error)) => {
                return Err(error).with_path("begin a thread that reads", source.folder());
            }
        };
        Ok(Arc::new(Self {
            source: source.clone(),
            piece,
            prefetcher,
            reading,
            fallback: OnceLock::new(),
            owner: OwnerProcess::current(),
        }))
    }

    /// The reader of a task. Tasks may be omitted, repeated or unexpected.
    #[must_use]
    pub fn begin(self: &Arc<Self>, task: u64, parts: &[Range<i64>]) -> PieceReader {
        if !self.prefetcher.survives_fork()
            && let Err(error) = self.owner.check()
        {
            self.fall_back(&Fallback {
                strategy: Strategy::Read,
                why: error.to_string(),
            });
        }
        let mut reading = self.reading.clone();
        let prefetcher = match self.fallback.get() {
            Some((fallback, prefetcher)) => {
                reading.replace(fallback);
                prefetcher
            }
            None => &self.prefetcher,
        };
        PieceReader::of(self, prefetcher.clone().begin_task(task, parts), reading)
    }

    pub(super) fn source(&self) -> &Arc<dyn SampleSource> {
        &self.source
    }

    pub(super) fn piece(&self) -> i64 {
        self.piece
    }

    /// All readers would be refused alike.
    pub(super) fn fall_back(&self, fallback: &Fallback) -> &Arc<dyn Prefetcher> {
        let mut is_first = false;
        let (_, prefetcher) = self.fallback.get_or_init(|| {
            is_first = true;
            let prefetcher = unprepared(&self.source, fallback.strategy);
            (fallback.clone(), prefetcher)
        });
        if is_first {
            self.prefetcher.stop();
        }
        prefetcher
    }
}

fn unprepared(source: &Arc<dyn SampleSource>, strategy: Strategy) -> Arc<dyn Prefetcher> {
    let scan = ScanSpec {
        source: source.clone(),
        parts: Vec::new(),
        piece: 1,
        readers: 1,
        tasks: Box::new(std::iter::empty()),
    };
    let started = strategy.implementation().start(scan);
    started.unwrap_or_else(|_| MmapStrategy::scan(source))
}

impl fmt::Debug for ScanReaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScanReaders")
            .field("reading", &self.reading)
            .finish_non_exhaustive()
    }
}
