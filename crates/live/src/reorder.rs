//! Releases frames in index order within a jitter window and reports losses. Pure: callers pass the time.
//!
//! A frame is an index range, including a gap right before its samples, with a payload. It is released once it
//! continues the last one, after `wait`, or once more than `samples` are buffered. What is missing then is
//! [`ReorderOutput::Lost`] and refused later. Unless the first frame starts at index 0, the buffer waits for earlier
//! ones; those that come after its release are late too, each once.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

/// How long early frames wait for late ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JitterWindow {
    /// Zero: late frames are lost.
    pub wait: Duration,
    /// Maximum buffered samples.
    pub samples: u64,
}

/// A released frame or loss.
#[derive(Debug, PartialEq, Eq)]
pub enum ReorderOutput<F> {
    /// A frame in its place.
    Frame {
        /// Its indices, including skipped ones.
        range: Range<u64>,
        /// Indices that were released before.
        skip: u64,
        /// The pushed payload.
        payload: F,
    },
    /// Indices given up.
    Lost(Range<u64>),
}

/// Why a frame is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushError {
    /// Entirely released or buffered before.
    Duplicate,
    /// Some of its samples were given up as lost, or precede the first released frame, and come for the first time.
    Late,
}

#[derive(Debug)]
struct BufferedFrame<F> {
    end: u64,
    samples: u64,
    arrived: Duration,
    payload: F,
}

/// Frames in index order.
#[derive(Debug)]
pub struct ReorderBuffer<F> {
    window: JitterWindow,
    next: Option<u64>,
    frames: BTreeMap<u64, BufferedFrame<F>>,
    /// Arrival times and first indices; some may be released already.
    arrivals: VecDeque<(Duration, u64)>,
    buffered_samples: u64,
    /// Before the first released frame. Neither lost nor seen.
    unseen: MissingRanges,
    /// Given up.
    lost: MissingRanges,
}

const MAX_MISSING_RANGES: usize = 64;

/// The latest ranges whose samples have not come, to distinguish late frames from duplicates.
#[derive(Debug, Default)]
struct MissingRanges(Vec<Range<u64>>);

impl MissingRanges {
    /// Above the limit the oldest range is forgotten: its frames are then duplicates.
    fn push(&mut self, range: Range<u64>) {
        if self.0.len() == MAX_MISSING_RANGES {
            self.0.remove(0);
        }
        self.0.push(range);
    }

    fn remove(&mut self, range: &Range<u64>) {
        for missing in std::mem::take(&mut self.0) {
            let before = missing.start..missing.end.min(range.start);
            let after = missing.start.max(range.end)..missing.end;
            let rest = [before, after].into_iter().filter(|rest| !rest.is_empty());
            rest.for_each(|rest| self.push(rest));
        }
    }

    fn within(&self, range: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let (start, end) = (range.start, range.end);
        let parts = self.0.iter();
        let parts = parts.map(move |missing| missing.start.max(start)..missing.end.min(end));
        parts.filter(|part| !part.is_empty())
    }
}

impl<F> ReorderBuffer<F> {
    /// Starts at index 0, or the lowest within the window.
    #[must_use]
    pub fn new(window: JitterWindow) -> Self {
        Self {
            window,
            next: None,
            frames: BTreeMap::new(),
            arrivals: VecDeque::new(),
            buffered_samples: 0,
            unseen: MissingRanges::default(),
            lost: MissingRanges::default(),
        }
    }

    /// First index not yet released.
    #[must_use]
    pub fn next_index(&self) -> Option<u64> {
        self.next
    }

    /// Buffered samples.
    #[must_use]
    pub fn buffered_samples(&self) -> u64 {
        self.buffered_samples
    }

    /// Adds a frame of the given samples. `now` never decreases.
    ///
    /// # Errors
    /// Why it is refused, with its payload.
    pub fn push(
        &mut self,
        range: Range<u64>,
        samples: u64,
        payload: F,
        now: Duration,
    ) -> Result<(), (PushError, F)> {
        let Range { start: first, end } = range;
        if self.next.is_some_and(|next| end <= next) {
            // Its gap has no samples that could be late.
            let of = end.saturating_sub(samples).max(first)..end;
            let is_late = !self.missing_within(&of).is_empty();
            return Err((
                if is_late {
                    PushError::Late
                } else {
                    PushError::Duplicate
                },
                payload,
            ));
        }
        let before = self.frames.range(..=first).next_back();
        if before.is_some_and(|(_, frame)| frame.end >= end) {
            return Err((PushError::Duplicate, payload));
        }
        if first >= end {
            return Err((PushError::Duplicate, payload));
        }
        let frame = BufferedFrame {
            end,
            samples,
            arrived: now,
            payload,
        };
        self.arrivals.push_back((now, first));
        self.buffered_samples += samples;
        if let Some(shorter) = self.frames.insert(first, frame) {
            self.buffered_samples -= shorter.samples;
        }
        Ok(())
    }

