//! Appends to signals: contiguous samples, stamped samples, gaps, and new runs.
//!
//! The *live* run is the latest not opened for late samples: appends continue its clock. After late samples a new run
//! takes over its clock.
//!
//! An append decides everything, writes samples, then queues its operations as one unit; a failure leaves only bytes
//! that do not count.

pub(crate) mod change;
mod gap;
mod live;
mod recordings;
mod replace;
mod stamped;
pub(crate) mod writer_state;

use std::sync::{Arc, PoisonError, RwLockReadGuard};

use isochrony_segment::{DType, Sample};
use isochrony_time::{Fixed, Piece, Placement, RunId, Stamp};

use crate::error::{StoreError, overflow};
use crate::mutex::lock;
use crate::op::{RunReason, SignalId};
use crate::signal::Signal;
use crate::state::{Gap, SignalState};
use crate::store_state::StoreState;

pub(crate) use change::Change;
use gap::{check_gap, gap_behind, jump};
pub(crate) use live::{expected, is_late, live_clock, new_run};
use live::{extend_clock, follow_on, live_tail};
pub use recordings::{AppendedRecordings, StampedRecording};
pub(crate) use replace::replace_shards;
pub(crate) use stamped::{StampedSamples, append_stamped};
pub(crate) use writer_state::{StampIndex, WriterState};

/// Changes one signal. Thread-safe, also beside other handles of the signal.
///
/// Each change is atomic and visible at once through [`signal`](Self::signal), and to others after
/// [`Store::commit`](crate::Store::commit).
#[derive(Clone)]
pub struct SignalWriter {
    pub(crate) shared: Arc<StoreState>,
    pub(crate) id: SignalId,
}

/// Where samples were appended.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Appended {
    /// Index of the first sample.
    pub index: i64,
    /// Number of samples.
    pub samples: i64,
    /// Run of the samples.
    pub run: RunId,
    /// Meaning of their stamp; without one, `Contiguous`.
    pub placement: Placement,
    /// Why they began a new run, if so.
    pub new_run: Option<RunReason>,
}

impl SignalWriter {
    pub(crate) fn new(shared: &Arc<StoreState>, id: SignalId) -> Self {
        Self {
            shared: Arc::clone(shared),
            id,
        }
    }

    /// The signal, including uncommitted changes.
    ///
    /// # Errors
    /// [`StoreError::Closed`], [`StoreError::SignalRemoved`].
    pub fn signal(&self) -> Result<Signal, StoreError> {
        Signal::load(&self.shared, self.id)
    }

    /// Appends samples contiguous to the last ones.
    ///
    /// # Errors
    /// [`StoreError::DTypeMismatch`], [`StoreError::ReadOnly`], [`StoreError::Io`].
    pub fn append<T: Sample>(&self, samples: &[T]) -> Result<Appended, StoreError> {
        self.check_dtype(T::DTYPE)?;
        self.append_bytes(bytemuck::cast_slice(samples))
    }

    /// Appends samples, the first taken at `stamp`: contiguous, after a gap, or in a new run if the clock stepped back.
    ///
    /// # Errors
    /// As [`append`](Self::append), and [`StoreError::Time`] for an impossible stamp.
    pub fn append_at<T: Sample>(
        &self,
        samples: &[T],
        stamp: &Stamp,
    ) -> Result<Appended, StoreError> {
        self.check_dtype(T::DTYPE)?;
        self.append_bytes_at(bytemuck::cast_slice(samples), stamp, None)
    }

    /// As [`append`](Self::append), from bytes in native order.
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

    /// As [`append_at`](Self::append_at), from bytes in native order. `next`: stamp of what follows, if known, to tell
    /// a wrong stamp from a clock step.
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
            let told = StampedSamples {
                next,
                ..StampedSamples::new(stamp)
            };
            append_stamped(state, writer, change, bytes, told)
        })
    }

    /// As [`append_bytes_at`](Self::append_bytes_at), for the beginning of a contiguous recording of `samples`; `next`:
    /// the stamp after it.
    ///
    /// # Errors
    /// As [`append_bytes_at`](Self::append_bytes_at).
    pub fn append_beginning_at(
        &self,
        bytes: &[u8],
        stamp: &Stamp,
        next: Option<&Stamp>,
        samples: i64,
    ) -> Result<Appended, StoreError> {
        self.change("append", |state, writer, change| {
            let told = StampedSamples {
                next,
                recorded: Some(samples),
                ..StampedSamples::new(stamp)
            };
            append_stamped(state, writer, change, bytes, told)
        })
    }

    /// Appends a gap as long as `samples` (above zero).
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

    /// Appends a gap of `ns` (above zero), rounded to samples of the current rate. Longer than the signal's `max_gap`,
    /// it takes one inner chunk of indices and keeps its duration.
    ///
    /// # Errors
    /// As [`append_gap`](Self::append_gap).
    pub fn append_gap_duration(&self, ns: Fixed) -> Result<Gap, StoreError> {
        self.change("append a gap", |state, writer, change| {
            let samples = match live_clock(state, writer)? {
                Some(clock) => clock.samples_in(ns)?,
                None => state.meta.expected_rate().samples_in(ns)?,
            };
            let samples = samples.round_i64().unwrap_or(i64::MAX);
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
            let gap = gap_behind(
                state,
                writer,
                change,
                state.meta.chunk_samples.cast_signed(),
            )?;
            if let Some(resumes) = resumes {
                jump(state, writer, change, gap, resumes)?;
            }
            Ok(gap)
        })
    }

    /// Begins a run whose clock shares only the rate with the last.
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

    pub(crate) fn begin_at(&self, start: Fixed) -> Result<(), StoreError> {
        let engine = self.shared.backend.engine("create a signal")?;
        let state = engine.state(self.id)?;
        let mut change = Change::new(self.id);
        let mut run = new_run(&state, RunReason::First);
        change.extend(&mut run, state.end, state.end);
        let piece = Piece::nominal(RunId(run.id), state.end, start, state.meta.expected_rate());
        change.fit(&state, run.id, &[piece], 0)?;
        drop(state);
        change.apply(&self.shared, engine)
    }

    pub(crate) fn check_dtype(&self, got: DType) -> Result<(), StoreError> {
        let state = self.shared.backend.state(self.id)?;
        if !state.meta.format.takes(got) {
            return Err(StoreError::DTypeMismatch {
                signal: (*state.name).into(),
                expected: state.meta.format,
                got,
            });
        }
        Ok(())
    }

    /// Decides on one change, then makes it, excluding commits.
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
        // Drop the state first: tables that are shared would be copied.
        let decided = engine
            .state(self.id)
            .and_then(|state| decide(&state, &mut writer, &mut change));
        let outcome =
            decided.and_then(|decided| change.apply(&self.shared, engine).map(|()| decided));
        if outcome.is_err() {
            *writer = WriterState::default();
        }
        self.shared.backend.explain(action, outcome)
    }

    pub(crate) fn between_commits(&self) -> RwLockReadGuard<'_, ()> {
        self.shared
            .gate
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn sample_count(state: &SignalState, bytes: &[u8]) -> Result<i64, StoreError> {
    let format = state.meta.format;
    if !bytes.len().is_multiple_of(format.size()) {
        return Err(StoreError::PartialSample {
            signal: (*state.name).into(),
            bytes: bytes.len(),
            format,
        });
    }
    Ok((bytes.len() / format.size()).cast_signed() as i64)
}

pub(crate) fn checked_end(start: i64, samples: i64) -> Result<i64, StoreError> {
    start
        .checked_add(samples)
        .ok_or_else(|| overflow("end of the index axis"))
}
