//! Stored signals as recordings.
//!
//! A [`StoredRecording`] names a signal of a store, or index ranges in read order, which a selection by civil time may
//! reorder. A pass reads the newest commit, including later appends; in a plan sent from another process it is *pinned*
//! to the sent snapshot.
//!
//! A pass walks *parts*, each the share of a range in one run, and their contiguous ranges between gaps. Runs and gaps
//! are looked up when reached, O(log n) each. A contiguous range's anchor is the first sample after the last gap or
//! clock step, whatever range is read: windows do not depend on where a scan starts.
//!
//! This file and `snapshot` import each other: a recording creates the snapshot, which opens passes with its options.

pub(crate) mod clock;
mod contiguous;
mod extremes;
mod pass;
mod prefetch;
mod reading;
mod saved;
pub(crate) mod skip;
mod snapshot;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use isochrony_segment::StreamId;
use isochrony_store::machine::{ScanEstimate, estimate};
use isochrony_store::{Signal, StoreError, Strategy, Stretch};
use serde_json::{Map, Value};

use crate::plan::error::store_error;
use crate::plan::sent_objects::SentObjects;
use crate::{
    Clock, OpError, OuterGaps, PlanError, PortType, Recording, SharedRecording, SignalDescription,
    Snapshot, Source,
};
use clock::{StoredClock, clock_difference};
use contiguous::{ContiguousRanges, join_adjacent};
use extremes::ExtremesRecording;
use pass::StoredPass;
use skip::WindowFilter;
use snapshot::StoredSnapshot;

const MOST_VIEWED_RANGES: usize = 64;
const MOST_UNVIEWED_BYTES: u64 = 64 << 20;

/// A stored signal, or ranges of it, as a recording.
///
/// ```no_run
/// use isochrony_flow::{Plan, StoredRecording};
/// use isochrony_store::{Mode, Store};
///
/// let store = Store::open("water.iso", Mode::Read)?;
/// let signal = StoredRecording::new(store.path(), store.signal("stn_10/pressure")?);
/// let windows = Plan::scan(signal).rewindow(4096)?.count()?.collect()?;
/// println!("{:?}", windows.count());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct StoredRecording {
    store: PathBuf,
    signal: Signal,
    /// In read order; None: all, including later appends.
    ranges: Option<Vec<Range<i64>>>,
    clock: Option<Arc<StoredClock>>,
    clocked_by: Option<Signal>,
    /// None: lowest estimated cost.
    io: Option<Strategy>,
    /// Commit and end of the snapshot `signal`; None: the newest commit.
    pinned: Option<(u64, i64)>,
    /// Samples needed only by windows that fail it are skipped.
    filter: Option<Arc<WindowFilter>>,
}

impl StoredRecording {
    /// A signal of the store at a path; saved plans name both.
    pub fn new(store: impl AsRef<Path>, signal: Signal) -> Self {
        let timed = !signal.state().fit.is_empty();
        Self {
            clock: timed.then(|| Arc::new(StoredClock(RwLock::new(signal.clone())))),
            store: store.as_ref().to_owned(),
            signal,
            ranges: None,
            clocked_by: None,
            io: None,
            pinned: None,
            filter: None,
        }
    }

    /// Sets the [`Strategy`]; default: lowest estimated cost.
    #[must_use]
    pub fn io(mut self, strategy: Strategy) -> Self {
        self.io = Some(strategy);
        self
    }

    /// Of a pass over a range: the own one, else the given one, else that of lowest estimated cost. None if it cannot be
    /// read.
    pub(crate) fn strategy_of(
        &self,
        range: Option<Range<i64>>,
        given: Option<Strategy>,
    ) -> Option<Strategy> {
        let known = self.io.or(given);
        known.or_else(|| Some(self.reading_estimate(range)?.0))
    }

    /// In object storage or on a web server.
    pub(crate) fn is_remote(&self) -> bool {
        self.signal.is_remote()
    }

    /// Strategy and estimate of a pass over a range. Reads no samples.
    pub(crate) fn reading_estimate(
        &self,
        range: Option<Range<i64>>,
    ) -> Option<(Strategy, ScanEstimate)> {
        let selection = self.narrowed(range.as_ref());
        let (signal, mut parts) = self.now(range).ok()?;
        if self.filter.is_some() {
            parts = join_adjacent(parts);
        }
        let read = ContiguousRanges::new(signal.clone(), parts).of_selection(selection);
        let parts = match self.skips(&read) {
            None => read.parts().to_vec(),
            Some(skips) => skips.kept(&read),
        };
        let estimate = estimate(&signal, &parts);
        Some((self.io.unwrap_or_else(|| estimate.choice()), estimate))
    }

