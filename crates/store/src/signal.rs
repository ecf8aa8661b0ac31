//! One signal as it was at one moment.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use isochrony_segment::{Calibration, DType, SigSeg, Stream, StreamId};
use isochrony_time::{
    Empirical, Fixed, IndexAt, Lookup, Prefer, Rate, RateEstimate, Round, RunId, Time, TimebaseId,
};
use serde_json::{Map, Value};

use crate::clock;
use crate::error::StoreError;
use crate::op::{EventRow, RunReason, RunRow, SignalId};
use crate::selection::Selection;
use crate::span::{Overlap, Resolved, Span};
use crate::state::{Gap, GapTable, SignalState};
use crate::store::{Shared, parse_attributes};

/// A signal as it was when this handle was made or last refreshed. Cheap to clone; it holds no samples.
///
/// Indices count from 0 in storage order and include gaps. Civil times are UTC nanoseconds since 1970.
#[derive(Clone)]
pub struct Signal {
    shared: Arc<Shared>,
    state: Arc<SignalState>,
    stream: StreamId,
    civil: Arc<OnceLock<Option<Arc<Empirical>>>>,
}

/// One clock between two clock steps.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Run {
    /// Unique in the signal, in order of storing.
    pub id: RunId,
    /// First index.
    pub start: i64,
    /// One past the last index.
    pub end: i64,
    /// Why the run began.
    pub reason: RunReason,
    /// Civil time of its first index and after its last, if known.
    pub civil: Option<(Fixed, Fixed)>,
    /// Its true rate, if there is civil time.
    pub rate: Option<RateEstimate>,
    /// Half-width of the interval around a civil time that holds the true one, ns; the largest of the run's pieces.
    pub uncertainty_ns: Option<f64>,
}

/// When a gap was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GapTimes {
    /// End of the last sample before the gap.
    pub start: Fixed,
    /// Time of the first sample after it.
    pub end: Fixed,
}

impl GapTimes {
    /// Duration in ns.
    #[must_use]
    pub fn duration_ns(&self) -> Fixed {
        self.end.checked_sub(self.start).unwrap_or(Fixed::ZERO)
    }
}

impl Signal {
    pub(crate) fn load(shared: &Arc<Shared>, id: SignalId) -> Result<Self, StoreError> {
        let state = shared.backend.state(id)?;
        Self::new(shared, state)
    }

    fn new(shared: &Arc<Shared>, state: Arc<SignalState>) -> Result<Self, StoreError> {
        let meta = &state.meta;
        let calibration = match meta.calibration {
            Some((scale, offset)) => Calibration::new(scale, offset, meta.unit.as_str())?,
            None => Calibration::identity(meta.unit.as_str()),
        };
        let stream = Stream::new(&*state.name, timebase(state.id), meta.rate)
            .with_calibration(calibration)
            .intern();
        Ok(Self {
            shared: Arc::clone(shared),
            state,
            stream,
            civil: Arc::default(),
        })
    }

