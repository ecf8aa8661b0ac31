//! Asking the system to read what will be needed, before it is.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::files::Files;
use super::pieces::Pieces;
use super::system::{self, Process};

/// What was asked for is remembered for so many pieces; what lies further back may have been driven out of the cache.
const REMEMBERED: i64 = 64;

/// The indices that were asked for last by the readers of a signal together.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Those that a reader goes on from each, the latest last.
    asked: Mutex<Vec<Range<i64>>>,
    readers: usize,
}

impl Wanted {
    /// `readers`: how many of them scan at once, each elsewhere.
    pub(super) fn new(readers: usize) -> Self {
        Self {
            asked: Mutex::default(),
            readers,
        }
    }

    /// What of a range was not asked for; from now on it was. `len`: of a piece.
    fn rest(&self, range: Range<i64>, len: i64) -> Range<i64> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut rest, mut all) = (range.clone(), range);
        asked.retain(|one| {
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
        let oldest = all.end.saturating_sub(len.saturating_mul(REMEMBERED));
        all.start = all.start.max(oldest);
        asked.push(all);
        if asked.len() > self.readers {
            // That scan has jumped, or is over.
            asked.remove(0);
        }
        rest
    }
}

/// Requests for ranges of samples.
#[derive(Debug)]
pub(crate) struct Ahead {
    files: Files,
    /// Most bytes of one request, once a file was seen.
    step: Option<u64>,
}

impl Ahead {
    pub(crate) fn new(files: Files) -> Self {
        Self { files, step: None }
    }

    /// Asks for twice a piece from its beginning on: what it needs itself, and what comes behind it.
    pub(super) fn twice(&mut self, piece: &Range<i64>, wanted: &Wanted) {
        let len = piece.end - piece.start;
        let signal = self.files.signal();
        let until = piece.start.saturating_add(2 * len).min(signal.end_index());
        // Of a gap there is nothing to read, and if it is as long as a shard no file.
        let gap = signal.gaps().first_within(piece.start..until);
        let until = gap.map_or(until, |gap| gap.start);
        // What others asked for, or the last piece, need not be asked for again.
        let _ = self.ask(wanted.rest(piece.start..until, len));
    }

    /// Asks for a range, of how many bytes with success. It is advice: whoever reads says what is wrong with the samples.
    pub(crate) fn ask(&mut self, range: Range<i64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_is_not_asked_for_again_in_whatever_order_tasks_come() {
        let wanted = Wanted::new(1);
        assert_eq!(wanted.rest(0..200, 100), 0..200);
        assert_eq!(wanted.rest(100..300, 100), 200..300);
        // Another reader, a task ahead, and then the one before it.
        assert_eq!(wanted.rest(500..700, 100), 500..700);
        assert_eq!(wanted.rest(400..600, 100), 400..500);
        assert!(wanted.rest(600..700, 100).is_empty());
        // The scan has jumped: pages may be gone.
        assert_eq!(wanted.rest(0..200, 100), 0..200);
        for start in (100..20_000).step_by(100) {
            assert_eq!(
                wanted.rest(start..start + 200, 100),
                start + 100..start + 200
            );
        }
        assert_eq!(wanted.rest(0..200, 100), 0..200);
        // What lies around all that was asked for is asked for as a whole.
        assert_eq!(wanted.rest(300..500, 100), 300..500);
        assert_eq!(wanted.rest(200..600, 100), 200..600);
    }

    #[test]
    fn readers_that_are_far_apart_do_not_forget_what_each_other_asked_for() {
        let wanted = Wanted::new(2);
        let tasks = [0, 100_000];
        for task in tasks {
            assert_eq!(wanted.rest(task..task + 200, 100), task..task + 200);
        }
        for at in (100..99_900).step_by(100) {
            for start in tasks.map(|task| task + at) {
                assert_eq!(
                    wanted.rest(start..start + 200, 100),
                    start + 100..start + 200
                );
            }
        }
        // One of them comes to where the other has been long ago, and goes on behind that one.
        assert_eq!(wanted.rest(99_900..100_100, 100), 100_000..100_100);
        assert_eq!(wanted.rest(199_900..200_100, 100), 200_000..200_100);
        assert_eq!(wanted.rest(200_000..200_200, 100), 200_100..200_200);
    }
}
