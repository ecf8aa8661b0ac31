//! Writes the samples of one execution to a signal.
//!
//! - *Gap*: its length in indices, at least one sample; or its duration by the recording's clock, if that differs (the
//!   length may be mere address space).
//! - *Clock step*: starts a run.
//! - *Time*: the first sample of each contiguous range is stamped with the recording's civil time, then one a minute at
//!   fixed distances, however items were cut. After a gap of a fractional number of samples the fit starts a new line.
//! - *Copy* of a recording's own samples: also has the gaps at its ends and before clock steps.

use std::sync::Arc;

use isochrony_store::{SignalWriter, Store};
use isochrony_time::{Fixed, Placement, Rate, Stamp};

use super::calibration::check_calibration;
use crate::plan::error::store_error;
use crate::{
    Break, Clock, Frames, Item, OpError, OpErrorKind, OuterGaps, SharedRecording, SinkWriter,
};

pub(super) struct SignalSinkWriter {
    store: Arc<Store>,
    writer: SignalWriter,
    rate: Rate,
    step: i64,
    per_window: usize,
    size: usize,
    clock: Option<Arc<dyn Clock>>,
    /// Samples between stamps, and since the last one.
    stamp_every: u64,
    since_stamp: u64,
    expected: Option<i64>,
    /// Civil time of the signal's end when appending.
    ends: Option<Fixed>,
    /// Longest gap, in samples, that keeps its duration; length given to longer ones.
    max_gap: f64,
    long_gap: i64,
    new_run: bool,
    copied: CopySource,
    /// The sender or its description may have changed since the last check.
    is_unchecked: bool,
    is_empty: bool,
}

pub(super) struct CopySource {
    /// None if the items are windows.
    pub(super) reads: Option<SharedRecording>,
    /// Its senders may send a description at any time.
    pub(super) is_feed: bool,
    /// The signal adopts a later description of the sender.
    pub(super) awaits_description: bool,
}

struct NewGap {
    samples: i64,
    /// Of fractional length: the fit starts a new line after it.
    restarts: bool,
}

impl SignalSinkWriter {
    /// The pair: source indices per sample, samples per window.
    pub(super) fn new(
        store: Arc<Store>,
        writer: SignalWriter,
        (step, per_window): (u64, usize),
        clock: Option<Arc<dyn Clock>>,
        copied: CopySource,
    ) -> Result<Self, OpError> {
        // Appended samples follow the signal's own clock.
        let signal = writer.signal().map_err(store_error)?.as_recorded();
        let end = signal.end_index();
        let ends = (end > 0).then(|| signal.time_of(end).ok()).flatten();
        let (rate, meta) = (signal.rate(), &signal.state().meta);
        Ok(Self {
            max_gap: meta.clock.max_gap_ns as f64 * rate.to_f64() / 1e9,
            long_gap: meta.chunk_samples.cast_signed(),
            size: signal.dtype().size(),
            store,
            writer,
            rate,
            step: step.cast_signed(),
            per_window,
            clock,
            stamp_every: ((rate.to_f64() * 60.0) as u64).clamp(1, 1 << 24),
            since_stamp: 0,
            expected: None,
            ends: ends.map(|time| time.value),
            new_run: false,
            copied,
            is_unchecked: true,
            is_empty: end == 0,
        })
    }

    fn stamp(&self, index: i64) -> Option<Stamp> {
        self.clock.as_ref()?.stamp(index)
    }

