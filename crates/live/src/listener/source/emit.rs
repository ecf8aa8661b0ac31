//! Converts released frames to segments, breaks and stamps.

use std::ops::Range;

use isochrony_flow::{Break, Item, OpError, RangeOrigin, SourceEvent};
use isochrony_time::RunId;

use super::FeedSource;
use super::segment_builder::BuiltSegment;
use crate::feed_counts::add;
use crate::listener::decoder::ReceivedFrame;
use crate::reorder::ReorderOutput;
use crate::timing::StampSource;

/// A larger jump means that this machine's clock was set.
const CLOCK_SET_NS: i64 = 10_000_000;

impl FeedSource {
    pub(super) fn emit(&mut self, output: ReorderOutput<ReceivedFrame>) -> Result<(), OpError> {
        match output {
            ReorderOutput::Lost(lost) => {
                let samples = lost.end - lost.start;
                add(&self.counters().lost_samples, samples);
                let range = self.skip_indices(samples);
                self.start_range(Some(Break::Dropped(range)));
            }
            ReorderOutput::Frame {
                range,
                skip,
                payload: frame,
            } => {
                let gap = frame.gap.saturating_sub(skip);
                let skip = skip.saturating_sub(frame.gap);
                let first = range.start + frame.gap;
                let axis = self.listener.0.axis.clone();
                let begins = self.session_base.is_none();
                let base = match self.session_base {
                    Some(base) => base,
                    // Before the first samples nothing is missing.
                    None => axis.session_base(self.session_count, first, self.next),
                };
                self.session_base = Some(base);
                let start = base.wrapping_add_unsigned(first);
                if begins {
                    self.next = self.next.max(start);
                    self.announce_gap_before(range.start, start, frame.gap);
                } else if gap > 0 {
                    let range = self.skip_indices(gap);
                    self.start_range(Some(Break::Gap(range)));
                }
                // Another feed may have placed the session earlier.
                let skip = skip.max(self.next.saturating_sub(start).max(0).unsigned_abs());
                if skip >= range.end - first {
                    add(&self.counters().late_frames, 1);
                    self.queue.recycle(frame.packet.bytes);
                    return Ok(());
                }
                let starts_later_session = begins && self.session_count > 0;
                let promised = self.promised_time();
                if let Some((old, new)) = self.add_stamp(start, &frame, starts_later_session) {
                    self.flush();
                    add(&self.counters().clock_steps, 1);
                    self.start_range(Some(Break::ClockStep { old, new }));
                    let late = promised.and_then(|promised| self.end_of_late(start, promised));
                    self.late_until = late.unwrap_or(i64::MIN);
                } else if begins {
                    self.start_range(None);
                }
                let skip = skip.max(self.drop_late(start, skip, range.end - first, &frame));
                self.next = base.wrapping_add_unsigned(range.end);
                axis.advance_to(self.next);
                let run = self.estimator.run();
                self.listener.0.position.set(self.next, run);
                self.fill(start.wrapping_add_unsigned(skip), &frame, skip)?;
                self.queue.recycle(frame.packet.bytes);
            }
        }
        Ok(())
    }

    /// Reports late samples of a new run's frame as lost; returns how many of its first samples are over.
    fn drop_late(&mut self, start: i64, skip: u64, samples: u64, frame: &ReceivedFrame) -> u64 {
        let late = self.late_until.saturating_sub(start).max(0).unsigned_abs();
        let late = late.min(samples);
        if late <= skip {
            return skip;
        }
        let count = late - skip;
        add(&self.counters().lost_samples, count);
        self.next = start.wrapping_add_unsigned(skip);
        let range = self.skip_indices(count);
        self.keep_late_of_run(start, skip..late, frame);
        self.start_range(Some(Break::Dropped(range)));
        late
    }

    pub(super) fn begin_silence(&mut self) {
        let range = self.skip_indices(1);
        self.start_range(Some(Break::Dropped(range)));
    }

    /// Copies samples after the first `skip` into segments.
    fn fill(&mut self, mut from: i64, frame: &ReceivedFrame, skip: u64) -> Result<(), OpError> {
        let size = self.listener.0.options.dtype.size();
        let bytes = frame
            .packet
            .bytes
            .get(frame.samples_at + skip as usize * size..);
        let mut bytes = bytes.unwrap_or_default();
        while !bytes.is_empty() {
            let arrived = frame.packet.arrival.since_start;
            let (taken, full) = self.segments.append(from, bytes, arrived)?;
            from = from.wrapping_add_unsigned((taken / size) as u64);
            bytes = &bytes[taken..];
            self.push_segment(full);
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) {
        let built = self.segments.flush();
        self.push_segment(built);
    }

    fn push_segment(&mut self, built: Option<BuiltSegment>) {
        let Some(BuiltSegment { segment, arrived }) = built else {
            return;
        };
        add(&self.counters().samples, segment.len());
        let oldest = self
            .emitted_arrival
            .map_or(arrived, |oldest| oldest.min(arrived));
        self.emitted_arrival = Some(oldest);
        self.output
            .push_back(SourceEvent::Item(Item::from(segment)));
    }

    fn skip_indices(&mut self, samples: u64) -> Range<i64> {
        self.flush();
        let from = self.next;
        self.next = from.saturating_add_unsigned(samples);
        from..self.next
    }

    fn start_range(&mut self, why: Option<Break>) {
        let origin = RangeOrigin::at(self.next);
        let late = &self.listener.0.late;
        if late.is_wanted() && matches!(why, None | Some(Break::ClockStep { .. })) {
            late.start_range(self.next, why.clone());
        }
        self.output
            .push_back(SourceEvent::RangeStart { origin, why });
    }

    /// Returns both runs at a clock step.
    fn add_stamp(
        &mut self,
        start: i64,
        frame: &ReceivedFrame,
        starts_session: bool,
    ) -> Option<(RunId, RunId)> {
        // A session's first frame decides which stamps count.
        let source = *self.stamp_source.get_or_insert_with(|| {
            let source = match (frame.time, frame.exact) {
                (Some(_), Some(_)) => StampSource::Recording,
                (Some(_), None) => StampSource::Sender,
                (None, _) if self.listener.0.descriptions.knows_all_times() => {
                    StampSource::Recording
                }
                (None, _) => StampSource::Arrival,
            };
            self.estimator.set_stamp_source(source);
            source
        });
        let clock_was_set = frame.step || starts_session;
        if source != StampSource::Arrival {
            let drift = frame.exact.unwrap_or_default();
            let size = self.listener.0.options.dtype.size();
            let samples = frame.packet.bytes.len().saturating_sub(frame.samples_at) / size;
            return match frame.time {
                Some(time) => self.estimator.add_exact_stamp(
                    start,
                    time,
                    (drift, samples as u64),
                    clock_was_set,
                ),
                None if source == StampSource::Recording => {
                    self.estimator.add_untimed(start, clock_was_set)
                }
                None => None,
            };
        }
        let packet = &frame.packet;
        let offset = packet.arrival.civil_ns
            - i64::try_from(packet.arrival.since_start.as_nanos()).unwrap_or(0);
        let moved = self
            .clock_offset_ns
            .is_some_and(|before| (offset - before).abs() > CLOCK_SET_NS);
        self.clock_offset_ns = Some(offset);
        let taken = packet.arrival.sampled_ns.unwrap_or(packet.arrival.civil_ns);
        self.estimator
            .add_stamp(start, taken, clock_was_set || moved)
    }
}
