//! A thread that reads ahead into the page cache or page tables.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use isochrony_runtime::start_helper;

use super::PieceIter;
use crate::owner_process::OwnerProcess;

/// Bounds the delay of a lost wake-up.
const PARK_TIMEOUT: Duration = Duration::from_millis(50);

#[derive(Debug)]
struct ScanProgress {
    consumed: AtomicU64,
    furthest: AtomicI64,
    stop: AtomicBool,
}

#[derive(Debug, Default)]
struct Lead {
    done: u64,
    /// If parts ascend: ends of pieces ahead, with the bytes up to there.
    ends: VecDeque<(i64, u64)>,
    passed: u64,
}

impl Lead {
    fn bytes(&mut self, scan: &ScanProgress, ascends: bool) -> u64 {
        if !ascends {
            return self
                .done
                .saturating_sub(scan.consumed.load(Ordering::Acquire));
        }
        // By position: tasks overlap and repeat.
        let furthest = scan.furthest.load(Ordering::Acquire);
        while let Some(&(end, done)) = self.ends.front()
            && end <= furthest
        {
            self.passed = done;
            self.ends.pop_front();
        }
        self.done - self.passed
    }

    fn add(&mut self, piece: &Range<i64>, bytes: u64, ascends: bool) {
        self.done += bytes;
        if ascends {
            self.ends.push_back((piece.end, self.done));
        }
    }
}

#[derive(Debug)]
pub(crate) struct PrefetchThread {
    progress: Arc<ScanProgress>,
    sample_bytes: u64,
    thread: Option<JoinHandle<()>>,
    owner: OwnerProcess,
}

impl PrefetchThread {
    /// Calls `read` with pieces at most `limit` bytes ahead of the scan, until it returns false.
    pub(crate) fn start(
        pieces: PieceIter,
        limit: u64,
        mut read: impl FnMut(Range<i64>) -> bool + Send + 'static,
    ) -> io::Result<Self> {
        let progress = Arc::new(ScanProgress {
            consumed: AtomicU64::new(0),
            furthest: AtomicI64::new(i64::MIN),
            stop: AtomicBool::new(false),
        });
        let shared = progress.clone();
        let sample_bytes = pieces.source().dtype().size() as u64;
        let mut neighbours = pieces.parts().windows(2);
        let ascends = neighbours.all(|two| two[0].end <= two[1].start);
        let thread = start_helper("ahead", move || {
            let mut lead = Lead::default();
            for piece in pieces {
                let bytes = (piece.end - piece.start).cast_unsigned() * sample_bytes;
                while lead.bytes(&shared, ascends) + bytes > limit {
                    if shared.stop.load(Ordering::Acquire) {
                        return;
                    }
                    std::thread::park_timeout(PARK_TIMEOUT);
                }
                lead.add(&piece, bytes, ascends);
                if shared.stop.load(Ordering::Acquire) || !read(piece) {
                    return;
                }
            }
        })?;
        Ok(Self {
            progress,
            sample_bytes,
            thread: Some(thread),
            owner: OwnerProcess::current(),
        })
    }

    #[cfg(test)]
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    pub(crate) fn consumed(&self, range: &Range<i64>) {
        let bytes = (range.end - range.start).cast_unsigned() * self.sample_bytes;
        self.progress.consumed.fetch_add(bytes, Ordering::AcqRel);
        self.progress
            .furthest
            .fetch_max(range.end, Ordering::AcqRel);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for PrefetchThread {
    fn drop(&mut self) {
        if self.owner.check().is_err() {
            // A forked process has no thread.
            std::mem::forget(self.thread.take());
            return;
        }
        self.progress.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic there only stops read-ahead.
            let _ = thread.join();
        }
    }
}
