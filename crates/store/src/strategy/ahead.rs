//! Asking the system to read what will be needed, before it is.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::files::Files;
use super::pieces::Pieces;
use super::system::{self, Process};

/// Requests for ranges of samples.
#[derive(Debug)]
pub(crate) struct Ahead {
    files: Files,
    /// Index up to which was asked.
    asked: i64,
    /// Most bytes of one request, once a file was seen.
    step: Option<u64>,
}

impl Ahead {
    pub(crate) fn new(files: Files) -> Self {
        Self {
            files,
            asked: 0,
            step: None,
        }
    }

    /// Asks for twice a piece from its beginning on: what it needs itself, and what comes behind it.
    pub(super) fn twice(&mut self, piece: &Range<i64>) {
        let len = piece.end - piece.start;
        let signal = self.files.signal();
        let until = piece.start.saturating_add(2 * len).min(signal.end_index());
        // Of a gap there is nothing to read, and if it is as long as a shard no file.
        let gap = signal.gaps().first_within(piece.start..until);
        let until = gap.map_or(until, |gap| gap.start);
        // What the last piece asked for need not be asked for again, unless the scan has jumped.
        let from = match self.asked {
            asked if piece.start <= asked && asked <= until => asked,
            _ => piece.start,
        };
        let _ = self.ask(from..until);
        self.asked = until;
    }

    /// Asks for a range, of how many bytes with success. It is advice: whoever reads says what is wrong with the samples.
    pub(crate) fn ask(&mut self, range: Range<i64>) -> u64 {
        let mut bytes = 0;
        for span in self.files.spans(&range) {
            let Ok(Some(shard)) = self.files.shard(&span) else {
                continue;
            };
            let Some(file) = shard.file.as_os_file() else {
                continue;
            };
            let step = *(self.step).get_or_insert_with(|| system::read_ahead_window(file));
            if system::will_need(file, span.offset..span.offset + span.len, step).is_ok() {
                bytes += span.len;
            }
        }
        bytes
    }
}

/// How far a thread is ahead of a scan.
#[derive(Debug, Default)]
struct Distance {
    /// Bytes that the scan was given.
    given: AtomicU64,
    stop: AtomicBool,
}

/// A thread that asks for all that a scan will need.
#[derive(Debug)]
pub(super) struct AllAhead {
    distance: Arc<Distance>,
    thread: Option<JoinHandle<()>>,
    owner: Process,
}

impl AllAhead {
    /// Begins at once; no further ahead than half of the free memory, for what the system reads beyond that drives out
    /// what was read before.
    pub(super) fn begin(files: Files, pieces: Pieces) -> std::io::Result<Self> {
        Self::within(files, pieces, (system::free_memory() / 2).max(64 << 20))
    }

    /// Begins at once, and stays so many bytes ahead at most.
    pub(super) fn within(files: Files, pieces: Pieces, most: u64) -> std::io::Result<Self> {
        let distance = Arc::new(Distance::default());
        let shared = distance.clone();
        let size = files.signal().dtype().size() as u64;
        let thread = std::thread::Builder::new()
            .name("isochrony-ahead".into())
            .spawn(move || {
                let mut ahead = Ahead::new(files);
                let mut asked = 0;
                for piece in pieces {
                    let bytes = (piece.end - piece.start).cast_unsigned() * size;
                    while asked + bytes > shared.given.load(Ordering::Acquire) + most {
                        if shared.stop.load(Ordering::Acquire) {
                            return;
                        }
                        std::thread::park_timeout(Duration::from_millis(50));
                    }
                    if shared.stop.load(Ordering::Acquire) {
                        return;
                    }
                    let _ = ahead.ask(piece);
                    asked += bytes;
                }
            })?;
        Ok(Self {
            distance,
            thread: Some(thread),
            owner: Process::current(),
        })
    }

    /// The scan was given so many bytes more.
    pub(super) fn gave(&self, bytes: u64) {
        self.distance.given.fetch_add(bytes, Ordering::AcqRel);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for AllAhead {
    fn drop(&mut self) {
        if self.owner.check().is_err() {
            // The thread is not here to be waited for.
            std::mem::forget(self.thread.take());
            return;
        }
        self.distance.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It ends after the request that it makes now; a panic there was advice not given.
            let _ = thread.join();
        }
    }
}