    fn append(&mut self, start: i64, mut bytes: &[u8]) -> Result<(), OpError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let count = (bytes.len() / self.size) as u64;
        let mut gap = self.gap_before(start, count)?;
        self.expected =
            Some(start.saturating_add_unsigned(count.saturating_mul(self.step.unsigned_abs())));
        let mut at = start;
        while !bytes.is_empty() {
            let left = self.stamp_every - self.since_stamp;
            let take = left.min((bytes.len() / self.size) as u64);
            let (now, rest) = bytes.split_at(take as usize * self.size);
            let stamp = (self.since_stamp == 0).then(|| self.stamp(at)).flatten();
            let restarts = gap.take_if(|gap| gap.restarts);
            if let Some(gap) = gap.take() {
                self.writer.append_gap(gap.samples).map_err(store_error)?;
            }
            match (stamp, restarts) {
                (Some(stamp), Some(gap)) => {
                    (self.writer).append_bytes_behind_gap(now, gap.samples, &stamp)
                }
                (Some(stamp), None) => self.writer.append_bytes_at(now, &stamp, None),
                (None, _) => self.writer.append_bytes(now),
            }
            .map_err(store_error)?;
            at = at.saturating_add_unsigned(take.saturating_mul(self.step.unsigned_abs()));
            self.since_stamp = (self.since_stamp + take) % self.stamp_every;
            bytes = rest;
        }
        Ok(())
    }

    fn gap_before(&mut self, start: i64, count: u64) -> Result<Option<NewGap>, OpError> {
        let Some(expected) = self.expected else {
            let before = self.gaps().map_or(0, |gaps| gaps.until(start));
            self.append_gap(if self.is_empty { before } else { 0 })?;
            return self.resume_signal(start, count);
        };
        let gap = if self.new_run || start < expected {
            self.new_run = false;
            if self.copied.reads.is_some() {
                self.append_gap(start.saturating_sub(expected).max(0).unsigned_abs())?;
            }
            self.writer.begin_run().map_err(store_error)?;
            None
        } else if expected < start {
            Some(self.gap(expected, start))
        } else {
            return Ok(None);
        };
        self.since_stamp = 0;
        Ok(gap)
    }

    /// Joins the first samples to an existing signal. By the clock they may seem to continue it with another phase, as
    /// windows counted from another anchor.
    fn resume_signal(&mut self, start: i64, count: u64) -> Result<Option<NewGap>, OpError> {
        self.new_run = false;
        let ends = self.ends.take().filter(|_| self.step > 1);
        let Some((stamp, ends)) = self.stamp(start).zip(ends) else {
            return Ok(None);
        };
        let count = count.cast_signed();
        let meant = self
            .writer
            .placement(count, &stamp, None)
            .map_err(store_error)?;
        let off = self.samples_between(ends, stamp.civil).unwrap_or(0.0);
        if meant != Placement::Contiguous || off.abs() * self.step as f64 <= 0.5 {
            return Ok(None);
        }
        if off > 0.0 {
            return Ok(Some(NewGap {
                samples: (off.round() as i64).max(1),
                restarts: true,
            }));
        }
        self.writer.begin_run().map_err(store_error)?;
        Ok(None)
    }

    /// Rejects samples whose sender states another calibration. Called after each commit and each break, where the
    /// sender may change.
    fn check_description(&mut self) -> Result<(), OpError> {
        let is_due = std::mem::take(&mut self.is_unchecked);
        if !is_due || !self.copied.is_feed || self.copied.awaits_description {
            return Ok(());
        }
        let described = self
            .copied
            .reads
            .as_ref()
            .and_then(SharedRecording::description);
        described.map_or(Ok(()), |described| {
            let signal = self.writer.signal().map_err(store_error)?;
            check_calibration(&signal, &described.calibration)
        })
    }

    fn gaps(&self) -> Option<OuterGaps> {
        self.copied.reads.as_ref().map(SharedRecording::outer_gaps)
    }

    fn append_gap(&mut self, samples: u64) -> Result<(), OpError> {
        if samples > 0 {
            let samples = i64::try_from(samples).unwrap_or(i64::MAX);
            self.writer.append_gap(samples).map_err(store_error)?;
            self.is_empty = false;
        }
        Ok(())
    }

    fn samples_between(&self, from: Fixed, to: Fixed) -> Option<f64> {
        Some(to.checked_sub(from)?.to_f64() * self.rate.to_f64() / 1e9)
    }

    fn gap(&self, from: i64, to: i64) -> NewGap {
        let by_axis = ((to.saturating_sub(from) + self.step / 2) / self.step).max(1);
        let times = self.stamp(from).zip(self.stamp(to));
        let lasted = times.and_then(|(from, to)| self.samples_between(from.civil, to.civil));
        let Some(lasted) = lasted else {
            return NewGap {
                samples: by_axis,
                restarts: false,
            };
        };
        // Clock drift explains a few samples; more means that the gap's length is no duration.
        let samples = if (lasted - by_axis as f64).abs() <= 2.5 || lasted <= 0.0 {
            by_axis
        } else if lasted <= self.max_gap {
            (lasted.round() as i64).max(1)
        } else {
            self.long_gap
        };
        NewGap {
            samples,
            restarts: (lasted - samples as f64).abs() > 0.01,
        }
    }

    /// The windows do not overlap, or have one value each.
    fn append_frames(&mut self, frames: &Frames) -> Result<(), OpError> {
        let row = frames.width() * self.size;
        let stride = frames.stride() * self.size;
        let bytes = frames.buffer().bytes();
        let together = match self.per_window {
            1 => true,
            _ => frames.hop() == frames.window(),
        };
        if together && row == stride {
            return self.append(frames.start(), bytes);
        }
        for k in 0..frames.count() {
            let at = k as usize * stride;
            self.append(frames.window_start(k), &bytes[at..at + row])?;
        }
        Ok(())
    }
}

impl SinkWriter for SignalSinkWriter {
    fn write(&mut self, item: &Item) -> Result<u64, OpError> {
        self.check_description()?;
        match item {
            Item::Samples(samples) => {
                let mut at = samples.start();
                for buffer in samples.buffers() {
                    self.append(at, buffer.bytes())?;
                    at = at.saturating_add_unsigned((buffer.len() / self.size) as u64);
                }
                Ok(samples.len() * self.size as u64)
            }
            Item::Frames(frames) => {
                self.append_frames(frames)?;
                Ok(frames.count() * (frames.width() * self.size) as u64)
            }
            other => Err(OpErrorKind::WrongItem {
                expected: "samples or frames",
                got: other.kind(),
            }
            .into()),
        }
    }

    fn on_break(&mut self, why: &Break) -> Result<(), OpError> {
        self.is_unchecked = true;
        self.new_run |= matches!(why, Break::ClockStep { .. });
        Ok(())
    }

    fn commit(&mut self) -> Result<(), OpError> {
        let reads = self.copied.reads.as_ref();
        let awaited = reads.filter(|_| self.copied.awaits_description);
        if let Some(described) = awaited.and_then(SharedRecording::description) {
            self.copied.awaits_description = false;
            let calibration = &described.calibration;
            let scale =
                (!calibration.is_identity()).then(|| (calibration.scale(), calibration.offset()));
            let set = self.writer.set_calibration(calibration.unit(), scale);
            set.map_err(store_error)?;
            let set = self.writer.set_attributes(&described.attributes);
            set.map_err(store_error)?;
        }
        self.is_unchecked = true;
        self.store.commit(true).map(drop).map_err(store_error)
    }

    fn finish(&mut self) -> Result<(), OpError> {
        if self.expected.is_some() || self.is_empty {
            let behind = self.gaps().map_or(0, |gaps| gaps.from(self.expected));
            self.append_gap(behind)?;
        }
        self.commit()
    }
}