    /// Uses the timebase of another signal of the same clock, as for channels of one converter: the two combine index
    /// by index.
    ///
    /// # Errors
    /// [`PlanError::OtherClock`] if rates differ, or civil times at the ends of the common range differ by half a
    /// sample or more. Unchecked if one has no civil time.
    pub fn with_clock_of(mut self, other: &Signal) -> Result<Self, PlanError> {
        if let Some(why) = clock_difference(&self.signal, other) {
            return Err(PlanError::OtherClock {
                signal: self.signal.name().into(),
                other: other.name().into(),
                why,
            });
        }
        if !other.state().fit.is_empty() {
            self.clock = Some(Arc::new(StoredClock(RwLock::new(other.clone()))));
        }
        self.clocked_by = Some(other.clone());
        Ok(self)
    }

    fn stream(&self) -> StreamId {
        let Some(other) = &self.clocked_by else {
            return self.signal.stream();
        };
        let mut stream = self.signal.stream().get().clone();
        stream.timebase = other.timebase();
        stream.intern()
    }

    /// Reads only these indices, in this order.
    #[must_use]
    pub fn ranges(mut self, ranges: impl IntoIterator<Item = Range<i64>>) -> Self {
        self.ranges = Some(ranges.into_iter().collect());
        self
    }

    /// Reads a selection.
    pub fn selection(store: impl AsRef<Path>, selection: &isochrony_store::Selection) -> Self {
        let stored = Self::new(store, selection.signal().clone());
        match selection.index_range() {
            Some(range) => stored.ranges([range]),
            None => stored.ranges(selection.parts().iter().map(|part| part.range.clone())),
        }
    }

    /// A pass over indices at a handle's commit that continues another pass. Ignores this recording's ranges. `before`:
    /// end and run of that pass's last samples, to announce the break.
    ///
    /// # Errors
    /// Indices outside the signal.
    pub fn resume(
        &self,
        signal: Signal,
        range: Range<i64>,
        before: Option<(i64, u32)>,
        segment: u64,
    ) -> Result<Box<dyn Source>, OpError> {
        let parts = signal.select(range).map_err(store_error)?.parts().to_vec();
        self.read_as(&signal)?;
        let reader = self.reader(&signal, &parts, segment)?;
        let read = ContiguousRanges::new(signal, parts);
        Ok(Box::new(self.pass_with(reader, read, before, segment)))
    }

