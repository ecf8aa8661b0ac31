//! Signals as of one moment.

mod runs;
mod time;

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use isochrony_segment::{Calibration, DType, SigSeg, Stream, StreamId};
use isochrony_time::{Empirical, Rate, TimebaseId};
use serde_json::{Map, Value};

use crate::error::StoreError;
use crate::lease::Lease;
use crate::op::{EventRow, SignalId};
use crate::sample_format::SampleFormat;
use crate::selection::Selection;
use crate::span::{Overlap, ResolvedSpan, Span};
use crate::state::{GapTable, SignalState};
use crate::store_state::StoreState;

pub use runs::{GapTimes, Run};

/// A signal as of when this handle was made or refreshed. Cheap to clone.
///
/// Indices count from 0 in storage order and include gaps. Civil times are UTC nanoseconds since 1970.
#[derive(Clone)]
pub struct Signal {
    shared: Arc<StoreState>,
    state: Arc<SignalState>,
    stream: StreamId,
    civil: Arc<OnceLock<Option<Arc<Empirical>>>>,
    is_as_recorded: bool,
    lease: Option<Arc<Lease>>,
}

impl Signal {
    pub(crate) fn load(shared: &Arc<StoreState>, id: SignalId) -> Result<Self, StoreError> {
        let state = shared.backend.state(id)?;
        Self::of_state(shared, state)
    }

    pub(crate) fn of_state(
        shared: &Arc<StoreState>,
        state: Arc<SignalState>,
    ) -> Result<Self, StoreError> {
        let meta = &state.meta;
        let calibration = match meta.calibration {
            Some((scale, offset)) => Calibration::new(scale, offset, meta.unit.as_str())?,
            None => Calibration::identity(meta.unit.as_str()),
        };
        let axis = timebase(shared.backend.uuid()?, state.id);
        let stream = Stream::new(&*state.name, axis, meta.rate)
            .with_calibration(calibration)
            .intern();
        Ok(Self {
            shared: Arc::clone(shared),
            state,
            stream,
            civil: Arc::default(),
            is_as_recorded: false,
            lease: None,
        })
    }

    /// The same signal, readable until the lease ends.
    #[must_use]
    pub fn leased(mut self, lease: &Arc<Lease>) -> Self {
        self.lease = Some(Arc::clone(lease));
        self
    }

    /// The same signal with uncorrected times of its own clock.
    #[must_use]
    pub fn as_recorded(&self) -> Self {
        Self {
            civil: Arc::default(),
            is_as_recorded: true,
            ..self.clone()
        }
    }

