//! Stores late samples: in the gap that they fit, or in a run of their own at the end.
//!
//! Samples fit a gap that has enough indices and, up to the tolerance of gap detection, their stamp. Unless the run's
//! line crosses the gap, they get their own piece of its fit.

use std::ops::Range;

use isochrony_time::{Clock, Fixed, Piece, Placement, Point, PointUse, RunId, Stamp};

use crate::append::{
    Appended, Change, SignalWriter, StampIndex, StampedSamples, WriterState, append_stamped,
    checked_end, expected, is_late, live_clock, new_run, sample_count,
};
use crate::clock;
use crate::error::StoreError;
use crate::op::{Op, RunReason, RunRow};
use crate::signal::Signal;
use crate::state::Gap;

/// Where late samples were stored.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Backfilled {
    /// In a gap, at `[index, index + samples)`; the rest stays a gap.
    Filled {
        /// Index of the first sample.
        index: i64,
        /// Number of samples.
        samples: i64,
        /// Run of the gap.
        run: RunId,
    },
    /// At the end.
    Appended(Appended),
}

impl SignalWriter {
    /// Where these samples are already stored with this stamp.
    ///
    /// # Errors
    /// [`StoreError::PartialSample`], [`StoreError::ReadOnly`], [`StoreError::Io`].
    pub fn matches(&self, bytes: &[u8], stamp: &Stamp) -> Result<Option<Range<i64>>, StoreError> {
        let signal = self.signal()?;
        let samples = sample_count(signal.state(), bytes)?;
        let places = self.change("look for duplicates", |state, writer, _| {
            let index = writer.stamps.get_or_insert_with(|| StampIndex::new(state));
            Ok(index.places_of(stamp).to_vec())
        })?;
        for start in places {
            let range = start..checked_end(start, samples)?;
            if signal.contiguous(range.clone())? && same_bytes(&signal, &range, bytes)? {
                return Ok(Some(range));
            }
        }
        Ok(None)
    }

    /// Stores late samples by their stamp: in the gap that they fit, else as a run at the end, which contiguous later
    /// ones continue. Appends others.
    ///
    /// # Errors
    /// As [`append_bytes_at`](Self::append_bytes_at).
    pub fn backfill(&self, bytes: &[u8], stamp: &Stamp) -> Result<Backfilled, StoreError> {
        self.change("backfill", |state, writer, change| {
            // Another thread could fill the same gap. Stamps are by the recorder's own clock.
            let signal = self.signal()?.as_recorded();
            let samples = sample_count(state, bytes)?;
            let Some(expected) = expected(state, writer)? else {
                let appended =
                    append_stamped(state, writer, change, bytes, StampedSamples::new(stamp))?;
                return Ok(Backfilled::Appended(appended));
            };
            let late = LateSamples::new(signal, bytes, samples, stamp)?;
            if let Some(fill) = late.find_gap()? {
                let stored = late.fill(writer, change, &fill)?;
                return Ok(stored);
            }
            let tolerance = late.tolerance;
            if stamp
                .civil
                .checked_add(tolerance)
                .is_none_or(|time| time >= expected)
            {
                let appended =
                    append_stamped(state, writer, change, bytes, StampedSamples::new(stamp))?;
                return Ok(Backfilled::Appended(appended));
            }
            late.append(writer, change).map(Backfilled::Appended)
        })
    }
}

fn same_bytes(signal: &Signal, range: &Range<i64>, bytes: &[u8]) -> Result<bool, StoreError> {
    let mut rest = bytes;
    for buffer in signal.read(range.clone())?.buffers() {
        let Some((part, after)) = rest.split_at_checked(buffer.len()) else {
            return Ok(false);
        };
        if part != buffer.bytes() {
            return Ok(false);
        }
        rest = after;
    }
    Ok(rest.is_empty())
}

/// A gap that late samples fit, and the position in it.
struct Fill {
    run: RunRow,
    gap: Gap,
    index: i64,
}