    fn read_as(&self, signal: &Signal) -> Result<(), OpError> {
        if let Some(clock) = &self.clock {
            let mut newest = clock.0.write().unwrap_or_else(PoisonError::into_inner);
            match &self.clocked_by {
                None => *newest = signal.clone(),
                Some(_) if self.pinned.is_none() => {
                    newest.refresh().map_err(store_error)?;
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn signal_to_read(&self) -> Result<Signal, StoreError> {
        let mut signal = self.signal.clone();
        if self.pinned.is_none() {
            signal.refresh()?;
        }
        Ok(signal)
    }

    fn now(&self, range: Option<Range<i64>>) -> Result<(Signal, Vec<Stretch>), OpError> {
        let signal = self.signal_to_read().map_err(store_error)?;
        let parts = self.parts(&signal, range).map_err(store_error)?;
        self.read_as(&signal)?;
        Ok((signal, parts))
    }
}

impl StoredRecording {
    /// The selection, if a scan reads only part of it: windows count from its first sample.
    fn narrowed(&self, range: Option<&Range<i64>>) -> Option<Arc<[Range<i64>]>> {
        range.and(self.ranges.as_deref()).map(Arc::from)
    }

    fn parts(
        &self,
        signal: &Signal,
        range: Option<Range<i64>>,
    ) -> Result<Vec<Stretch>, StoreError> {
        let whole = signal.start_index()..signal.end_index();
        let within = range.unwrap_or(whole.clone());
        let mut parts = Vec::new();
        for asked in self.ranges.as_deref().unwrap_or(&[whole]) {
            for part in signal.select(asked.clone())?.parts() {
                let range = part.range.start.max(within.start)..part.range.end.min(within.end);
                if !range.is_empty() {
                    parts.push(Stretch {
                        run: part.run,
                        range,
                    });
                }
            }
        }
        Ok(parts)
    }
}

impl Recording for StoredRecording {
    fn port(&self) -> PortType {
        PortType::Samples {
            dtype: self.signal.dtype(),
            stream: self.stream(),
        }
    }

    fn open(&self, range: Option<Range<i64>>, segment: u64) -> Result<Box<dyn Source>, OpError> {
        let selection = self.narrowed(range.as_ref());
        let (signal, mut parts) = self.now(range)?;
        if self.filter.is_some() {
            // A window may lie in several.
            parts = join_adjacent(parts);
        }
        let read = ContiguousRanges::new(signal, parts).of_selection(selection);
        let skips = self.skips(&read);
        let reader = match &skips {
            None => self.reader(read.signal(), read.parts(), segment)?,
            Some(skips) => self.reader(read.signal(), &skips.kept(&read), segment)?,
        };
        let pass = self.pass_with(reader, read, None, segment);
        Ok(Box::new(StoredPass { skips, ..pass }))
    }

    fn snapshot(&self, range: Option<Range<i64>>) -> Result<Option<Arc<dyn Snapshot>>, OpError> {
        let selection = self.narrowed(range.as_ref());
        let (signal, parts) = self.now(range)?;
        Ok(Some(StoredSnapshot::new(self, signal, parts, selection)))
    }

    fn is_splittable(&self) -> bool {
        true
    }

    fn is_decoded(&self) -> bool {
        self.signal.is_decoded()
    }

    fn within(&self) -> Option<Range<i64>> {
        let Some(ranges) = self.ranges.as_deref() else {
            return Some(self.signal.start_index()..i64::MAX);
        };
        let starts = ranges.iter().map(|range| range.start);
        let ends = ranges.iter().map(|range| range.end);
        Some(starts.min().unwrap_or(0)..ends.max().unwrap_or(0))
    }

    fn skips_samples(&self) -> bool {
        self.ranges.as_ref().is_some_and(|ranges| ranges.len() > 1)
    }

    fn reads(&self, range: Option<Range<i64>>) -> Option<String> {
        let selection = self.narrowed(range.as_ref());
        let signal = self
            .signal_to_read()
            .unwrap_or_else(|_| self.signal.clone());
        let parts = self.parts(&signal, range).ok()?;
        let (skipping, parts) = self.explain_skipping(&signal, parts, selection);
        let estimate = estimate(&signal, &parts);
        let strategy = (self.io).unwrap_or_else(|| estimate.choice());
        let reading = signal.foresee_reading(&parts, strategy);
        Some(format!(
            "{skipping}{reading}\n  {}",
            estimate.to_string().replace('\n', "\n  ")
        ))
    }

    fn stored(&self) -> Option<(&Signal, Option<&[Range<i64>]>)> {
        Some((&self.signal, self.ranges.as_deref()))
    }

    fn as_stored(&self) -> Option<&StoredRecording> {
        Some(self)
    }

    fn extremes(&self) -> Option<SharedRecording> {
        // Views are of the newest commit; many look-ups take longer than reading few samples.
        let many = |ranges: &Vec<Range<i64>>| ranges.len() > MOST_VIEWED_RANGES;
        if self.pinned.is_some() || self.ranges.as_ref().is_some_and(many) {
            return None;
        }
        // One thread reads what lies beyond the views, without progress.
        let behind = self.signal.end_index() - self.signal.views_reach().ok()?;
        let bytes = behind.max(0).unsigned_abs() * self.signal.dtype().size() as u64;
        (bytes <= MOST_UNVIEWED_BYTES)
            .then(|| SharedRecording::new(ExtremesRecording(self.clone())))
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        let clock = self.clock.clone()?;
        Some(clock)
    }

    fn description(&self) -> Option<SignalDescription> {
        Some(SignalDescription::of(&self.signal))
    }

    fn outer_gaps(&self) -> OuterGaps {
        // If it cannot be refreshed, the last known gaps hold.
        let signal = self
            .signal_to_read()
            .unwrap_or_else(|_| self.signal.clone());
        match self.ranges.as_deref() {
            None => OuterGaps::within(&signal, 0..signal.end_index()),
            Some([range]) => OuterGaps::within(&signal, range.clone()),
            Some(_) => OuterGaps::default(),
        }
    }

    fn knows_all_times(&self) -> bool {
        true
    }

    fn saved(&self) -> Option<Map<String, Value>> {
        self.saved_form()
    }

    fn sent(&self, objects: &mut SentObjects) -> Result<Map<String, Value>, PlanError> {
        self.sent_form(objects)
    }

    fn pinned(&self) -> Option<(u64, i64)> {
        self.pinned
    }

    fn at_snapshot(&self) -> Result<Option<SharedRecording>, PlanError> {
        self.pinned_now()
    }
}
