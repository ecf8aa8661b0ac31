//! Appends many stamped recordings in one change, with the result of single appends.

use isochrony_time::{Clock, Placement, Point, Stamp, TimeError};

use super::change::Change;
use super::live::{live_clock, live_tail, remember, stated, take_clock};
use super::writer_state::{LiveClock, WriterState};
use super::{SignalWriter, checked_end, sample_count};
use crate::error::StoreError;
use crate::state::SignalState;

/// One of consecutive recordings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StampedRecording {
    /// Above zero.
    pub samples: i64,
    /// Time of the first sample.
    pub stamp: Stamp,
    /// The stamp is before the nominal end of the samples before: no step back by itself, whatever the next stamp says.
    pub is_early: bool,
}

/// Where recordings were appended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppendedRecordings {
    /// Index of the first sample.
    pub index: i64,
    /// Number of samples.
    pub samples: i64,
    /// Number of recordings.
    pub recordings: usize,
}

#[derive(Default)]
struct ContiguousRecordings {
    points: Vec<Point>,
    samples: i64,
}

impl SignalWriter {
    /// Appends recordings as calls of [`append_bytes_at`](Self::append_bytes_at) would, up to the first that is not
    /// contiguous; none where civil time begins or a run continues another. `bytes`: samples of all; `next`: the stamp
    /// after the last.
    ///
    /// # Errors
    /// As [`append_bytes_at`](Self::append_bytes_at).
    pub fn append_following(
        &self,
        bytes: &[u8],
        recordings: &[StampedRecording],
        next: &Stamp,
    ) -> Result<AppendedRecordings, StoreError> {
        self.change("append", |state, writer, change| {
            append_following(state, writer, change, bytes, recordings, next)
        })
    }
}

fn append_following<'a>(
    state: &SignalState,
    writer: &mut WriterState,
    change: &mut Change<'a>,
    bytes: &'a [u8],
    recordings: &[StampedRecording],
    next: &Stamp,
) -> Result<AppendedRecordings, StoreError> {
    sample_count(state, bytes)?;
    let (mut run, began) = live_tail(state, writer)?;
    let counts_on = live_clock(state, writer)?
        .is_some_and(|clock| clock.run().0 == run.id && clock.end() == Some(state.end));
    if !counts_on || began.is_some() || stated(state, &run).is_some() {
        return Ok(AppendedRecordings::default());
    }
    let mut clock = take_clock(state, writer, &run)?;
    let ContiguousRecordings { points, samples } =
        take_following(&mut clock, state.end, recordings, next);
    if points.is_empty() {
        writer.live = Some(LiveClock::Known(clock));
        return Ok(AppendedRecordings::default());
    }
    let end = checked_end(state.end, samples)?;
    let size = state.meta.format.size();
    let own = bytes.get(..samples.unsigned_abs() as usize * size);
    let own = own.ok_or_else(|| StoreError::PartialSample {
        signal: (*state.name).into(),
        bytes: bytes.len(),
        format: state.meta.format,
    })?;
    change.write(state.end, own);
    change.extend(&mut run, state.end, end);
    remember(state, writer, change, clock, &points)?;
    Ok(AppendedRecordings {
        index: state.end,
        samples,
        recordings: points.len(),
    })
}

/// Takes recordings up to the first that is not contiguous, whose own append reports its errors.
fn take_following(
    clock: &mut Clock,
    index: i64,
    recordings: &[StampedRecording],
    next: &Stamp,
) -> ContiguousRecordings {
    let mut following = ContiguousRecordings::default();
    let after = recordings.iter().skip(1).map(|it| &it.stamp);
    for (recording, next) in recordings.iter().zip(after.chain([next])) {
        let index = index + following.samples;
        match take_if_following(clock, index, recording, next) {
            Ok(Some(point)) => following.points.push(point),
            _ => break,
        }
        following.samples += recording.samples;
    }
    following
}

fn take_if_following(
    clock: &mut Clock,
    index: i64,
    recording: &StampedRecording,
    next: &Stamp,
) -> Result<Option<Point>, TimeError> {
    let StampedRecording {
        samples,
        stamp,
        is_early,
    } = recording;
    let count = samples.unsigned_abs();
    let placement = clock.place(stamp, count, Some(next))?;
    if placement != Placement::Contiguous
        || *is_early && matches!(clock.place(stamp, count, None)?, Placement::Backward { .. })
    {
        return Ok(None);
    }
    clock.accept(index, stamp, count, &placement).map(Some)
}