    /// Follows what was committed since; whether anything changed.
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`], [`StoreError::Io`].
    pub fn refresh(&mut self) -> Result<bool, StoreError> {
        self.shared.backend.refresh()?;
        let state = self.shared.backend.state(self.state.id)?;
        if Arc::ptr_eq(&state, &self.state) {
            return Ok(false);
        }
        *self = Self::new(&self.shared, state)?;
        Ok(true)
    }

    // --- what it is ---

    /// Name in the store, `/` between components.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Identity for the life of the store, whatever the name.
    #[must_use]
    pub fn id(&self) -> SignalId {
        self.state.id
    }

    /// Type of the samples.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.state.meta.dtype
    }

    /// Unit of calibrated values; empty if unknown.
    #[must_use]
    pub fn unit(&self) -> &str {
        &self.state.meta.unit
    }

    /// How counts become values.
    #[must_use]
    pub fn calibration(&self) -> &'static Calibration {
        &self.stream.get().calibration
    }

    /// Nominal rate.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.state.meta.rate
    }

    /// Sealing codec; empty for the flat layout.
    #[must_use]
    pub fn codec(&self) -> &str {
        &self.state.meta.codec
    }

    /// User attributes.
    #[must_use]
    pub fn attributes(&self) -> Map<String, Value> {
        parse_attributes(&self.state.meta.attributes)
    }

    /// What its segments have in common.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// The state that this handle shows.
    #[must_use]
    pub fn state(&self) -> &Arc<SignalState> {
        &self.state
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared) && self.id() == other.id()
    }

    // --- extent ---

    /// Samples that exist, without gaps.
    #[must_use]
    pub fn sample_count(&self) -> i64 {
        self.state.sample_count()
    }

    /// First index: always 0.
    #[must_use]
    pub fn start_index(&self) -> i64 {
        0
    }

    /// Index after the last one, gaps included.
    #[must_use]
    pub fn end_index(&self) -> i64 {
        self.state.end
    }

    /// Indices without samples: iterate, count, or take one by position.
    #[must_use]
    pub fn gaps(&self) -> &GapTable {
        &self.state.gaps
    }

    /// When a gap was; `None` without civil time.
    ///
    /// # Errors
    /// [`StoreError::Time`].
    pub fn gap_times(&self, gap: Gap) -> Result<Option<GapTimes>, StoreError> {
        if self.empirical()?.is_none() {
            return Ok(None);
        }
        let start = match gap.start.checked_sub(1).filter(|last| *last >= 0) {
            Some(last) if self.run_at(last) == self.run_at(gap.start) => self.end_of_sample(last)?,
            _ => self.time_of(gap.start)?.value,
        };
        let end = if gap.end() < self.state.end && self.run_at(gap.end()) == self.run_at(gap.start) {
            self.time_of(gap.end())?.value
        } else {
            self.end_of_sample(gap.end() - 1)?
        };
        Ok(Some(GapTimes { start, end }))
    }

    /// Events by start index.
    pub fn events(&self) -> impl Iterator<Item = &EventRow> + '_ {
        self.state.events.iter().map(|event| &**event)
    }

    /// Events that touch a stretch. O(log n + hits).
    ///
    /// # Errors
    /// Those of [`select`](Self::select).
    pub fn events_in<'a>(&self, span: impl Into<Span<'a>>) -> Result<Vec<EventRow>, StoreError> {
        let parts = self.parts_unbounded(span.into())?;
        let mut events: Vec<EventRow> = Vec::new();
        for part in parts {
            events.extend(self.state.events.within(part).map(|event| (**event).clone()));
        }
        events.sort_by_key(|event| (event.start, event.id));
        events.dedup_by_key(|event| event.id);
        Ok(events)
    }

    /// The clocks, in index order.
    ///
    /// # Errors
    /// [`StoreError::Time`].
    pub fn runs(&self) -> Result<Vec<Run>, StoreError> {
        self.state.runs.iter().map(|run| self.describe(run)).collect()
    }

    fn describe(&self, run: RunRow) -> Result<Run, StoreError> {
        let known = self.state.fit.of_run(run.id).next().is_some();
        let civil = if known && run.start < run.end {
            Some((self.time_of(run.start)?.value, self.end_of_sample(run.end - 1)?))
        } else {
            None
        };
        let clock = clock::of_run(&self.state, &run)?;
        let uncertain = self.state.fit.of_run(run.id).map(|piece| piece.uncertainty_ps);
        Ok(Run {
            id: RunId(run.id),
            start: run.start,
            end: run.end,
            reason: run.reason,
            civil,
            rate: clock.map(|clock| clock.rate()),
            uncertainty_ns: uncertain.max().map(|ps| ps as f64 / 1e3),
        })
    }

    /// The true rate: the estimate of the run that knows it best. `None` without civil time.
    ///
    /// # Errors
    /// [`StoreError::Time`].
    pub fn true_rate(&self) -> Result<Option<RateEstimate>, StoreError> {
        let mut best: Option<RateEstimate> = None;
        for run in self.state.runs.iter() {
            let Some(clock) = clock::of_run(&self.state, &run)? else {
                continue;
            };
            let rate = clock.rate();
            if best.is_none_or(|best| rate.uncertainty_ppm < best.uncertainty_ppm) {
                best = Some(rate);
            }
        }
        Ok(best)
    }

    // --- time ---

    /// The relation of indices to civil time; `None` if there is none yet. Built on first use.
    ///
    /// # Errors
    /// [`StoreError::Time`] if the stored fit is impossible.
    pub fn empirical(&self) -> Result<Option<&Arc<Empirical>>, StoreError> {
        if let Some(civil) = self.civil.get() {
            return Ok(civil.as_ref());
        }
        let built = clock::empirical(&self.state)?.map(Arc::new);
        Ok(self.civil.get_or_init(|| built).as_ref())
    }

    fn civil(&self) -> Result<&Empirical, StoreError> {
        let civil = self.empirical()?.map(|civil| &**civil);
        civil.ok_or_else(|| StoreError::NoCivilTime {
            signal: self.name().into(),
        })
    }

    /// Civil time of a sample, extrapolated beyond the ends. It remembers its run, and is flagged inside a gap.
    ///
    /// # Errors
    /// [`StoreError::NoCivilTime`], [`StoreError::Time`] on overflow.
    pub fn time_of(&self, index: i64) -> Result<Time, StoreError> {
        let mut time = self.civil()?.time_of(index)?;
        time.in_gap |= self.state.gaps.at(index).is_some();
        Ok(time)
    }

    /// Civil time at which sample `index` ends: its own plus one period of its clock.
    pub(crate) fn end_of_sample(&self, index: i64) -> Result<Fixed, StoreError> {
        let start = self.time_of(index)?.value;
        let period = self.rate().duration_ns(1)?;
        start.checked_add(period).ok_or_else(|| overflow("end of a sample"))
    }

    /// Index of a time in any timebase of the store's: an index as it is, a civil time by the clock's fit.
    ///
    /// # Errors
    /// [`StoreError::NoCivilTime`], [`StoreError::Time`]: ambiguous after a backward step unless `prefer` is given,
    /// not on a sample with [`Round::Exact`], unknown timebase.
    pub fn index_of(
        &self,
        time: &Time,
        round: Round,
        prefer: Option<Prefer>,
    ) -> Result<IndexAt, StoreError> {
        let mut at = self.civil()?.index_of_time(time, Lookup { round, prefer })?;
        at.in_gap |= self.state.gaps.at(at.index).is_some();
        Ok(at)
    }

    /// Index of a civil time on the axis of one run, extrapolated beyond its ends.
    pub(crate) fn index_in_run(&self, run: &RunRow, civil: Fixed) -> Result<i64, StoreError> {
        let lookup = Lookup {
            round: Round::Nearest,
            prefer: Some(Prefer::Run(RunId(run.id))),
        };
        Ok(self.civil()?.index_of(civil, lookup)?.index)
    }

    /// The timebase of this signal's indices.
    #[must_use]
    pub fn timebase(&self) -> TimebaseId {
        timebase(self.id())
    }

    /// Civil times of `out.len()` indices from `start` in steps of `step`, whole ns.
    ///
    /// # Errors
    /// [`StoreError::NoCivilTime`], [`StoreError::Time`] outside the years 1677 to 2262.
    pub fn civil_grid_ns(&self, start: i64, step: i64, out: &mut [i64]) -> Result<(), StoreError> {
        Ok(self.civil()?.civil_ns_grid(start, step, out)?)
    }

    /// Civil times of many indices.
    ///
    /// # Errors
    /// As [`time_of`](Self::time_of).
    pub fn civil_many(&self, indices: &[i64], out: &mut [Fixed]) -> Result<(), StoreError> {
        Ok(self.civil()?.civil_many(indices, out)?)
    }

    /// Indices of many civil times.
    ///
    /// # Errors
    /// As [`index_of`](Self::index_of).
    pub fn index_many(
        &self,
        civil: &[Fixed],
        lookup: Lookup,
        out: &mut Vec<IndexAt>,
    ) -> Result<(), StoreError> {
        Ok(self.civil()?.index_many(civil, lookup, out)?)
    }

    // --- ranges ---

    /// Whether a stretch is one piece: inside the signal, without gap and without clock step. O(log n).
    ///
    /// # Errors
    /// [`StoreError::InvalidRange`], [`StoreError::NoCivilTime`], [`StoreError::Time`].
    pub fn contiguous<'a>(&self, span: impl Into<Span<'a>>) -> Result<bool, StoreError> {
        match span.into().resolve(self)? {
            Resolved::Index(range) => Ok(self.is_contiguous(range)),
            Resolved::Civil(range) => {
                // In civil time the signal must have samples from end to end, of one clock.
                let parts = self.civil_parts(&range)?;
                let [(_, part)] = parts.as_slice() else {
                    return Ok(false);
                };
                let whole = self.covers(&range, part)?;
                Ok(whole && self.is_contiguous(part.clone()))
            }
        }
    }

    fn is_contiguous(&self, range: Range<i64>) -> bool {
        self.has_indices(&range)
            && self.state.gaps.first_within(range.clone()).is_none()
            && (range.is_empty() || self.run_at(range.start) == self.run_at(range.end - 1))
    }

    /// Whether a stretch lies between the signal's ends. In civil time: of any of its runs.
    ///
    /// # Errors
    /// [`StoreError::InvalidRange`], [`StoreError::NoCivilTime`], [`StoreError::Time`].
    pub fn in_bounds<'a>(&self, span: impl Into<Span<'a>>) -> Result<bool, StoreError> {
        match span.into().resolve(self)? {
            Resolved::Index(range) => Ok(self.has_indices(&range)),
            Resolved::Civil(range) => {
                let civil = self.civil()?;
                let first = civil.runs().iter().map(|run| run.civil).min();
                let last = civil.runs().iter().map(|run| run.civil_end).max();
                Ok(first.is_some_and(|first| first <= range.start)
                    && last.is_some_and(|last| range.end <= last))
            }
        }
    }

    pub(crate) fn has_indices(&self, range: &Range<i64>) -> bool {
        0 <= range.start && range.start <= range.end && range.end <= self.state.end
    }

    pub(crate) fn run_at(&self, index: i64) -> Option<u32> {
        self.state.runs.at(index).map(|run| run.id)
    }

    /// A lazy selection by any stretch; where runs overlap in civil time, the first stored wins.
    ///
    /// # Errors
    /// [`StoreError::OutOfBounds`] for indices outside the signal (civil time may reach outside),
    /// [`StoreError::InvalidRange`], [`StoreError::NoCivilTime`], [`StoreError::Time`].
    pub fn select<'a>(&self, span: impl Into<Span<'a>>) -> Result<Selection, StoreError> {
        self.select_with(span, Overlap::default())
    }

    /// As [`select`](Self::select), choosing what to take where runs overlap in civil time.
    ///
    /// # Errors
    /// As [`select`](Self::select).
    pub fn select_with<'a>(
        &self,
        span: impl Into<Span<'a>>,
        overlap: Overlap,
    ) -> Result<Selection, StoreError> {
        Selection::new(self.clone(), span.into().resolve(self)?, overlap)
    }

    /// Index ranges that a span touches, not checked against the ends.
    fn parts_unbounded(&self, span: Span<'_>) -> Result<Vec<Range<i64>>, StoreError> {
        Ok(match span.resolve(self)? {
            Resolved::Index(range) => vec![range],
            Resolved::Civil(range) => {
                let parts = self.civil_parts(&range)?;
                parts.into_iter().map(|(_, part)| part).collect()
            }
        })
    }

    /// The samples of a gap-free stretch within one run, zero-copy where the medium allows.
    pub(crate) fn read(&self, range: Range<i64>) -> Result<SigSeg, StoreError> {
        let id = self.id();
        let backend = &self.shared.backend;
        let mut segment: Option<SigSeg> = None;
        let shard = backend.shard_samples(id)?.max(1);
        let mut at = range.start;
        while at < range.end {
            let border = (at / shard + 1).saturating_mul(shard);
            let stop = border.min(range.end);
            let buffer = backend.read(id, at, usize::try_from(stop - at).unwrap_or(usize::MAX))?;
            let part = SigSeg::new(buffer, at, self.dtype(), self.stream)?;
            match &mut segment {
                Some(have) => have.append(part)?,
                None => segment = Some(part),
            }
            at = stop;
        }
        Ok(segment.unwrap_or_else(|| SigSeg::empty(range.start, self.dtype(), self.stream)))
    }
}

/// The timebase of a signal's indices, store-wide.
pub(crate) fn timebase(id: SignalId) -> TimebaseId {
    // 0 is civil time. Ids are counted up from small numbers and never reach 2^32.
    TimebaseId(u32::try_from(id.0).unwrap_or(u32::MAX).saturating_add(1))
}

pub(crate) fn overflow(what: &'static str) -> StoreError {
    StoreError::Time(isochrony_time::TimeError::Overflow { what })
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal")
            .field("name", &self.name())
            .field("dtype", &self.dtype())
            .field("rate", &self.rate().to_string())
            .field("end_index", &self.end_index())
            .field("sample_count", &self.sample_count())
            .finish_non_exhaustive()
    }
}
