//! Appending: samples that follow on, samples with a stamp, gaps, and new runs.
//!
//! The *live* run is the latest that was not opened for late samples: whatever is appended continues its clock. If late
//! samples were stored behind it, the index axis cannot go on where it stopped, so a new run takes over its clock.
//!
//! An append decides everything first, then writes samples, then queues what they mean; a failure in between leaves
//! bytes that nothing counts. Clocks are kept between appends and made anew from stored rows after any failure.

use std::sync::{Arc, PoisonError, RwLockReadGuard};

use isochrony_segment::{DType, Sample};
use isochrony_time::{Clock, Fixed, Piece, Placement, Point, PointUse, RunId, Stamp};

use crate::clock;
use crate::engine::Engine;
use crate::error::StoreError;
use crate::op::{Op, PieceRow, RunReason, RunRow, SignalId};
use crate::signal::{Signal, overflow};
use crate::state::{Gap, SignalState};
use crate::store::{Shared, lock};
use crate::write::replace_shards;

/// A handle for changing one signal. Clones and further handles of the same signal may be used from several threads.
///
/// Changes are seen by [`signal`](Self::signal) at once and by everyone else after [`Store::commit`](crate::Store::commit).
#[derive(Clone)]
pub struct SignalWriter {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: SignalId,
}

/// Where appended samples went.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Appended {
    /// Index of the first sample.
    pub index: i64,
    /// Number of samples.
    pub samples: i64,
    /// The run that they belong to.
    pub run: RunId,
    /// What their stamp meant; `Contiguous` without one.
    pub placement: Placement,
    /// Whether they began a run, and why.
    pub new_run: Option<RunReason>,
}

/// What appending remembers between calls.
#[derive(Default)]
pub(crate) struct WriterState {
    /// Clock of the live run; `None`: not made yet.
    live: Option<LiveClock>,
    /// Closed pieces of the live run that are stored as the clock has them: only those behind need comparing.
    settled: usize,
    pub(crate) stamps: Option<crate::backfill::StampIndex>,
}

enum LiveClock {
    /// No stamp so far.
    Unknown,
    Known(Box<Clock>),
}

impl WriterState {
    /// Forgets clocks that no longer agree with what is stored.
    pub(crate) fn forget_clock(&mut self) {
        self.live = None;
        self.settled = 0;
    }
}

pub(crate) fn is_late(run: &RunRow) -> bool {
    matches!(run.reason, RunReason::Late | RunReason::Overlap)
}

/// The run that appended samples continue.
pub(crate) fn live_run(state: &SignalState) -> Option<RunRow> {
    let last = state.runs.len();
    (0..last)
        .rev()
        .filter_map(|position| state.runs.get(position))
        .find(|run| !is_late(run))
}

/// Bytes that are written at a time: a whole number of samples of any type.
const BLOCK: usize = 256 << 10;

/// One change of one signal: what to write and what it means.
pub(crate) struct Change<'a> {
    id: SignalId,
    samples: Option<(i64, &'a [u8])>,
    pub(crate) ops: Vec<Op>,
}

impl<'a> Change<'a> {
    pub(crate) fn new(id: SignalId) -> Self {
        Self {
            id,
            samples: None,
            ops: Vec::with_capacity(8),
        }
    }

    /// Bytes to write at `index`.
    pub(crate) fn write(&mut self, index: i64, bytes: &'a [u8]) {
        self.samples = Some((index, bytes)).filter(|_| !bytes.is_empty());
    }

    /// Samples or a gap behind the end, as a part of `run`, whose `end` is set.
    pub(crate) fn extend(&mut self, run: &mut RunRow, from: i64, end: i64) {
        let id = self.id;
        run.end = end;
        self.ops.push(Op::Valid { id, start: from, end });
        self.ops.push(Op::End { id, end });
        self.ops.push(Op::Run { id, run: *run });
    }