    /// The next release at `now`. At `end` nothing is waited for.
    pub fn pop(&mut self, now: Duration, end: bool) -> Option<ReorderOutput<F>> {
        loop {
            let (&first, _) = self.frames.first_key_value()?;
            let begun = self.next.or((first == 0).then_some(0));
            if begun.is_none_or(|next| first > next) {
                let overdue = self
                    .time_until_deadline(now)
                    .is_some_and(|left| left.is_zero());
                if !(end || overdue || self.buffered_samples > self.window.samples) {
                    return None;
                }
            }
            let next = self.next.unwrap_or_else(|| {
                if first > 0 {
                    self.unseen.push(0..first);
                }
                first
            });
            if first > next {
                self.lost.push(next..first);
                self.next = Some(first);
                return Some(ReorderOutput::Lost(next..first));
            }
            let (first, frame) = self.frames.pop_first()?;
            self.buffered_samples -= frame.samples;
            self.drop_stale_arrivals();
            let end = frame.end;
            if end <= next {
                continue; // Overtaken by a longer one.
            }
            self.next = Some(end);
            return Some(ReorderOutput::Frame {
                range: first..end,
                skip: next - first,
                payload: frame.payload,
            });
        }
    }

    /// Time until missing frames are given up, if frames are buffered.
    #[must_use]
    pub fn time_until_deadline(&mut self, now: Duration) -> Option<Duration> {
        Some(self.deadline()?.saturating_sub(now))
    }

    pub(crate) fn deadline(&mut self) -> Option<Duration> {
        self.drop_stale_arrivals();
        let &(arrived, _) = self.arrivals.front()?;
        Some(arrived.saturating_add(self.window.wait))
    }

    /// Gives up what precedes `upto`, in a buffer without frames.
    pub(crate) fn give_up(&mut self, upto: u64) {
        let Some(next) = self
            .next
            .filter(|&next| next < upto && self.frames.is_empty())
        else {
            return;
        };
        self.next = Some(upto);
        match self.lost.0.last_mut() {
            Some(last) if last.end == next => last.end = upto,
            _ => self.lost.push(next..upto),
        }
    }

    /// Parts given up, or before the first released frame, whose samples have not come.
    pub(crate) fn missing_within(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let parts = self.unseen.within(range);
        parts.chain(self.lost.within(range)).collect()
    }

    /// Marks late indices, so that repetitions are duplicates.
    pub(crate) fn note_late(&mut self, range: &Range<u64>) {
        self.unseen.remove(range);
        self.lost.remove(range);
    }