struct LateSamples<'a> {
    signal: Signal,
    bytes: &'a [u8],
    samples: i64,
    stamp: &'a Stamp,
    duration: Fixed,
    /// Deviation that is neither a gap nor a step.
    tolerance: Fixed,
}

impl<'a> LateSamples<'a> {
    fn new(
        signal: Signal,
        bytes: &'a [u8],
        samples: i64,
        stamp: &'a Stamp,
    ) -> Result<Self, StoreError> {
        let meta = &signal.state().meta;
        Ok(Self {
            bytes,
            samples,
            stamp,
            duration: meta.expected_rate().duration_ns(samples)?,
            tolerance: clock::unlearned_slip(meta, stamp)?,
            signal,
        })
    }

    fn middle(&self) -> Fixed {
        let half = Fixed::from_bits(self.stamp.resolution.to_bits() / 2);
        self.stamp
            .civil
            .checked_add(half)
            .unwrap_or(self.stamp.civil)
    }

    fn find_gap(&self) -> Result<Option<Fill>, StoreError> {
        let state = self.signal.state();
        let slack = state.meta.expected_rate().samples_in(self.tolerance)?;
        let slack = slack.ceil_i64().unwrap_or(i64::MAX / 4).saturating_add(1);
        for run in state.runs.iter() {
            if run.start == run.end || state.fit.of_run(run.id).next().is_none() {
                continue;
            }
            let near = self.signal.index_in_run(&run, self.middle())?;
            let around =
                near.saturating_sub(slack).max(run.start)..near.saturating_add(slack).min(run.end);
            for gap in state.gaps.positions(state.gaps.overlapping(around)) {
                let start = gap.start.max(run.start);
                let gap = Gap {
                    start,
                    length: gap.end().min(run.end) - start,
                };
                if let Some(fill) = self.fits(run, gap, near)? {
                    return Ok(Some(fill));
                }
            }
        }
        Ok(None)
    }

    fn fits(&self, run: RunRow, gap: Gap, near: i64) -> Result<Option<Fill>, StoreError> {
        if self.samples > gap.length {
            return Ok(None);
        }
        let Some(times) = self.signal.gap_times(gap)? else {
            return Ok(None);
        };
        let (left, right) = (times.start, times.end);
        let minus = |a: Fixed, b: Fixed| a.checked_sub(b).unwrap_or(Fixed::MAX);
        // Time between the gap's edges and the samples.
        let before = minus(self.middle(), left);
        let after = minus(minus(right, self.middle()), self.duration);
        let least = Fixed::ZERO
            .checked_sub(self.tolerance)
            .unwrap_or(Fixed::ZERO);
        if before < least || after < least {
            return Ok(None);
        }
        let last = gap.end() - self.samples;
        let index = if before <= self.tolerance {
            gap.start
        } else if after <= self.tolerance {
            last
        } else {
            near.clamp(gap.start, last)
        };
        Ok(Some(Fill { run, gap, index }))
    }

    fn fill(
        &self,
        writer: &mut WriterState,
        change: &mut Change<'a>,
        fill: &Fill,
    ) -> Result<Backfilled, StoreError> {
        let state = self.signal.state();
        let id = state.id;
        let (index, run) = (fill.index, fill.run);
        let end = index + self.samples;
        change.write(index, self.bytes);
        change.ops.push(Op::Valid {
            id,
            start: index,
            end,
        });
        let point = Point {
            index,
            civil: self.stamp.civil,
            resolution: self.stamp.resolution,
            use_: PointUse::Used,
        };
        change.point(run.id, &point)?;
        let pieces: Vec<Piece> = state
            .fit
            .of_run(run.id)
            .map(|row| clock::piece(run.id, &row))
            .collect();
        if let Some(pieces) = self.with_piece(fill, pieces) {
            change.fit(state, run.id, &pieces, 0)?;
        }
        if let Some(stamps) = &mut writer.stamps {
            stamps.add(&clock::point_row(run.id, &point)?);
        }
        writer.forget_clock();
        Ok(Backfilled::Filled {
            index,
            samples: self.samples,
            run: RunId(run.id),
        })
    }

