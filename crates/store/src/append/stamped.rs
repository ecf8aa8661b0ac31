//! Appends with a stamp: interprets it and places the samples.

use isochrony_time::{Fixed, Piece, Placement, PointUse, RunId, Stamp};

use super::change::Change;
use super::gap::check_gap;
use super::live::{expected, live_clock, live_tail, new_run, remember, stated, take_clock};
use super::writer_state::WriterState;
use super::{Appended, SignalWriter, checked_end, sample_count};
use crate::clock;
use crate::error::{StoreError, overflow};
use crate::op::{Op, RunReason};
use crate::state::SignalState;

#[derive(Clone, Copy)]
pub(crate) struct StampedSamples<'s> {
    pub(crate) stamp: &'s Stamp,
    pub(crate) next: Option<&'s Stamp>,
    /// Samples from the stamp to `next`, if not all.
    pub(crate) recorded: Option<i64>,
    /// Length of the gap before them, if stated.
    pub(crate) gap: Option<i64>,
}

impl<'s> StampedSamples<'s> {
    pub(crate) fn new(stamp: &'s Stamp) -> Self {
        Self {
            stamp,
            next: None,
            recorded: None,
            gap: None,
        }
    }
}

pub(crate) fn append_stamped<'a>(
    state: &SignalState,
    writer: &mut WriterState,
    change: &mut Change<'a>,
    bytes: &'a [u8],
    stamped: StampedSamples<'_>,
) -> Result<Appended, StoreError> {
    let StampedSamples {
        stamp,
        next,
        recorded,
        gap: stated_gap,
    } = stamped;
    let id = state.id;
    let samples = sample_count(state, bytes)?;
    let count = samples.unsigned_abs();
    let (mut run, mut began) = live_tail(state, writer)?;
    if samples == 0 {
        return Ok(Appended {
            index: state.end,
            samples,
            run: RunId(run.id),
            placement: Placement::Contiguous,
            new_run: None,
        });
    }
    // The live clock interprets the stamp, even for another's run.
    let stated = stated(state, &run);
    let until_next = recorded.map_or(count, |recorded| count.max(recorded.max(0).cast_unsigned()));
    let mut meant = meant(state, writer, stated.as_ref(), stamp, until_next, next)?;
    if let Some(gap) = stated_gap {
        check_gap(state, gap)?;
        meant = behind_gap(state, writer, meant, stamp, gap)?;
    }
    let steps = match meant {
        Placement::Backward { .. } => Some(RunReason::BackwardStep),
        Placement::LeapSecond { .. } => Some(RunReason::LeapSecond),
        _ => None,
    };
    if let Some(reason) = steps {
        run = new_run(state, reason);
        began = Some(run.reason);
    }
    let mut clock = take_clock(state, writer, &run)?;
    let mut placement = match (clock.start(), meant) {
        (None, _) if stated.is_none() || steps.is_some() => Placement::First,
        _ => meant,
    };
    let gap = match placement {
        Placement::Gap {
            samples: Some(samples),
            ..
        } => samples.cast_signed().max(1),
        Placement::Gap { samples: None, .. } => state.meta.chunk_samples.cast_signed(),
        _ => 0,
    };
    if clock.start().is_none() {
        placement = Placement::First;
    } else if stated.is_some() {
        // Time has jumped already, whatever the clock infers.
        placement = Placement::Gap {
            samples: None,
            duration_ns: Fixed::ZERO,
        };
    }
    let index = checked_end(state.end, gap)?;
    let end = checked_end(index, samples)?;
    if gap > 0 {
        change.ops.push(Op::Gap {
            id,
            start: state.end,
            end: index,
        });
    }
    change.write(index, bytes);
    change.extend(&mut run, index, end);
    if placement == Placement::Lock {
        for row in state.points.of_run(run.id) {
            let mut point = clock::point(&row);
            point.use_ = PointUse::BeforeLock;
            change.point(run.id, &point)?;
        }
        writer.settled = 0;
    }
    let point = clock.accept(index, stamp, count, &placement)?;
    remember(state, writer, change, clock, &[point])?;
    Ok(Appended {
        index,
        samples,
        run: RunId(run.id),
        placement: meant,
        new_run: began,
    })
}

impl SignalWriter {
    /// As [`append_bytes_at`](Self::append_bytes_at), after a gap of `gap` samples (above zero) that ends at the stamp:
    /// civil time restarts there at any fraction of a sample, with the same rate. A stamp before the gap begins a run
    /// instead.
    ///
    /// # Errors
    /// As [`append_bytes_at`](Self::append_bytes_at), and [`StoreError::InvalidLength`].
    pub fn append_bytes_behind_gap(
        &self,
        bytes: &[u8],
        gap: i64,
        stamp: &Stamp,
    ) -> Result<Appended, StoreError> {
        self.change("append behind a gap", |state, writer, change| {
            let gap = Some(gap);
            let stamped = StampedSamples {
                gap,
                ..StampedSamples::new(stamp)
            };
            append_stamped(state, writer, change, bytes, stamped)
        })
    }

    /// Where an append would place samples with this stamp.
    ///
    /// # Errors
    /// As [`append_at`](Self::append_at).
    pub fn placement(
        &self,
        samples: i64,
        stamp: &Stamp,
        next: Option<&Stamp>,
    ) -> Result<Placement, StoreError> {
        self.change("look at a stamp", |state, writer, _| {
            let (run, _) = live_tail(state, writer)?;
            let stated = stated(state, &run);
            let count = samples.unsigned_abs();
            meant(state, writer, stated.as_ref(), stamp, count, next)
        })
    }
}

/// The stated gap, unless time goes back before it.
fn behind_gap(
    state: &SignalState,
    writer: &mut WriterState,
    meant: Placement,
    stamp: &Stamp,
    gap: i64,
) -> Result<Placement, StoreError> {
    if matches!(
        meant,
        Placement::Backward { .. } | Placement::LeapSecond { .. }
    ) {
        return Ok(meant);
    }
    let duration_ns = match expected(state, writer)? {
        Some(expected) => stamp.civil.checked_sub(expected),
        None => Some(Fixed::ZERO),
    };
    Ok(Placement::Gap {
        samples: Some(gap.unsigned_abs()),
        duration_ns: duration_ns.ok_or_else(|| overflow("duration of a gap"))?,
    })
}

fn meant(
    state: &SignalState,
    writer: &mut WriterState,
    stated: Option<&Piece>,
    stamp: &Stamp,
    count: u64,
    next: Option<&Stamp>,
) -> Result<Placement, StoreError> {
    match (stated, live_clock(state, writer)?) {
        (Some(piece), _) => after_stated(state, piece, stamp),
        (None, Some(clock)) => Ok(clock.place(stamp, count, next)?),
        (None, None) => Ok(Placement::First),
    }
}

/// Placement on an unconfirmed line: within a few samples, contiguous; later, a gap; earlier, a correction of the line.
fn after_stated(
    state: &SignalState,
    piece: &Piece,
    stamp: &Stamp,
) -> Result<Placement, StoreError> {
    let expected = piece.civil_at(Fixed::from_int(state.end))?;
    let off = stamp
        .civil
        .checked_sub(expected)
        .ok_or_else(|| overflow("time since the stated start"))?;
    if off <= clock::unlearned_slip(&state.meta, stamp)? {
        return Ok(Placement::First);
    }
    let fits = off <= Fixed::from_int(state.meta.clock.max_gap_ns);
    let samples = state.meta.expected_rate().samples_in(off)?.round();
    Ok(Placement::Gap {
        samples: u64::try_from(samples).ok().filter(|_| fits),
        duration_ns: off,
    })
}