    pub(crate) fn point(&mut self, run: u32, point: &Point) -> Result<(), StoreError> {
        let point = clock::point_row(run, point)?;
        self.ops.push(Op::Point { id: self.id, point });
        Ok(())
    }

    /// The run's pieces from position `settled` on, up to which the stored ones are the same: stores them from the first
    /// that differs.
    pub(crate) fn fit(
        &mut self,
        state: &SignalState,
        run: u32,
        pieces: &[Piece],
        settled: usize,
    ) -> Result<(), StoreError> {
        let mut same = settled;
        let mut rows: Vec<PieceRow> = Vec::new();
        for piece in pieces {
            let row = clock::piece_row(piece)?;
            if rows.is_empty() && state.fit.nth_of_run(run, same) == Some(row) {
                same += 1;
            } else {
                rows.push(row);
            }
        }
        // Stored pieces from the first changed one on are replaced, whichever of the two begins earlier.
        let stale = state.fit.nth_of_run(run, same).map(|row| row.index);
        let first = rows.first().map(|row| row.index);
        if let Some(from) = first.into_iter().chain(stale).min() {
            self.ops.push(Op::Fit {
                id: self.id,
                run,
                from,
                pieces: rows,
            });
        }
        Ok(())
    }

    /// Writes samples, then queues what they mean.
    pub(crate) fn apply(mut self, shared: &Shared, engine: &Engine) -> Result<(), StoreError> {
        let Shared { backend, views, .. } = shared;
        if let Some((start, bytes)) = self.samples {
            // Block by block, so that checksums and views find the samples in the cache.
            let mut index = start;
            for block in bytes.chunks(BLOCK) {
                match engine.write_samples(self.id, index, block) {
                    Ok(()) => index = views.feed(backend, self.id, index, block),
                    // A gap that is not committed yet: until it is, its samples must stay as they are.
                    Err(StoreError::Occupied { .. }) => {
                        let state = engine.state(self.id)?;
                        let exchange = replace_shards(engine, &state, start, bytes)?;
                        self.ops.splice(0..0, exchange);
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        for op in self.ops {
            views.observe(backend, &op)?;
            engine.queue(op)?;
        }
        Ok(())
    }
}

impl SignalWriter {
    pub(crate) fn new(shared: &Arc<Shared>, id: SignalId) -> Self {
        Self {
            shared: Arc::clone(shared),
            id,
        }
    }

    /// The signal as it is now, with what is not committed yet.
    ///
    /// # Errors
    /// [`StoreError::Closed`], [`StoreError::SignalRemoved`].
    pub fn signal(&self) -> Result<Signal, StoreError> {
        Signal::load(&self.shared, self.id)
    }

    /// Appends samples that follow on the last ones without pause.
    ///
    /// # Errors
    /// [`StoreError::DTypeMismatch`], [`StoreError::ReadOnly`], [`StoreError::Io`].
    pub fn append<T: Sample>(&self, samples: &[T]) -> Result<Appended, StoreError> {
        self.check_dtype(T::DTYPE)?;
        self.append_bytes(bytemuck::cast_slice(samples))
    }

    /// Appends samples whose first was taken at `stamp`: they follow on, or after a gap, or begin a run where the
    /// clock stepped back.
    ///
    /// # Errors
    /// As [`append`](Self::append), and [`StoreError::Time`] for a stamp that no clock can have.
    pub fn append_at<T: Sample>(&self, samples: &[T], stamp: &Stamp) -> Result<Appended, StoreError> {
        self.check_dtype(T::DTYPE)?;
        self.append_bytes_at(bytemuck::cast_slice(samples), stamp, None)
    }

    /// As [`append`](Self::append), from bytes in this machine's order.
    ///
    /// # Errors
    /// As [`append`](Self::append), and [`StoreError::PartialSample`].
    pub fn append_bytes(&self, bytes: &[u8]) -> Result<Appended, StoreError> {
        self.change("append", |state, writer, change| {
            let samples = sample_count(state, bytes)?;
            let (mut run, new_run) = live_tail(state, writer)?;
            if samples > 0 {
                let end = checked_end(state.end, samples)?;
                change.write(state.end, bytes);
                change.extend(&mut run, state.end, end);
                follow_on(state, writer, change, &run, samples)?;
            }
            Ok(Appended {
                index: state.end,
                samples,
                run: RunId(run.id),
                placement: Placement::Contiguous,
                new_run,
            })
        })
    }

    /// As [`append_at`](Self::append_at), from bytes in this machine's order. `next` is the stamp of what comes after,
    /// if known: it tells a wrong stamp from a step.
    ///
    /// # Errors
    /// As [`append_at`](Self::append_at), and [`StoreError::PartialSample`].
    pub fn append_bytes_at(
        &self,
        bytes: &[u8],
        stamp: &Stamp,
        next: Option<&Stamp>,
    ) -> Result<Appended, StoreError> {
        self.change("append", |state, writer, change| {
            append_stamped(state, writer, change, bytes, stamp, next)
        })
    }

    /// Appends a gap of `samples` (above zero), which lasts as long as so many samples.
    ///
    /// # Errors
    /// [`StoreError::InvalidLength`], [`StoreError::ReadOnly`], [`StoreError::Io`].
    pub fn append_gap(&self, samples: i64) -> Result<Gap, StoreError> {
        self.change("append a gap", |state, writer, change| {
            check_gap(state, samples)?;
            let gap = gap_behind(state, writer, change, samples)?;
            extend_clock(writer, samples)?;
            Ok(gap)
        })
    }

    /// Appends a gap that lasts `ns` (above zero), to the nearest sample of the running rate. One longer than the
    /// signal's `max_gap` takes one inner chunk of index; its duration is kept all the same.
    ///
    /// # Errors
    /// As [`append_gap`](Self::append_gap).
    pub fn append_gap_duration(&self, ns: Fixed) -> Result<Gap, StoreError> {
        self.change("append a gap", |state, writer, change| {
            let clock = live_clock(state, writer)?;
            let rate = clock.map_or(state.meta.rate.to_f64(), |clock| clock.rate().hz);
            let samples = (ns.to_f64() * rate / 1e9).round() as i64;
            check_gap(state, samples)?;
            if ns <= Fixed::from_int(state.meta.clock.max_gap_ns) {
                let gap = gap_behind(state, writer, change, samples)?;
                extend_clock(writer, samples)?;
                return Ok(gap);
            }
            let resumes = match expected(state, writer)? {
                Some(expected) => {
                    let resumes = expected.checked_add(ns);
                    Some(resumes.ok_or_else(|| overflow("end of a gap"))?)
                }
                None => None,
            };
            let gap = gap_behind(state, writer, change, state.meta.chunk_samples.cast_signed())?;
            if let Some(resumes) = resumes {
                jump(state, writer, change, gap, resumes)?;
            }
            Ok(gap)
        })
    }

    /// Begins a run: the clock of what follows has nothing to do with that of what came before, but for its rate.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`].
    pub fn begin_run(&self) -> Result<RunId, StoreError> {
        self.change("begin a run", |state, writer, change| {
            let mut run = new_run(state, RunReason::Requested);
            change.extend(&mut run, state.end, state.end);
            if let Some(clock) = live_clock(state, writer)? {
                *clock = clock.next_run(RunId(run.id));
            }
            Ok(RunId(run.id))
        })
    }

    /// States the civil time of the first sample to come, for a signal that has none yet.
    pub(crate) fn begin_at(&self, start: Fixed) -> Result<(), StoreError> {
        let engine = self.shared.backend.engine("create a signal")?;
        let state = engine.state(self.id)?;
        let mut change = Change::new(self.id);
        let mut run = new_run(&state, RunReason::First);
        change.extend(&mut run, state.end, state.end);
        let piece = Piece::nominal(RunId(run.id), state.end, start, state.meta.rate);
        change.fit(&state, run.id, &[piece], 0)?;
        drop(state);
        change.apply(&self.shared, engine)
    }

    pub(crate) fn check_dtype(&self, got: DType) -> Result<(), StoreError> {
        let state = self.shared.backend.state(self.id)?;
        if got != state.meta.dtype {
            return Err(StoreError::DTypeMismatch {
                signal: (*state.name).into(),
                expected: state.meta.dtype,
                got,
            });
        }
        Ok(())
    }

    /// Decides on one change with the signal's state and clocks, then makes it, between commits.
    pub(crate) fn change<'a, T>(
        &self,
        action: &'static str,
        decide: impl FnOnce(&SignalState, &mut WriterState, &mut Change<'a>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let engine = self.shared.backend.engine(action)?;
        let _between = self.between_commits();
        let writer = self.shared.writer_state(self.id);
        let mut writer = lock(&writer);
        let mut change = Change::new(self.id);
        // The state goes before it changes: nothing then shares its tables, and they need no copy.
        let decided = engine
            .state(self.id)
            .and_then(|state| decide(&state, &mut writer, &mut change));
        let outcome = decided.and_then(|decided| change.apply(&self.shared, engine).map(|()| decided));
        if outcome.is_err() {
            *writer = WriterState::default();
        }
        outcome
    }

    pub(crate) fn between_commits(&self) -> RwLockReadGuard<'_, ()> {
        self.shared.gate.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Samples in `bytes`.
pub(crate) fn sample_count(state: &SignalState, bytes: &[u8]) -> Result<i64, StoreError> {
    let dtype = state.meta.dtype;
    if !bytes.len().is_multiple_of(dtype.size()) {
        return Err(StoreError::PartialSample {
            signal: (*state.name).into(),
            bytes: bytes.len(),
            dtype,
        });
    }
    Ok((bytes.len() / dtype.size()).cast_signed() as i64)
}

pub(crate) fn checked_end(start: i64, samples: i64) -> Result<i64, StoreError> {
    start
        .checked_add(samples)
        .ok_or_else(|| overflow("end of the index axis"))
}

/// An empty run at the end.
pub(crate) fn new_run(state: &SignalState, reason: RunReason) -> RunRow {
    RunRow {
        id: state.runs.next_id(),
        start: state.end,
        end: state.end,
        reason: if state.runs.is_empty() { RunReason::First } else { reason },
    }
}

fn check_gap(state: &SignalState, samples: i64) -> Result<(), StoreError> {
    let max = i64::MAX - state.end;
    if samples <= 0 || samples > max {
        return Err(StoreError::InvalidLength {
            signal: (*state.name).into(),
            action: "append a gap of",
            length: samples,
            max,
        });
    }
    Ok(())
}

/// The clock of the live run; `None` if no run has known civil time so far.
pub(crate) fn live_clock<'a>(
    state: &SignalState,
    writer: &'a mut WriterState,
) -> Result<Option<&'a mut Clock>, StoreError> {
    if writer.live.is_none() {
        writer.live = Some(make_live_clock(state)?.map_or(LiveClock::Unknown, |clock| {
            LiveClock::Known(Box::new(clock))
        }));
    }
    Ok(match &mut writer.live {
        Some(LiveClock::Known(clock)) => Some(clock),
        _ => None,
    })
}

fn make_live_clock(state: &SignalState) -> Result<Option<Clock>, StoreError> {
    match live_run(state) {
        Some(run) => clock::resume(state, &run, |run| !is_late(run)),
        None => Ok(None),
    }
}

/// Where the live run's line is stated to go on although no stamp or sample says so yet: at its start
/// (`CreateOptions::start`) or behind a gap that time jumps over.
fn stated(state: &SignalState, run: &RunRow) -> Option<Piece> {
    let row = state.fit.last_of_run(run.id)?;
    let has_samples = state.points.of_run(run.id).next_back().is_some_and(|point| point.index >= row.index);
    (!has_samples).then(|| clock::piece(run.id, &row))
}

/// Civil time of the next sample of the live run, if anything says so.
pub(crate) fn expected(
    state: &SignalState,
    writer: &mut WriterState,
) -> Result<Option<Fixed>, StoreError> {
    if let Some(piece) = live_run(state).and_then(|run| stated(state, &run)) {
        // Late samples behind the end do not move it.
        let end = live_run(state).map_or(state.end, |run| run.end);
        return Ok(Some(piece.civil_at(Fixed::from_int(end))?));
    }
    match live_clock(state, writer)? {
        Some(clock) => Ok(clock.expected()?),
        None => Ok(None),
    }
}

fn extend_clock(writer: &mut WriterState, samples: i64) -> Result<(), StoreError> {
    if let Some(LiveClock::Known(clock)) = &mut writer.live {
        if clock.start().is_some() {
            clock.extend(samples.unsigned_abs())?;
        }
    }
    Ok(())
}

/// The run at the end of the axis that unstamped samples or a gap continue: the last one, unless it holds late
/// samples; then a new one, which takes over the live clock.
fn live_tail(
    state: &SignalState,
    writer: &mut WriterState,
) -> Result<(RunRow, Option<RunReason>), StoreError> {
    live_clock(state, writer)?;
    Ok(match state.runs.last() {
        Some(last) if !is_late(&last) => (last, None),
        Some(_) => (new_run(state, RunReason::Resumed), Some(RunReason::Resumed)),
        None => (new_run(state, RunReason::First), Some(RunReason::First)),
    })
}

/// Tells the clock of samples without a stamp in `run`. If the clock does not count there yet, but civil time is known,
/// they get the expected time as a stamp of their own.
fn follow_on(
    state: &SignalState,
    writer: &mut WriterState,
    change: &mut Change<'_>,
    run: &RunRow,
    samples: i64,
) -> Result<(), StoreError> {
    let stated = stated(state, run);
    let goes_on = live_clock(state, writer)?
        .is_some_and(|clock| clock.run().0 == run.id && clock.start().is_some());
    if goes_on && stated.is_none() {
        return extend_clock(writer, samples);
    }
    let Some(civil) = expected(state, writer)? else {
        return Ok(());
    };
    // Taken as exact: of what the clock expects, any other point of a wide stamp would be off already.
    let stamp = Stamp::new(civil, Fixed::ZERO);
    let mut clock = take_clock(state, writer, run)?;
    let placement = match clock.end() {
        None => Placement::First,
        Some(end) if end == state.end => Placement::Contiguous,
        Some(_) => Placement::Gap {
            samples: None,
            duration_ns: Fixed::ZERO,
        },
    };
    let point = clock.accept(state.end, &stamp, samples.unsigned_abs(), &placement)?;
    remember(state, writer, change, clock, &point)
}

/// The live clock, as that of `run`.
fn take_clock(
    state: &SignalState,
    writer: &mut WriterState,
    run: &RunRow,
) -> Result<Box<Clock>, StoreError> {
    live_clock(state, writer)?;
    let id = RunId(run.id);
    Ok(match writer.live.take() {
        Some(LiveClock::Known(clock)) if clock.run() == id => clock,
        Some(LiveClock::Known(clock)) => {
            writer.settled = 0;
            Box::new(clock.next_run(id))
        }
        _ => Box::new(Clock::new(clock::config(&state.meta), id)?),
    })
}

/// Stores a stamp that the live clock took in, and what that made of its fit.
fn remember(
    state: &SignalState,
    writer: &mut WriterState,
    change: &mut Change<'_>,
    clock: Box<Clock>,
    point: &Point,
) -> Result<(), StoreError> {
    let run = clock.run().0;
    change.point(run, point)?;
    let closed = clock.closed_pieces();
    let settled = writer.settled.min(closed.len());
    let mut behind = closed[settled..].to_vec();
    behind.extend(clock.open_piece()?);
    change.fit(state, run, &behind, settled)?;
    writer.settled = closed.len();
    if let Some(stamps) = &mut writer.stamps {
        stamps.add(&clock::point_row(run, point)?);
    }
    writer.live = Some(LiveClock::Known(clock));
    Ok(())
}

fn gap_behind(
    state: &SignalState,
    writer: &mut WriterState,
    change: &mut Change<'_>,
    samples: i64,
) -> Result<Gap, StoreError> {
    let expected = expected(state, writer)?;
    let (mut run, began) = live_tail(state, writer)?;
    let (id, start) = (state.id, state.end);
    let end = checked_end(start, samples)?;
    run.end = end;
    change.ops.push(Op::Gap { id, start, end });
    change.ops.push(Op::End { id, end });
    change.ops.push(Op::Run { id, run });
    if began == Some(RunReason::Resumed) {
        // The run begins without a sample that could carry a stamp: its line is stated.
        let clock = take_clock(state, writer, &run)?;
        if let Some(civil) = expected {
            let piece = Piece::nominal(RunId(run.id), start, civil, state.meta.rate);
            change.fit(state, run.id, &[piece], 0)?;
        }
        writer.live = Some(LiveClock::Known(clock));
    }
    Ok(Gap {
        start,
        length: samples,
    })
}

/// Time goes on at `resumes` behind a gap whose length on the axis is no duration: the line ends at the gap and starts
/// anew behind it, at the same slope.
fn jump(
    state: &SignalState,
    writer: &mut WriterState,
    change: &mut Change<'_>,
    gap: Gap,
    resumes: Fixed,
) -> Result<(), StoreError> {
    let (run, _) = live_tail(state, writer)?;
    let mut pieces: Vec<Piece> = state
        .fit
        .of_run(run.id)
        .map(|row| clock::piece(run.id, &row))
        .collect();
    let behind = match pieces.last_mut() {
        Some(last) => {
            let behind = Piece {
                index: gap.end(),
                end: None,
                civil: resumes,
                ..*last
            };
            last.end = Some(gap.start);
            behind
        }
        None => Piece::nominal(RunId(run.id), gap.end(), resumes, state.meta.rate),
    };
    // A piece that was only stated holds nothing now.
    pieces.retain(|piece| piece.end.is_none_or(|end| end > piece.index));
    pieces.push(behind);
    change.ops.retain(|op| !matches!(op, Op::Fit { .. }));
    change.fit(state, run.id, &pieces, 0)?;
    // Made anew from what is stored by then.
    writer.forget_clock();
    Ok(())
}

pub(crate) fn append_stamped<'a>(
    state: &SignalState,
    writer: &mut WriterState,
    change: &mut Change<'a>,
    bytes: &'a [u8],
    stamp: &Stamp,
    next: Option<&Stamp>,
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
    let meant = match (&stated, live_clock(state, writer)?) {
        (Some(piece), _) => after_stated(state, piece, stamp)?,
        (None, Some(clock)) => clock.place(stamp, count, next)?,
        (None, None) => Placement::First,
    };
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

/// What a stamp means where the line is stated and no stamp has confirmed it: within a few samples of it, it follows
/// on; later, there is a gap; earlier, it simply knows better.
fn after_stated(state: &SignalState, piece: &Piece, stamp: &Stamp) -> Result<Placement, StoreError> {
    let expected = piece.civil_at(Fixed::from_int(state.end))?;
    let off = stamp
        .civil
        .checked_sub(expected)
        .ok_or_else(|| overflow("time since the stated start"))?;
    let slip = match state.meta.clock.gap_slip_ns {
        Some(ns) => Fixed::from_int(ns),
        None => Fixed::from_bits(state.meta.rate.duration_ns(5)?.to_bits() / 2),
    };
    if off <= slip.max(stamp.resolution) {
        return Ok(Placement::First);
    }
    let fits = off <= Fixed::from_int(state.meta.clock.max_gap_ns);
    let samples = state.meta.rate.samples_in(off)?.round();
    Ok(Placement::Gap {
        samples: u64::try_from(samples).ok().filter(|_| fits),
        duration_ns: off,
    })
}
