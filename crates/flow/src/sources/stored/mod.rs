//! Stored signals as recordings.
//!
//! A [`StoredRecording`] names a signal of a store, or ranges of its indices in read order: a selection by civil time
//! need not be in index order. A pass reads the newest commit, including what was appended after the plan was built.
//!
//! A pass walks *parts*, each the share of a range in one run, and in each part the contiguous ranges between gaps.
//! Runs and gaps are looked up when they are reached, O(log n) each, so a million gaps need no list. Samples are read
//! in pieces of some MiB, which are cut into segments. The anchor of a contiguous range is the first sample after the
//! last gap or clock step, whatever range is read: windows do not depend on where a scan starts.
//!
//! This file and `snapshot` import each other: a recording makes the snapshot, which opens passes with the
//! recording's options.

mod clock;
mod pass;
mod prefetch;
mod snapshot;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use isochrony_segment::StreamId;
use isochrony_store::machine::{choose, estimate};
use isochrony_store::{Mode, Signal, SignalReader, Store, StoreError, Strategy, Stretch};
use serde_json::{Map, Value, json};

use super::segment_cutter::SegmentCutter;
use crate::plan::error::store_error;
use crate::{
    Clock, OpError, OuterGaps, PlanError, PortType, Recording, SharedRecording, SignalDescription,
    Snapshot, Source,
};
use clock::{StoredClock, clock_difference};
use pass::{PreviousEnd, StoredPass};
use snapshot::StoredSnapshot;

/// A signal of a store, or ranges of it, as a recording.
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
    /// Index ranges in read order; None: all, including what is appended later.
    ranges: Option<Vec<Range<i64>>>,
    /// None without civil time.
    clock: Option<Arc<StoredClock>>,
    /// The other signal whose clock is used.
    clocked_by: Option<Signal>,
    /// None: the strategy of the lowest estimated cost.
    io: Option<Strategy>,
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
        }
    }

    /// Reads with this [`Strategy`] instead of the one of the lowest estimated cost.
    #[must_use]
    pub fn io(mut self, strategy: Strategy) -> Self {
        self.io = Some(strategy);
        self
    }

    /// The same samples on the timebase of another signal of the same clock, as channels of one converter are: equal
    /// indices are equal times, so the two can be combined index by index.
    ///
    /// # Errors
    /// [`PlanError::OtherClock`] if the rates differ, or the civil times at the ends of the common range differ by half a
    /// sample or more. Not checked where one of them has no civil time.
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

    /// Only these indices of the signal, in this order.
    #[must_use]
    pub fn ranges(mut self, ranges: impl IntoIterator<Item = Range<i64>>) -> Self {
        self.ranges = Some(ranges.into_iter().collect());
        self
    }

    /// The ranges of a selection.
    pub fn selection(store: impl AsRef<Path>, selection: &isochrony_store::Selection) -> Self {
        let stored = Self::new(store, selection.signal().clone());
        match selection.index_range() {
            Some(range) => stored.ranges([range]),
            None => stored.ranges(selection.parts().iter().map(|part| part.range.clone())),
        }
    }

    /// A pass over indices of the signal at a handle's commit, which continues another pass. Ignores the ranges of
    /// this recording.
    ///
    /// `before`: end and run of the last samples of that pass, so that the break between is announced; None: there
    /// were none.
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
        Ok(Box::new(self.pass_over(signal, parts, before, segment)?))
    }

    /// Looks up times at the commit of a handle from now on.
    fn read_as(&self, signal: &Signal) -> Result<(), OpError> {
        if let Some(clock) = &self.clock {
            let mut newest = clock.0.write().unwrap_or_else(PoisonError::into_inner);
            match &self.clocked_by {
                None => *newest = signal.clone(),
                Some(_) => {
                    newest.refresh().map_err(store_error)?;
                }
            }
        }
        Ok(())
    }

    /// The newest commit, and the parts to read, in read order.
    fn now(&self, range: Option<Range<i64>>) -> Result<(Signal, Vec<Stretch>), OpError> {
        let mut signal = self.signal.clone();
        signal.refresh().map_err(store_error)?;
        let parts = self.parts(&signal, range).map_err(store_error)?;
        self.read_as(&signal)?;
        Ok((signal, parts))
    }

    /// `signal`: a handle at the commit to read.
    pub(crate) fn pass_over(
        &self,
        signal: Signal,
        parts: Vec<Stretch>,
        before: PreviousEnd,
        segment: u64,
    ) -> Result<StoredPass, OpError> {
        let (strategy, piece) = self.pieces(&signal, &parts, segment);
        let reader = SignalReader::new(&signal, &parts, piece, strategy).map_err(store_error)?;
        Ok(self.pass_with(reader, signal, parts, before, segment))
    }

    /// The same with a given reader.
    pub(crate) fn pass_with(
        &self,
        reader: SignalReader,
        signal: Signal,
        parts: Vec<Stretch>,
        before: PreviousEnd,
        segment: u64,
    ) -> StoredPass {
        StoredPass {
            at: parts.first().map_or(0, |part| part.range.start),
            reader,
            cut: SegmentCutter::new(segment),
            stream: self.stream(),
            signal,
            parts,
            part: 0,
            contiguous: 0..0,
            before,
            pending: None,
            announces_start: false,
        }
    }

    /// The I/O strategy, and the samples of a piece.
    pub(crate) fn pieces(
        &self,
        signal: &Signal,
        parts: &[Stretch],
        segment: u64,
    ) -> (Strategy, i64) {
        let strategy = (self.io).unwrap_or_else(|| choose(signal, parts));
        // Decoded samples shall be in the processor's caches still when operators get them: one segment.
        let bytes = if signal.is_sealed() {
            0
        } else {
            strategy.piece_bytes()
        };
        let wanted = (bytes / signal.dtype().size() as u64) as i64;
        // Whole segments: cuts must not depend on the strategy.
        let segment = SegmentCutter::new(segment).segment();
        let piece = (wanted / segment).max(1).saturating_mul(segment);
        (strategy, piece)
    }

    /// The recording that a saved plan names, in the store named there or in `store`.
    ///
    /// # Errors
    /// [`PlanError::NoRecording`], [`PlanError::DamagedRecording`], [`PlanError::Unreadable`].
    pub fn resolve(
        saved: &Map<String, Value>,
        store: Option<&Store>,
    ) -> Result<SharedRecording, PlanError> {
        let text = |key: &str| {
            let text = saved.get(key).and_then(Value::as_str);
            text.ok_or_else(|| PlanError::Unreadable {
                why: format!("a scan does not name its {key}"),
            })
        };
        let name = text("signal")?;
        let no_recording = |why: StoreError| PlanError::recording(name, &why);
        let ranges = saved.get("ranges").cloned().unwrap_or(Value::Null);
        let ranges = serde_json::from_value(ranges).map_err(|why| PlanError::Unreadable {
            why: format!("ranges of {name}: {why}"),
        });
        let ranges: Option<Vec<[i64; 2]>> = ranges?;
        let opened;
        let store = match store {
            Some(store) => store,
            None => {
                opened = Store::open(text("store")?, Mode::Read).map_err(no_recording)?;
                &opened
            }
        };
        let mut stored = Self::new(store.path(), store.signal(name).map_err(no_recording)?);
        if let Some(Value::String(other)) = saved.get("clock") {
            stored = stored.with_clock_of(&store.signal(other).map_err(no_recording)?)?;
        }
        if let Some(io) = saved.get("io") {
            let name = io.as_str().unwrap_or_default();
            let strategy = Strategy::parse(name).map_err(|why| PlanError::Unreadable {
                why: format!("\"io\" of {}: {why}", stored.signal.name()),
            })?;
            stored = stored.io(strategy);
        }
        Ok(SharedRecording::new(match ranges {
            Some(ranges) => stored.ranges(ranges.into_iter().map(|[a, b]| a..b)),
            None => stored,
        }))
    }
}