    fn drop_stale_arrivals(&mut self) {
        while let Some(&(arrived, first)) = self.arrivals.front() {
            if self
                .frames
                .get(&first)
                .is_some_and(|frame| frame.arrived == arrived)
            {
                break;
            }
            self.arrivals.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LONG_WAIT: JitterWindow = JitterWindow {
        wait: Duration::from_millis(50),
        samples: 1000,
    };

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn frame(first: u64, samples: u64, skip: u64, payload: u64) -> Option<ReorderOutput<u64>> {
        Some(ReorderOutput::Frame {
            range: first..first + samples,
            skip,
            payload,
        })
    }

    #[test]
    fn late_frames_within_the_window_are_reordered() {
        let mut buffer = ReorderBuffer::new(LONG_WAIT);
        assert_eq!(buffer.push(100..110, 10, 0, ms(0)), Ok(()));
        assert_eq!(buffer.push(120..130, 10, 2, ms(1)), Ok(()));
        assert_eq!(buffer.pop(ms(49), false), None);
        assert_eq!(buffer.push(90..100, 10, 9, ms(49)), Ok(()));
        assert_eq!(buffer.pop(ms(50), false), frame(90, 10, 0, 9));
        assert_eq!(buffer.pop(ms(50), false), frame(100, 10, 0, 0));
        assert_eq!(buffer.pop(ms(50), false), None);
        assert_eq!(buffer.time_until_deadline(ms(50)), Some(ms(1)));
        assert_eq!(buffer.push(110..120, 10, 1, ms(50)), Ok(()));
        assert_eq!(buffer.pop(ms(50), false), frame(110, 10, 0, 1));
        assert_eq!(buffer.pop(ms(50), false), frame(120, 10, 0, 2));
        assert_eq!(buffer.buffered_samples(), 0);
    }

    #[test]
    fn frames_missing_after_the_window_are_lost_and_refused_later() {
        let mut buffer = ReorderBuffer::new(LONG_WAIT);
        buffer.push(0..10, 10, 0, ms(0)).unwrap();
        buffer.push(20..30, 10, 2, ms(1)).unwrap();
        assert_eq!(buffer.pop(ms(1), false), frame(0, 10, 0, 0));
        assert_eq!(buffer.pop(ms(51), false), Some(ReorderOutput::Lost(10..20)));
        assert_eq!(buffer.pop(ms(51), false), frame(20, 10, 0, 2));
        assert_eq!(
            buffer.push(10..20, 10, 1, ms(52)),
            Err((PushError::Late, 1))
        );
        assert_eq!(
            buffer.push(20..30, 10, 2, ms(52)),
            Err((PushError::Duplicate, 2))
        );
    }

    #[test]
    fn samples_given_up_in_a_silence_are_late_once() {
        let mut buffer = ReorderBuffer::new(LONG_WAIT);
        buffer.push(0..10, 10, 0, ms(0)).unwrap();
        assert_eq!(buffer.pop(ms(0), false), frame(0, 10, 0, 0));
        buffer.give_up(20);
        buffer.give_up(35);
        assert_eq!(buffer.next_index(), Some(35));
        assert_eq!(buffer.missing_within(&(0..100)), vec![10..35; 1]);
        let late = buffer.push(10..20, 10, 1, ms(90));
        assert_eq!(late, Err((PushError::Late, 1)));
        buffer.note_late(&(10..20));
        let twice = buffer.push(10..20, 10, 1, ms(91));
        assert_eq!(twice, Err((PushError::Duplicate, 1)));
        buffer.push(30..40, 10, 3, ms(92)).unwrap();
        assert_eq!(buffer.missing_within(&(30..40)), vec![30..35; 1]);
        assert_eq!(buffer.pop(ms(92), false), frame(30, 10, 5, 3));
    }

    #[test]
    fn samples_before_the_first_released_are_late_once() {
        let mut buffer = ReorderBuffer::new(LONG_WAIT);
        buffer.push(20..30, 10, 2, ms(0)).unwrap();
        assert_eq!(buffer.pop(ms(50), false), frame(20, 10, 0, 2));
        let late = buffer.push(0..10, 10, 0, ms(51));
        assert_eq!(late, Err((PushError::Late, 0)));
        assert_eq!(buffer.missing_within(&(0..10)), vec![0..10; 1]);
        buffer.note_late(&(0..10));
        let twice = buffer.push(0..10, 10, 0, ms(52));
        assert_eq!(twice, Err((PushError::Duplicate, 0)));
        // Of a longer frame only the rest is late, also where it reaches into what was released.
        assert_eq!(buffer.push(5..25, 20, 1, ms(53)), Err((PushError::Late, 1)));
        assert_eq!(buffer.missing_within(&(5..25)), vec![10..20; 1]);
        buffer.note_late(&(10..20));
        assert_eq!(
            buffer.push(15..20, 5, 1, ms(54)),
            Err((PushError::Duplicate, 1))
        );
    }

    #[test]
    fn a_repeated_frame_behind_a_lost_gap_is_a_duplicate() {
        let mut buffer = ReorderBuffer::new(LONG_WAIT);
        buffer.push(0..10, 10, 0, ms(0)).unwrap();
        assert_eq!(buffer.pop(ms(0), false), frame(0, 10, 0, 0));
        buffer.give_up(40);
        // Indices 20..30 are a gap of the recording.
        let late = buffer.push(20..40, 10, 1, ms(90));
        assert_eq!(late, Err((PushError::Late, 1)));
        buffer.note_late(&(30..40));
        let twice = buffer.push(20..40, 10, 1, ms(91));
        assert_eq!(twice, Err((PushError::Duplicate, 1)));
    }

    #[test]
    fn missing_ranges_are_bounded() {
        let mut buffer = ReorderBuffer::new(LONG_WAIT);
        buffer.push(10_000..10_010, 10, 0, ms(0)).unwrap();
        assert_eq!(buffer.pop(ms(50), false), frame(10_000, 10, 0, 0));
        for first in (0..10_000).step_by(20) {
            buffer.note_late(&(first..first + 10));
        }
        assert!(buffer.unseen.0.len() <= MAX_MISSING_RANGES);
        assert_eq!(
            buffer.missing_within(&(9990..10_000)),
            vec![9990..10_000; 1]
        );
    }

    #[test]
    fn missing_frames_are_also_lost_by_buffer_size_and_at_the_end() {
        let window = JitterWindow {
            samples: 25,
            ..LONG_WAIT
        };
        let mut buffer = ReorderBuffer::new(window);
        buffer.push(0..10, 10, 0, ms(0)).unwrap();
        assert_eq!(buffer.pop(ms(0), false), frame(0, 10, 0, 0));
        buffer.push(20..30, 10, 2, ms(0)).unwrap();
        buffer.push(30..40, 10, 3, ms(0)).unwrap();
        assert_eq!(buffer.pop(ms(0), false), None);
        buffer.push(40..50, 10, 4, ms(0)).unwrap();
        assert_eq!(buffer.pop(ms(0), false), Some(ReorderOutput::Lost(10..20)));
        let mut buffer = ReorderBuffer::new(LONG_WAIT);
        buffer.push(0..1, 1, 0, ms(0)).unwrap();
        buffer.push(5..6, 1, 0, ms(0)).unwrap();
        assert_eq!(buffer.pop(ms(0), true), frame(0, 1, 0, 0));
        assert_eq!(buffer.pop(ms(0), true), Some(ReorderOutput::Lost(1..5)));
    }

    #[test]
    fn a_feed_in_order_leaves_no_buffered_frames() {
        let mut buffer = ReorderBuffer::new(LONG_WAIT);
        for k in 0..10_000 {
            buffer.push(k..k + 1, 1, (), ms(k)).unwrap();
            while buffer.pop(ms(k), false).is_some() {}
            assert!(buffer.arrivals.len() + buffer.frames.len() <= 1);
        }
    }

    #[test]
    fn frames_that_overlap_give_each_sample_once() {
        let mut buffer = ReorderBuffer::new(LONG_WAIT);
        buffer.push(0..10, 10, 0, ms(0)).unwrap();
        buffer.push(5..15, 10, 1, ms(0)).unwrap();
        buffer.push(6..10, 4, 2, ms(0)).unwrap_err();
        assert_eq!(buffer.pop(ms(0), false), frame(0, 10, 0, 0));
        assert_eq!(buffer.pop(ms(0), false), frame(5, 10, 5, 1));
        assert_eq!(buffer.pop(ms(0), false), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// Only missing frames are lost.
        #[test]
        fn every_index_is_released_once_in_order(
            sizes in prop::collection::vec(1u64..20, 1..40),
            shuffle in prop::collection::vec((any::<bool>(), 0u64..4), 40),
            twice in prop::collection::vec(any::<bool>(), 40),
        ) {
            let mut frames = Vec::new();
            let mut at = 0;
            for (k, &samples) in sizes.iter().enumerate() {
                if k == 0 || shuffle[k].0 || twice[k] {
                    frames.push((k as u64 + shuffle[k].1, at, samples));
                    if twice[k] {
                        frames.push((k as u64 + 1, at, samples));
                    }
                }
                at += samples;
            }
            frames[0].0 = 0;
            frames[1..].sort_by_key(|frame| frame.0);
            let came: Vec<u64> = frames.iter().flat_map(|&(_, first, samples)| first..first + samples).collect();
            let mut buffer = ReorderBuffer::new(JitterWindow { wait: ms(5), samples: 1000 });
            let mut next = 0;
            let mut check = |output: ReorderOutput<()>, late: &[u64]| {
                match output {
                    ReorderOutput::Frame { range, skip, .. } => {
                        assert_eq!(range.start + skip, next);
                        next = range.end;
                    }
                    ReorderOutput::Lost(lost) => {
                        assert_eq!(lost.start, next);
                        assert!(lost.clone().all(|index| late.contains(&index) || !came.contains(&index)));
                        next = lost.end;
                    }
                }
            };
            let end = frames.iter().map(|&(_, first, samples)| first + samples).max().unwrap();
            for (k, &(tick, first, samples)) in frames.iter().enumerate() {
                let _ = buffer.push(first..first + samples, samples, (), ms(tick));
                let late: Vec<u64> = frames[k + 1..].iter().flat_map(|&(_, first, samples)| first..first + samples).collect();
                while let Some(output) = buffer.pop(ms(tick), false) {
                    check(output, &late);
                }
            }
            while let Some(output) = buffer.pop(ms(1000), true) {
                check(output, &[]);
            }
            prop_assert_eq!(next, end);
            prop_assert_eq!(buffer.buffered_samples(), 0);
        }
    }
}