    fn with_piece(&self, fill: &Fill, mut pieces: Vec<Piece>) -> Option<Vec<Piece>> {
        let at = pieces.partition_point(|piece| piece.index <= fill.index);
        let left = *pieces.get(at.checked_sub(1)?)?;
        let end = fill.index + self.samples;
        let left_end = left.end.filter(|left_end| *left_end < end)?;
        // Time must not decrease within a run: the neighbours' ends are bounds.
        let earliest = left.civil_at(Fixed::from_int(left_end)).ok()?;
        let next = pieces.get(at).map(|piece| piece.civil);
        let mut piece = Piece {
            index: fill.index,
            end: Some(end),
            civil: earliest,
            uncertainty_ns: (self.stamp.resolution.to_f64() / 2.0).max(left.uncertainty_ns),
            residual_ns: 0.0,
            ..left
        };
        let takes = piece
            .civil_at(Fixed::from_int(end))
            .ok()?
            .checked_sub(earliest)?;
        let latest = match next {
            Some(next) => next.checked_sub(takes)?,
            None => Fixed::MAX,
        };
        if latest < earliest {
            // More samples than time: spread them over it.
            let room = next?.checked_sub(earliest)?.floor();
            piece.num = u64::try_from(room).ok().filter(|num| *num > 0)?;
            piece.den = self.samples.unsigned_abs();
        } else {
            // Exact contiguity precedes the middle of the stamp's interval.
            let until = self.stamp.civil.checked_add(self.stamp.resolution)?;
            let allowed = |time: &Fixed| self.stamp.civil <= *time && *time < until;
            let left = Some(earliest).filter(|_| fill.index == fill.gap.start);
            let right = Some(latest).filter(|_| end == fill.gap.end());
            piece.civil = left
                .filter(allowed)
                .or(right.filter(allowed))
                .unwrap_or_else(|| self.middle().clamp(earliest, latest));
        }
        pieces.insert(at, piece);
        // If invalid, times interpolated across the gap are better than none.
        isochrony_time::Empirical::from_pieces(pieces.clone()).ok()?;
        Some(pieces)
    }

    fn append(
        &self,
        writer: &mut WriterState,
        change: &mut Change<'a>,
    ) -> Result<Appended, StoreError> {
        let state = self.signal.state();
        let count = self.samples.unsigned_abs();
        let mut continued = None;
        if let Some(tail) = state.runs.last().filter(is_late)
            && let Some(clock) = clock::of_run(state, &tail)?
            && clock.place(self.stamp, count, None)? == Placement::Contiguous
        {
            continued = Some((tail, clock, Placement::Contiguous));
        }
        let (mut run, mut clock, placement) = match continued {
            Some(continued) => continued,
            None => {
                let reason = if self.overlaps_samples()? {
                    RunReason::Overlap
                } else {
                    RunReason::Late
                };
                let run = new_run(state, reason);
                let clock = match live_clock(state, writer)? {
                    Some(live) => live.next_run(RunId(run.id)),
                    None => Clock::new(clock::config(&state.meta), RunId(run.id))?,
                };
                (run, clock, Placement::First)
            }
        };
        let new_run = (placement == Placement::First).then_some(run.reason);
        let end = checked_end(state.end, self.samples)?;
        change.write(state.end, self.bytes);
        change.extend(&mut run, state.end, end);
        let point = clock.accept(state.end, self.stamp, count, &placement)?;
        change.point(run.id, &point)?;
        change.fit(state, run.id, &clock.pieces()?, 0)?;
        if let Some(stamps) = &mut writer.stamps {
            stamps.add(&clock::point_row(run.id, &point)?);
        }
        Ok(Appended {
            index: state.end,
            samples: self.samples,
            run: RunId(run.id),
            placement,
            new_run,
        })
    }

    fn overlaps_samples(&self) -> Result<bool, StoreError> {
        let start = self.middle();
        let end = start.checked_add(self.duration).unwrap_or(start);
        let selection = self.signal.select(start..end)?;
        Ok(selection.sample_count() > 0)
    }
}