impl StoredRecording {
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
        let (signal, parts) = self.now(range)?;
        Ok(Box::new(self.pass_over(signal, parts, None, segment)?))
    }

    fn snapshot(&self, range: Option<Range<i64>>) -> Result<Option<Arc<dyn Snapshot>>, OpError> {
        let (signal, parts) = self.now(range)?;
        // One strategy for the whole scan, not one per portion.
        let strategy = (self.io).unwrap_or_else(|| choose(&signal, &parts));
        let stored = self.clone().io(strategy);
        Ok(Some(StoredSnapshot::new(stored, signal, parts)))
    }

    fn is_splittable(&self) -> bool {
        true
    }

    fn is_decoded(&self) -> bool {
        self.signal.is_sealed()
    }

    fn within(&self) -> Option<Range<i64>> {
        let Some(ranges) = self.ranges.as_deref() else {
            // It can be appended to.
            return Some(self.signal.start_index()..i64::MAX);
        };
        let starts = ranges.iter().map(|range| range.start);
        let ends = ranges.iter().map(|range| range.end);
        // Without ranges there are no samples.
        Some(starts.min().unwrap_or(0)..ends.max().unwrap_or(0))
    }

    fn skips_samples(&self) -> bool {
        self.ranges.as_ref().is_some_and(|ranges| ranges.len() > 1)
    }

    fn reads(&self, range: Option<Range<i64>>) -> Option<String> {
        let mut signal = self.signal.clone();
        let _ = signal.refresh();
        let parts = self.parts(&signal, range).ok()?;
        let estimate = estimate(&signal, &parts);
        let strategy = (self.io).unwrap_or_else(|| estimate.choice());
        let reading = signal.foresee_reading(&parts, strategy);
        Some(format!(
            "{reading}\n  {}",
            estimate.to_string().replace('\n', "\n  ")
        ))
    }

    fn stored(&self) -> Option<(&Signal, Option<&[Range<i64>]>)> {
        Some((&self.signal, self.ranges.as_deref()))
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        let clock = self.clock.clone()?;
        Some(clock)
    }

    fn description(&self) -> Option<SignalDescription> {
        Some(SignalDescription::of(&self.signal))
    }

    fn outer_gaps(&self) -> OuterGaps {
        let mut signal = self.signal.clone();
        let _ = signal.refresh(); // If it fails, the last known gaps are used.
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
        let mut saved = Map::new();
        saved.insert("store".into(), json!(self.store.to_str()?));
        saved.insert("signal".into(), json!(self.signal.name()));
        if let Some(other) = &self.clocked_by {
            saved.insert("clock".into(), json!(other.name()));
        }
        if let Some(io) = self.io {
            saved.insert("io".into(), json!(io.name()));
        }
        if let Some(ranges) = &self.ranges {
            let ranges: Vec<_> = ranges
                .iter()
                .map(|range| [range.start, range.end])
                .collect();
            saved.insert("ranges".into(), json!(ranges));
        }
        Some(saved)
    }
}
