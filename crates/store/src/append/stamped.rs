//! Samples with a stamp: what it means, and what follows from that.

use isochrony_time::{Fixed, Piece, Placement, PointUse, RunId, Stamp};

use super::change::Change;
use super::live::{WriterState, live_clock, live_tail, remember, stated, take_clock};
use super::{Appended, SignalWriter, checked_end, new_run, sample_count};
use crate::clock;
use crate::error::StoreError;
use crate::op::{Op, RunReason};
use crate::signal::overflow;
use crate::state::SignalState;

/// Appends samples with a stamp. `recorded` is the number of samples from the stamp to `next`, where it is not theirs.
pub(crate) fn append_stamped<'a>(
    state: &SignalState,
    writer: &mut WriterState,
    change: &mut Change<'a>,
    bytes: &'a [u8],
    stamp: &Stamp,
    next: Option<&Stamp>,
    recorded: Option<i64>,
) -> Result<Appended, StoreError> {
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
    // What the stamp means is the live clock's to say, also where the run at the end is not its own.
    let stated = stated(state, &run);
    let until_next = recorded.map_or(count, |recorded| count.max(recorded.max(0).cast_unsigned()));
    let meant = meant(state, writer, stated.as_ref(), stamp, until_next, next)?;
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
    // In a run that begins here the axis has no gap to tell.
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
        // Time has jumped already, whatever the clock makes of it.
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
    remember(state, writer, change, clock, &point)?;
    Ok(Appended {
        index,
        samples,
        run: RunId(run.id),
        placement: meant,
        new_run: began,
    })
}

impl SignalWriter {
    /// What `samples` samples with this stamp would be if they were appended; changes nothing.
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

/// What a stamp means where the line is stated and no stamp has confirmed it: within a few samples of it, it follows
/// on; later, there is a gap; earlier, it simply knows better.
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