    /// Shows what was committed since; `true` if anything changed.
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`], [`StoreError::Io`].
    pub fn refresh(&mut self) -> Result<bool, StoreError> {
        self.shared.backend.refresh()?;
        self.show_newest()
    }

    /// As [`refresh`](Self::refresh), for frequent calls: only checks the log if nothing was committed, and notices
    /// another store in place of this one only when read.
    ///
    /// # Errors
    /// As [`refresh`](Self::refresh).
    pub fn refresh_if_moved(&mut self) -> Result<bool, StoreError> {
        self.shared.backend.refresh_if_moved()?;
        self.show_newest()
    }

    /// As [`refresh`](Self::refresh), but without pending changes of a store open for writing. `None` if the signal was
    /// created since the last commit.
    ///
    /// # Errors
    /// As [`refresh`](Self::refresh).
    pub fn refresh_committed(&mut self) -> Result<Option<bool>, StoreError> {
        self.shared.backend.refresh()?;
        let state = self.shared.backend.committed_state(self.state.id)?;
        state.map(|state| self.show(state)).transpose()
    }

    fn show_newest(&mut self) -> Result<bool, StoreError> {
        let state = self.shared.backend.state(self.state.id)?;
        self.show(state)
    }

    fn show(&mut self, state: Arc<SignalState>) -> Result<bool, StoreError> {
        if Arc::ptr_eq(&state, &self.state) {
            return Ok(false);
        }
        if let Some(lease) = &self.lease {
            // Released samples are not a gap.
            lease.check(&(0..self.end_index()))?;
        }
        let lease = self.lease.take();
        *self = Self {
            is_as_recorded: self.is_as_recorded,
            lease,
            ..Self::of_state(&self.shared, state)?
        };
        Ok(true)
    }

    /// Name, `/` between components.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Identity for the life of the store, whatever its name.
    #[must_use]
    pub fn id(&self) -> SignalId {
        self.state.id
    }

    /// Type of samples as read.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.format().dtype()
    }

    /// Stored format of samples.
    #[must_use]
    pub fn format(&self) -> SampleFormat {
        self.state.meta.format
    }

    /// Unit of values; empty if unknown.
    #[must_use]
    pub fn unit(&self) -> &str {
        &self.state.meta.unit
    }

    /// Calibration of counts.
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

    /// Whether it is sealed.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        !self.codec().is_empty()
    }

    /// Whether reads are requests to another machine.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        self.shared().backend.media().is_remote()
    }

    /// Whether reads decode or convert samples.
    #[must_use]
    pub fn is_decoded(&self) -> bool {
        self.is_sealed() || !self.format().is_plain()
    }

    /// User attributes.
    #[must_use]
    pub fn attributes(&self) -> Map<String, Value> {
        parse_attributes(&self.state.meta.attributes)
    }

    /// Common properties of its segments.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// State that this handle shows.
    #[must_use]
    pub fn state(&self) -> &Arc<SignalState> {
        &self.state
    }

    pub(crate) fn shared(&self) -> &Arc<StoreState> {
        &self.shared
    }

    /// Whether both are one signal of one open store: the same after a refresh.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared) && self.id() == other.id()
    }

    /// Samples, without gaps.
    #[must_use]
    pub fn sample_count(&self) -> i64 {
        self.state.sample_count()
    }

    /// First index: always 0.
    #[must_use]
    pub fn start_index(&self) -> i64 {
        0
    }

    /// One past the last index, gaps included.
    #[must_use]
    pub fn end_index(&self) -> i64 {
        self.state.end
    }

    /// Ranges without samples.
    #[must_use]
    pub fn gaps(&self) -> &GapTable {
        &self.state.gaps
    }

    /// Events by start index.
    pub fn events(&self) -> impl Iterator<Item = &EventRow> + '_ {
        self.state.events.iter().map(|event| &**event)
    }

    /// Events that overlap a span. O(log n + hits).
    ///
    /// # Errors
    /// As [`select`](Self::select).
    pub fn events_in<'a>(&self, span: impl Into<Span<'a>>) -> Result<Vec<EventRow>, StoreError> {
        let parts = self.parts_unbounded(span.into())?;
        let mut events: Vec<EventRow> = Vec::new();
        for part in parts {
            events.extend(
                self.state
                    .events
                    .within(part)
                    .map(|event| (**event).clone()),
            );
        }
        events.sort_by_key(|event| (event.start, event.id));
        events.dedup_by_key(|event| event.id);
        Ok(events)
    }

    /// Whether a span is inside the signal, without gap and clock step. O(log n).
    ///
    /// # Errors
    /// [`StoreError::InvalidRange`], [`StoreError::NoCivilTime`], [`StoreError::Time`].
    pub fn contiguous<'a>(&self, span: impl Into<Span<'a>>) -> Result<bool, StoreError> {
        match span.into().resolve(self)? {
            ResolvedSpan::Index(range) => Ok(self.is_contiguous(range)),
            ResolvedSpan::Civil(range) => {
                // In civil time one run must have samples throughout.
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

    /// Whether a span lies within the signal; in civil time, within any of its runs.
    ///
    /// # Errors
    /// [`StoreError::InvalidRange`], [`StoreError::NoCivilTime`], [`StoreError::Time`].
    pub fn in_bounds<'a>(&self, span: impl Into<Span<'a>>) -> Result<bool, StoreError> {
        match span.into().resolve(self)? {
            ResolvedSpan::Index(range) => Ok(self.has_indices(&range)),
            ResolvedSpan::Civil(range) => {
                let civil = self.civil()?;
                // An open run has no samples yet.
                let runs = || civil.runs().iter().filter(|run| run.end.is_some());
                let first = runs().map(|run| run.civil).min();
                let last = runs().map(|run| run.civil_end).max();
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

    /// Selects a span lazily; where runs overlap in civil time, the first stored applies.
    ///
    /// # Errors
    /// [`StoreError::OutOfBounds`] for indices outside the signal (civil times may be outside),
    /// [`StoreError::InvalidRange`], [`StoreError::NoCivilTime`], [`StoreError::Time`].
    pub fn select<'a>(&self, span: impl Into<Span<'a>>) -> Result<Selection, StoreError> {
        self.select_with(span, Overlap::default())
    }

    /// As [`select`](Self::select), with a choice for overlaps of runs.
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

    fn parts_unbounded(&self, span: Span<'_>) -> Result<Vec<Range<i64>>, StoreError> {
        Ok(match span.resolve(self)? {
            ResolvedSpan::Index(range) => vec![range],
            ResolvedSpan::Civil(range) => {
                let parts = self.civil_parts(&range)?;
                parts.into_iter().map(|(_, part)| part).collect()
            }
        })
    }

    /// Zero-copy if the medium allows.
    pub(crate) fn read(&self, range: Range<i64>) -> Result<SigSeg, StoreError> {
        let backend = &self.shared.backend;
        let mut segment: Option<SigSeg> = None;
        let meta = &self.state.meta;
        // Mapped or fully decoded samples are not copied.
        let whole = match meta.codec.is_empty() {
            true => meta.shard_samples(),
            false => meta.chunk_samples.cast_signed(),
        };
        let whole = whole.max(1);
        let mut at = range.start;
        while at < range.end {
            let border = (at / whole + 1).saturating_mul(whole);
            let stop = border.min(range.end);
            let count = usize::try_from(stop - at).unwrap_or(usize::MAX);
            let read = || backend.read(&self.state, at, count);
            let buffer = match &self.lease {
                Some(lease) => lease.within(&range, read)?,
                None => read()?,
            };
            let buffer = meta.format.decoded(buffer)?;
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

/// Unique in the store, and practically among stores.
fn timebase(store: uuid::Uuid, id: SignalId) -> TimebaseId {
    const BELOW_LEVELS: u64 = 0x7fff_ffff;
    let (high, low) = store.as_u64_pair();
    let base = (high ^ low) % BELOW_LEVELS;
    TimebaseId(((base + id.0 % BELOW_LEVELS) % BELOW_LEVELS) as u32 + 1)
}

fn parse_attributes(text: &str) -> Map<String, Value> {
    match serde_json::from_str(text) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
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
