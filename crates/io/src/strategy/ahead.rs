//! Having the system read what will be needed, before it is: asking it to, or filling page tables.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use isochrony_segment::SigSeg;

use super::files::Files;
use super::lanes::AHEAD;
use super::pieces::Pieces;
use crate::source::Source;
use crate::system::{self, Process};

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
        let source = self.files.source();
        let until = piece.start.saturating_add(2 * len).min(source.end());
        // Of a gap there is nothing to read, and if it is as long as a shard no file.
        let gap = source.gap_within(piece.start..until);
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
            let Some(file) = shard.os_file() else {
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

/// Asks the system to read a range into the page cache; gives for how many bytes it was asked. It is advice: nothing is
/// waited for, and what cannot be read ahead is left out.
#[must_use]
pub fn prefetch(source: &Arc<dyn Source>, within: Range<i64>) -> u64 {
    let mut ahead = Ahead::new(Files::new(source));
    let mut asked = 0;
    let mut from = within.start;
    while from < within.end {
        let gap = source.gap_within(from..within.end);
        let until = gap.as_ref().map_or(within.end, |gap| gap.start);
        asked += ahead.ask(from..until);
        from = gap.map_or(within.end, |gap| gap.end);
    }
    asked
}

/// Fills the page tables of a segment, which reads what is not in the page cache. False: the system cannot.
pub(super) fn populate(segment: &SigSeg) -> bool {
    // A page that cannot be read is a fault to come, with its own error.
    segment
        .buffers()
        .all(|buffer| system::populate(buffer).unwrap_or(true))
}

/// How far a scan is.
#[derive(Debug)]
struct Distance {
    /// Bytes that it was given.
    given: AtomicU64,
    /// Where what it was given ends, of all that reads it.
    furthest: AtomicI64,
    stop: AtomicBool,
}

/// How far a thread is ahead of that.
#[derive(Debug, Default)]
struct Lead {
    done: u64,
    /// What was done and not passed yet, where parts follow one another: its ends, with bytes up to there.
    ends: VecDeque<(i64, u64)>,
    passed: u64,
}

impl Lead {
    /// Bytes that are done and that the scan was not given.
    fn bytes(&mut self, scan: &Distance, ascends: bool) -> u64 {
        if !ascends {
            return self.done.saturating_sub(scan.given.load(Ordering::Acquire));
        }
        // Tasks overlap, and some are done again: what is given twice is no distance.
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

/// A thread that has all read that a scan will need.
#[derive(Debug)]
pub(super) struct AllAhead {
    distance: Arc<Distance>,
    thread: Option<JoinHandle<()>>,
    owner: Process,
}

impl AllAhead {
    /// Asks the system for it, from now on; no further ahead than half of the free memory, for what the system reads beyond
    /// that drives out what was read before.
    pub(super) fn asking(files: Files, pieces: Pieces) -> std::io::Result<Self> {
        Self::asking_within(files, pieces, (system::free_memory() / 2).max(AHEAD))
    }

    /// The same, so many bytes ahead at most.
    pub(super) fn asking_within(files: Files, pieces: Pieces, most: u64) -> std::io::Result<Self> {
        let mut ahead = Ahead::new(files);
        Self::begin(pieces, most, move |piece| {
            ahead.ask(piece);
            true
        })
    }

    /// Fills page tables, from now on, a few pieces ahead: they are read and mapped before anybody faults.
    pub(super) fn filling(source: Arc<dyn Source>, pieces: Pieces) -> std::io::Result<Self> {
        Self::filling_within(source, pieces, AHEAD)
    }

    /// The same, so many bytes ahead at most.
    pub(super) fn filling_within(
        source: Arc<dyn Source>,
        pieces: Pieces,
        most: u64,
    ) -> std::io::Result<Self> {
        // Of a piece that cannot be read whoever reads it is told; what lies behind it nobody may want.
        Self::begin(pieces, most, move |piece| {
            source.read(piece).is_ok_and(|segment| populate(&segment))
        })
    }

    /// `read`: has a piece read; false if there is no use in going on.
    fn begin(
        pieces: Pieces,
        most: u64,
        mut read: impl FnMut(Range<i64>) -> bool + Send + 'static,
    ) -> std::io::Result<Self> {
        let distance = Arc::new(Distance {
            given: AtomicU64::new(0),
            furthest: AtomicI64::new(i64::MIN),
            stop: AtomicBool::new(false),
        });
        let shared = distance.clone();
        let size = pieces.source().dtype().size() as u64;
        let mut neighbours = pieces.parts().windows(2);
        let ascends = neighbours.all(|two| two[0].end <= two[1].start);
        let thread = std::thread::Builder::new()
            .name("isochrony-ahead".into())
            .spawn(move || {
                let mut lead = Lead::default();
                for piece in pieces {
                    let bytes = (piece.end - piece.start).cast_unsigned() * size;
                    while lead.bytes(&shared, ascends) + bytes > most {
                        if shared.stop.load(Ordering::Acquire) {
                            return;
                        }
                        std::thread::park_timeout(Duration::from_millis(50));
                    }
                    lead.add(&piece, bytes, ascends);
                    if shared.stop.load(Ordering::Acquire) || !read(piece) {
                        return;
                    }
                }
            })?;
        Ok(Self {
            distance,
            thread: Some(thread),
            owner: Process::current(),
        })
    }

    #[cfg(test)]
    pub(super) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// The scan was given a range, of so many bytes.
    pub(super) fn gave(&self, range: &Range<i64>, bytes: u64) {
        self.distance.given.fetch_add(bytes, Ordering::AcqRel);
        self.distance
            .furthest
            .fetch_max(range.end, Ordering::AcqRel);
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
