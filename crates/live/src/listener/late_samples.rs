//! Samples found late, kept until a plan or a caller takes them. Bounded: the oldest make room and are counted.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use isochrony_flow::Break;

/// Samples that arrived after they were given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateSamples {
    /// First index, on the axis of the run.
    pub start: i64,
    /// Its civil time, ns since 1970, if known.
    pub time: Option<i64>,
    /// Civil time of the index after the last, if known.
    pub end_time: Option<i64>,
    /// Where the feed was when they came: everything before this index had been passed on or given up.
    pub position: i64,
    /// Its civil time, if known.
    pub position_time: Option<i64>,
    /// The samples, in native order.
    pub samples: Vec<u8>,
}

impl LateSamples {
    /// In memory.
    fn bytes(&self) -> usize {
        PIECE_BYTES + self.samples.len()
    }

    /// Without the first samples, of `size` bytes each.
    pub(super) fn without_first(mut self, samples: usize, size: usize) -> Self {
        let count = self.samples.len() / size;
        self.time = self.time_of(samples, count);
        self.start = self.start.saturating_add_unsigned(samples as u64);
        self.samples.drain(..samples * size);
        self
    }

    /// Civil time of one of its `count` samples, on the line between its ends.
    pub(super) fn time_of(&self, nth: usize, count: usize) -> Option<i64> {
        let (first, end) = (self.time?, self.end_time?);
        let (of, count) = (nth as i128, count.max(1) as i128);
        let since = (i128::from(end) - i128::from(first)) * of;
        i64::try_from(i128::from(first) + (since + count / 2).div_euclid(count)).ok()
    }
}

/// Event of the late samples of one scan.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LateEvent {
    /// The feed began, or its clock was set, at this index.
    RangeStart(i64, Option<Break>),
    Samples(LateSamples),
}

/// What a reader gets next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextLate {
    /// Nothing scans the feed.
    NotScanned,
    Event(LateEvent),
    /// All that follows was found at this index or later.
    Position(i64),
    End,
}

#[derive(Debug, Default)]
pub(super) struct LateBuffer {
    /// Maximum bytes of pieces, [`PIECE_BYTES`] of each included; 0 keeps none.
    limit: usize,
    state: Mutex<LateState>,
}

/// What a piece takes besides its samples: of frames of a few samples that is most.
const PIECE_BYTES: usize = size_of::<(u64, LateEvent)>();

#[derive(Debug, Default)]
struct LateState {
    /// Each with the number of its scan.
    events: VecDeque<(u64, LateEvent)>,
    /// Of all pieces.
    bytes: usize,
    scans: u64,
    is_scanned: bool,
    /// Of the current scan; `i64::MIN` before its first sample.
    position: i64,
    waker: Option<Waker>,
}

impl LateBuffer {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            state: Mutex::default(),
        }
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.limit > 0
    }

    fn lock(&self) -> MutexGuard<'_, LateState> {
        // Each change is atomic, so a poisoned state is valid.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin_scan(&self) {
        let mut state = self.lock();
        state.scans += 1;
        (state.is_scanned, state.position) = (true, i64::MIN);
    }

    pub(super) fn end_scan(&self) {
        let mut state = self.lock();
        if std::mem::take(&mut state.is_scanned) {
            wake(state);
        }
    }

    pub(super) fn start_range(&self, at: i64, why: Option<Break>) {
        let mut state = self.lock();
        let scan = state.scans;
        push_start(&mut state.events, scan, at, why);
    }

    /// Returns the bytes of older samples dropped to make room.
    pub(super) fn add(&self, mut piece: LateSamples) -> usize {
        let mut state = self.lock();
        piece.position = piece.position.max(state.position);
        let scan = state.scans;
        state.bytes += piece.bytes();
        state.events.push_back((scan, LateEvent::Samples(piece)));
        let dropped = state.drop_down_to(self.limit);
        wake(state);
        dropped
    }

    /// Puts what a reader of a scan has taken but not passed on before all that it has not taken. Returns what
    /// [`add`](Self::add) returns.
    pub(super) fn put_back(&self, scan: u64, piece: LateSamples) -> usize {
        let mut state = self.lock();
        state.bytes += piece.bytes();
        let first = state.events.partition_point(|(of, _)| *of < scan);
        state
            .events
            .insert(first, (scan, LateEvent::Samples(piece)));
        state.drop_down_to(self.limit)
    }

    /// Nothing before this index will be found late.
    pub(super) fn advance_to(&self, position: i64) {
        let mut state = self.lock();
        state.position = state.position.max(position);
    }

    /// Of all scans.
    pub(super) fn take(&self) -> Vec<LateSamples> {
        let mut state = self.lock();
        state.bytes = 0;
        let (mut starts, mut taken) = (VecDeque::new(), Vec::new());
        for (scan, event) in state.events.drain(..) {
            match event {
                LateEvent::RangeStart(at, why) => push_start(&mut starts, scan, at, why),
                LateEvent::Samples(piece) => taken.push(piece),
            }
        }
        state.events = starts;
        taken
    }

    /// Number of the scan that a reader opened now reads: the current or the next.
    pub(super) fn scan_to_read(&self) -> u64 {
        let state = self.lock();
        state.scans + u64::from(!state.is_scanned)
    }

    pub(super) fn set_waker(&self, waker: Waker) {
        self.lock().waker = Some(waker);
    }

    pub(super) fn next(&self, scan: u64) -> NextLate {
        let mut state = self.lock();
        if state.scans < scan {
            return NextLate::NotScanned;
        }
        // Samples of earlier scans remain for `take`.
        let first = state.events.partition_point(|(of, _)| *of < scan);
        let is_own = state.events.get(first).is_some_and(|(of, _)| *of == scan);
        if is_own && let Some((_, event)) = state.events.remove(first) {
            if let LateEvent::Samples(piece) = &event {
                state.bytes -= piece.bytes();
            }
            return NextLate::Event(event);
        }
        match state.scans == scan && state.is_scanned {
            true => NextLate::Position(state.position),
            false => NextLate::End,
        }
    }
}

