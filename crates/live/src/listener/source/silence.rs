//! Decisions by time alone: missing frames are given up, and progress is reported in a silence.
//!
//! All that was due before a packet's arrival is decided before it is read, in order of time. So the same arrivals give
//! the same bits.

use std::ops::Range;
use std::time::Duration;

use isochrony_flow::{Clock as _, OpError, SourceEvent};

use super::FeedSource;
use crate::address::FeedFraming;
use crate::feed_counts::add;
use crate::lateness::MARK_INTERVAL;
use crate::listener::LateSamples;
use crate::listener::decoder::ReceivedFrame;
use crate::reorder::ReorderOutput;

pub(super) struct LatePart {
    range: Range<u64>,
    /// None: only counted.
    kept: Option<LateSamples>,
}

impl FeedSource {
    /// Makes all decisions due up to `now`, in order of time.
    pub(super) fn advance_to(&mut self, now: Duration) -> Result<(), OpError> {
        let mut last = None;
        loop {
            let deadlines = [self.decoder.deadline(), self.reorder.deadline()];
            let due = deadlines.into_iter().flatten().min();
            let Some(due) = due.filter(|&due| due < now && last != Some(due)) else {
                break;
            };
            last = Some(due);
            self.decide_at(due)?;
        }
        self.decide_at(now)
    }

    fn decide_at(&mut self, now: Duration) -> Result<(), OpError> {
        self.now = self.now.max(now);
        self.release()?;
        self.give_up()?;
        self.tick(self.now, false)?;
        self.release()
    }

    fn release(&mut self) -> Result<(), OpError> {
        while let Some(output) = self.reorder.pop(self.now, false) {
            self.emit(output)?;
        }
        Ok(())
    }

    pub(super) fn end(&mut self) -> Result<(), OpError> {
        self.tick(self.now, true)?;
        self.ended = true;
        Ok(())
    }

    fn give_up(&mut self) -> Result<(), OpError> {
        let Some(lateness) = self.silence.lateness() else {
            return Ok(());
        };
        // Unconfirmed frames may be those of a returning sender.
        let held = self.decoder.held_since(self.now.saturating_sub(lateness));
        let now = held.unwrap_or(self.now).min(self.now);
        let upto = self.silence.given_up_at(now);
        let next = self.reorder.next_index();
        let (Some(upto), Some(next), Some(base)) = (upto, next, self.session_base) else {
            return Ok(());
        };
        if upto <= next {
            return Ok(());
        }
        self.reorder.give_up(upto);
        let begins = self.silent_from.is_none();
        if begins {
            // Of unknown length: operators only learn of a discontinuity.
            self.begin_silence();
            self.silent_from = Some(next);
        }
        let promised = base.saturating_add_unsigned(upto);
        self.promised = promised;
        self.listener.0.axis.advance_to(promised);
        if begins || self.now.saturating_sub(self.last_mark) >= MARK_INTERVAL {
            self.last_mark = self.now;
            self.output.push_back(SourceEvent::ProgressMark(promised));
        }
        Ok(())
    }

    pub(super) fn end_silence(&mut self) -> Result<(), OpError> {
        let Some(from) = self.silent_from.take() else {
            return Ok(());
        };
        // The first index was announced when it began.
        add(&self.counters().lost_samples, 1);
        match self.reorder.next_index() {
            Some(upto) if upto > from + 1 => self.emit(ReorderOutput::Lost(from + 1..upto)),
            _ => Ok(()),
        }
    }

    /// Civil time of the index before which nothing follows, after a silence.
    pub(super) fn promised_time(&self) -> Option<i64> {
        (self.promised > i64::MIN).then(|| self.time_at(self.promised))?
    }

    pub(super) fn time_at(&self, index: i64) -> Option<i64> {
        let mut time = [i64::MIN];
        self.estimator.clock().times(&[index], &mut time).ok()?;
        Some(time[0]).filter(|&time| time != i64::MIN)
    }

    /// Where a new run's samples are no longer late: late are those taken, by civil time, before `promised`. Beyond
    /// the lateness it is no delay: the clock was set back.
    pub(super) fn end_of_late(&self, start: i64, promised: i64) -> Option<i64> {
        let behind = promised.saturating_sub(self.time_at(start)?);
        let lateness = i64::try_from(self.silence.lateness()?.as_nanos()).ok()?;
        let rate = self.listener.0.options.rate.to_f64();
        let samples = (behind as f64 * rate / 1e9).ceil() as i64;
        (1..=lateness)
            .contains(&behind)
            .then(|| start.saturating_add(samples))
    }

    pub(super) fn late_parts(&self, of: Range<u64>, frame: &ReceivedFrame) -> Vec<LatePart> {
        let inner = &self.listener.0;
        let Some(base) = self.session_base else {
            return Vec::new();
        };
        let kept = |range: &Range<u64>| {
            let start = base.wrapping_add_unsigned(range.start);
            self.late_samples(start, range.start - of.start..range.end - of.start, frame)
        };
        let part = |range: Range<u64>| LatePart {
            kept: if inner.late.is_wanted() {
                kept(&range)
            } else {
                None
            },
            range,
        };
        let missing = self.reorder.missing_within(&of);
        missing.into_iter().map(part).collect()
    }

    /// Some samples of a frame in the form kept; the first has index `start`.
    fn late_samples(
        &self,
        start: i64,
        of: Range<u64>,
        frame: &ReceivedFrame,
    ) -> Option<LateSamples> {
        let options = &self.listener.0.options;
        let at = |nth: u64| frame.samples_at + nth as usize * options.dtype.size();
        let bytes = frame.packet.bytes.get(at(of.start)..at(of.end))?;
        let mut samples = bytes.to_vec();
        if options.framing != FeedFraming::Isochrony && !options.order.is_native() {
            let component = options.dtype.component_size();
            samples
                .chunks_exact_mut(component)
                .for_each(<[u8]>::reverse);
        }
        let (position, samples_of) = (self.position(), of.end - of.start);
        Some(LateSamples {
            start,
            time: self.time_at(start),
            end_time: self.time_at(start.saturating_add_unsigned(samples_of)),
            position,
            position_time: self.time_at(position),
            samples,
        })
    }

    /// Everything before it has been passed on or given up.
    pub(super) fn position(&self) -> i64 {
        self.next.max(self.promised)
    }

    fn add_late(&self, piece: LateSamples) {
        let inner = &self.listener.0;
        inner.count_dropped(inner.late.add(piece));
    }

    /// Like [`keep_late`](Self::keep_late), for a frame at `start`. Its late samples must have been skipped: they are
    /// placed behind themselves.
    pub(super) fn keep_late_of_run(&self, start: i64, of: Range<u64>, frame: &ReceivedFrame) {
        let inner = &self.listener.0;
        add(&inner.counters.late_samples, of.end - of.start);
        let first = start.wrapping_add_unsigned(of.start);
        let kept = inner
            .late
            .is_wanted()
            .then(|| self.late_samples(first, of, frame));
        kept.flatten()
            .into_iter()
            .for_each(|kept| self.add_late(kept));
    }

    pub(super) fn keep_late(&mut self, parts: Vec<LatePart>) {
        for LatePart { range, kept } in parts {
            add(&self.counters().late_samples, range.end - range.start);
            self.reorder.note_late(&range);
            if let Some(kept) = kept {
                self.add_late(kept);
            }
        }
    }
}