/// Without the lock: the woken task may take it at once.
fn wake(state: MutexGuard<'_, LateState>) {
    let waker = state.waker.clone();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl LateState {
    /// Returns the bytes of samples dropped.
    fn drop_down_to(&mut self, limit: usize) -> usize {
        let mut dropped = 0;
        while self.bytes > limit {
            dropped += self.drop_oldest();
        }
        dropped
    }

    /// Returns the bytes of its samples.
    fn drop_oldest(&mut self) -> usize {
        let is_piece = |(_, event): &(u64, LateEvent)| matches!(event, LateEvent::Samples(_));
        let oldest = self.events.iter().position(is_piece);
        let removed = oldest.and_then(|oldest| self.events.remove(oldest));
        let Some((_, LateEvent::Samples(piece))) = removed else {
            self.bytes = 0;
            return 0;
        };
        // Starts that it separated become one.
        let behind = oldest.unwrap_or_default();
        if let Some((scan, LateEvent::RangeStart(at, why))) = self.events.get_mut(behind) {
            let (scan, at, why) = (*scan, *at, why.take());
            let mut before: VecDeque<_> = self.events.drain(..=behind).collect();
            before.pop_back();
            push_start(&mut before, scan, at, why);
            before
                .into_iter()
                .rev()
                .for_each(|event| self.events.push_front(event));
        }
        self.bytes -= piece.bytes();
        piece.samples.len()
    }
}

/// Appends the start of a range in place of one directly before it, so there is at most one start more than pieces.
fn push_start(events: &mut VecDeque<(u64, LateEvent)>, scan: u64, at: i64, mut why: Option<Break>) {
    if let Some((of, LateEvent::RangeStart(_, before))) = events.back_mut() {
        if *of == scan {
            why = united(before.take(), why);
        }
        events.pop_back();
    }
    events.push_back((scan, LateEvent::RangeStart(at, why)));
}

/// The first start of a scan has no reason.
fn united(first: Option<Break>, second: Option<Break>) -> Option<Break> {
    match (first?, second) {
        (Break::ClockStep { old, .. }, Some(Break::ClockStep { new, .. })) => {
            Some(Break::ClockStep { old, new })
        }
        (first, None) => Some(first),
        (_, second) => second,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isochrony_time::RunId;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    fn piece(start: i64, bytes: usize) -> LateSamples {
        LateSamples {
            start,
            time: None,
            end_time: None,
            position: start + 100,
            position_time: None,
            samples: vec![0; bytes],
        }
    }

    fn step(old: u32, new: u32) -> Option<Break> {
        Some(Break::ClockStep {
            old: RunId(old),
            new: RunId(new),
        })
    }

    #[test]
    fn the_oldest_piece_is_dropped() {
        let buffer = LateBuffer::new(2 * PIECE_BYTES + 10);
        let dropped: usize = (0..4).map(|k| buffer.add(piece(k, 4))).sum();
        assert_eq!(
            (buffer.take(), dropped),
            (vec![piece(2, 4), piece(3, 4)], 8)
        );
        let large = 2 * PIECE_BYTES + 11;
        assert_eq!(buffer.add(piece(9, large)), large);
        assert_eq!(buffer.take(), []);
    }

    #[test]
    fn small_pieces_count_with_what_they_take_in_memory() {
        let buffer = LateBuffer::new(1 << 16);
        let dropped: usize = (0..10_000).map(|k| buffer.add(piece(k, 2))).sum();
        let kept = buffer.take().len();
        assert_eq!(dropped, 2 * (10_000 - kept));
        assert!(kept * size_of::<LateSamples>() <= 1 << 16, "{kept}");
    }

    /// Takes the lock of the buffer, as an executor may that polls a woken task at once.
    struct LockingWaker(Arc<LateBuffer>, AtomicUsize);

    impl Wake for LockingWaker {
        fn wake(self: Arc<Self>) {
            assert!(self.0.state.try_lock().is_ok());
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn readers_are_woken_without_the_lock() {
        let buffer = Arc::new(LateBuffer::new(1000));
        let waker = Arc::new(LockingWaker(Arc::clone(&buffer), AtomicUsize::new(0)));
        buffer.set_waker(Arc::clone(&waker).into());
        buffer.begin_scan();
        buffer.add(piece(0, 2));
        buffer.end_scan();
        assert_eq!(waker.1.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn what_a_reader_puts_back_is_the_first_again() {
        let buffer = LateBuffer::new(1000);
        for scan in [1, 2] {
            buffer.begin_scan();
            buffer.add(piece(10 * scan, 4));
            buffer.add(piece(10 * scan + 1, 4));
        }
        let NextLate::Event(LateEvent::Samples(taken)) = buffer.next(2) else {
            panic!("no samples");
        };
        assert_eq!(buffer.put_back(2, taken), 0);
        let starts = [10, 11, 20, 21].map(|start| piece(start, 4));
        assert_eq!(buffer.take(), starts);
        let full = LateBuffer::new(PIECE_BYTES + 4);
        full.begin_scan();
        full.add(piece(0, 4));
        assert_eq!(full.put_back(1, piece(1, 2)), 2);
        assert_eq!(full.take(), [piece(0, 4)]);
    }

    #[test]
    fn a_reader_gets_the_events_of_its_scan_and_its_end() {
        let buffer = LateBuffer::new(100 + 4 * PIECE_BYTES);
        let first = buffer.scan_to_read();
        assert_eq!(buffer.next(first), NextLate::NotScanned);
        buffer.begin_scan();
        assert_eq!(buffer.scan_to_read(), first);
        assert_eq!(buffer.next(first), NextLate::Position(i64::MIN));
        buffer.start_range(3, None);
        buffer.advance_to(500);
        buffer.add(piece(30, 2));
        buffer.end_scan();
        let second = buffer.scan_to_read();
        buffer.begin_scan();
        buffer.add(piece(40, 2));
        let starts = NextLate::Event(LateEvent::RangeStart(3, None));
        assert_eq!(buffer.next(first), starts);
        // Its position never goes back.
        let moved = LateSamples {
            position: 500,
            ..piece(30, 2)
        };
        let found = NextLate::Event(LateEvent::Samples(moved));
        assert_eq!(buffer.next(first), found);
        assert_eq!(buffer.next(first), NextLate::End);
        assert_eq!(buffer.take(), [piece(40, 2)]);
        assert_eq!(buffer.next(second), NextLate::Position(i64::MIN));
    }

    #[test]
    fn starts_are_kept_when_samples_are_dropped_or_taken() {
        let buffer = LateBuffer::new(PIECE_BYTES + 4);
        buffer.begin_scan();
        for run in 0..1000 {
            let why = step(run, run + 1).filter(|_| run > 0);
            buffer.start_range(1000 * i64::from(run), why);
            buffer.add(piece(1000 * i64::from(run), 4));
        }
        assert_eq!(buffer.lock().events.len(), 2);
        let start = |at, why| NextLate::Event(LateEvent::RangeStart(at, why));
        assert_eq!(buffer.next(1), start(999_000, None));
        buffer.start_range(1_000_000, step(1000, 1001));
        assert_eq!(buffer.take().len(), 1);
        buffer.start_range(1_001_000, step(1001, 1002));
        assert_eq!(buffer.next(1), start(1_001_000, step(1000, 1002)));
    }
}
