//! Stored signals as recordings.
//!
//! A [`Stored`] names a signal of a store and, where not all of it is wanted, ranges of its indices in the order in
//! which they are read: those of a selection by civil time need not be in index order. A pass reads the signal as it
//! is when the run begins, also what was appended after the plan was written.
//!
//! A pass walks *parts*, the ranges' shares of one run each, and in each the *stretches* between gaps. Runs and gaps
//! are looked up as they are reached, O(log n) each, so a signal with a million gaps costs no list of a million
//! stretches. Samples are read in pieces of some MiB, of which segments are cut; a stretch never crosses a gap or a
//! clock step, and its anchor is the first sample after the last of them, whatever range is read (rule R6).

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use isochrony_segment::StreamId;
use isochrony_store::machine::Outlook;
use isochrony_store::{Mode, Reading, Signal, SignalReader, Store, StoreError, Strategy, Stretch};
use isochrony_time::{RunId, civil};
use serde_json::{Map, Value, json};

use crate::cut::Cut;
use crate::stored_clock::{StoredClock, differ};
use crate::stored_portions::StoredPortions;
use crate::{
    Break, Cause, Clock, Live, OpError, OpErrorKind, PlanError, PortType, Pulled, Recording,
    Snapshot, Source,
};

/// A signal of a store, or ranges of it, that can be scanned.
///
/// ```no_run
/// use isochrony_flow::{Plan, Stored};
/// use isochrony_store::{Mode, Store};
///
/// let store = Store::open("water.iso", Mode::Read)?;
/// let signal = Stored::new(store.path(), store.signal("stn_10/pressure")?);
/// let windows = Plan::scan(signal).rewindow(4096)?.count()?.collect()?;
/// println!("{:?}", windows.count());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Stored {
    store: PathBuf,
    signal: Signal,
    /// Index ranges in the order of reading; None: all, also what is appended later.
    ranges: Option<Vec<Range<i64>>>,
    /// None of a signal without civil time.
    clock: Option<Arc<StoredClock>>,
    /// The signal whose clock it is, where that is another.
    clocked_by: Option<Signal>,
    /// How it is to be read; None: as is best.
    io: Option<Strategy>,
}

impl Stored {
    /// A signal of the store at a path, which is what saved plans name it by.
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

    /// The same samples, read by a stated [`Strategy`] instead of what is held to be best.
    #[must_use]
    pub fn io(mut self, strategy: Strategy) -> Self {
        self.io = Some(strategy);
        self
    }

    /// The same samples on the timebase of another signal: the two were sampled by one clock, so that equal indices are
    /// equal times, as channels of one converter are. They can meet index by index then.
    ///
    /// # Errors
    /// [`PlanError::OtherClock`]: their rates differ, or their civil times at the ends of what both have, by half a
    /// sample or more. Where one of them has no civil time, the caller is believed.
    pub fn with_clock_of(mut self, other: &Signal) -> Result<Self, PlanError> {
        if let Some(why) = differ(&self.signal, other) {
            return Err(PlanError::OtherClock {
                signal: self.signal.name().into(),
                other: other.name().into(),
                why,
            });
        }
        let timed = [other, &self.signal].map(|signal| !signal.state().fit.is_empty());
        self.clock = match timed {
            [true, _] => Some(Arc::new(StoredClock(RwLock::new(other.clone())))),
            _ => self.clock,
        };
        self.clocked_by = Some(other.clone());
        Ok(self)
    }

    /// The stream of what is read.
    fn stream(&self) -> StreamId {
        let Some(other) = &self.clocked_by else {
            return self.signal.stream();
        };
        let mut stream = self.signal.stream().get().clone();
        stream.timebase = other.timebase();
        stream.intern()
    }

    /// The same signal, but only these indices, in this order.
    #[must_use]
    pub fn ranges(mut self, ranges: impl IntoIterator<Item = Range<i64>>) -> Self {
        self.ranges = Some(ranges.into_iter().collect());
        self
    }

    /// What a selection selects.
    pub fn selection(store: impl AsRef<Path>, selection: &isochrony_store::Selection) -> Self {
        let stored = Self::new(store, selection.signal().clone());
        match selection.index_range() {
            Some(range) => stored.ranges([range]),
            None => stored.ranges(selection.parts().iter().map(|part| part.range.clone())),
        }
    }

    /// A pass over indices of the signal as a handle shows it, which goes on from where another pass ended.
    ///
    /// `before`: end and run of the last samples of that pass, so that what lies between is announced; None: there was
    /// none. Ranges of this recording do not count here.
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
        let parts = signal.select(range).map_err(failed)?.parts().to_vec();
        self.read_as(&signal)?;
        Ok(Box::new(self.pass_over(signal, parts, before, segment)?))
    }

    /// From now on times are looked up in the signal as a handle shows it.
    fn read_as(&self, signal: &Signal) -> Result<(), OpError> {
        if let Some(clock) = &self.clock {
            let mut newest = clock.0.write().unwrap_or_else(PoisonError::into_inner);
            match &self.clocked_by {
                None => *newest = signal.clone(),
                Some(_) => {
                    newest.refresh().map_err(failed)?;
                }
            }
        }
        Ok(())
    }

    /// The signal as it is now, and the parts of it that are asked for, in the order of reading.
    fn now(&self, range: Option<Range<i64>>) -> Result<(Signal, Vec<Stretch>), OpError> {
        let mut signal = self.signal.clone();
        signal.refresh().map_err(failed)?;
        let parts = self.parts(&signal, range).map_err(failed)?;
        self.read_as(&signal)?;
        Ok((signal, parts))
    }

    /// A pass over parts of the signal as a handle shows it.
    pub(crate) fn pass_over(
        &self,
        signal: Signal,
        parts: Vec<Stretch>,
        before: Option<(i64, u32)>,
        segment: u64,
    ) -> Result<Pass, OpError> {
        let cut = Cut::new(segment);
        let strategy = (self.io).unwrap_or_else(|| Outlook::choose(&signal, &parts));
        let wanted = (strategy.piece_bytes() / signal.dtype().size() as u64) as i64;
        // Whole segments, so that where they are cut does not depend on how they are read.
        let piece = (wanted / cut.segment())
            .max(1)
            .saturating_mul(cut.segment());
        Ok(Pass {
            at: parts.first().map_or(0, |part| part.range.start),
            reader: SignalReader::new(&signal, &parts, piece, strategy).map_err(failed)?,
            piece,
            cut,
            stream: self.stream(),
            signal,
            parts,
            part: 0,
            stretch: 0..0,
            before,
            begins: None,
            tells_all: false,
        })
    }

    /// The recording that a saved plan names, in the store that it names or in another one.
    ///
    /// # Errors
    /// [`PlanError::NoRecording`], [`PlanError::Unreadable`].
    pub fn resolve(saved: &Map<String, Value>, store: Option<&Store>) -> Result<Live, PlanError> {
        let text = |key: &str| match saved.get(key) {
            Some(Value::String(text)) => Ok(text.as_str()),
            _ => Err(PlanError::Unreadable {
                why: format!("a scan does not name its {key}"),
            }),
        };
        let name = text("signal")?;
        let no_recording = |why: StoreError| PlanError::NoRecording {
            recording: name.into(),
            why: why.to_string(),
        };
        let ranges = saved.get("ranges").cloned().unwrap_or(Value::Null);
        let ranges: Option<Vec<[i64; 2]>> =
            serde_json::from_value(ranges).map_err(|why| PlanError::Unreadable {
                why: format!("ranges of {name}: {why}"),
            })?;
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
        Ok(Live::new(match ranges {
            Some(ranges) => stored.ranges(ranges.into_iter().map(|[a, b]| a..b)),
            None => stored,
        }))
    }
}

impl Stored {
    /// The shares of runs that a scan of a signal, within a range, reads.
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

impl Recording for Stored {
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
        // Chosen for all of it, not for each portion.
        let strategy = (self.io).unwrap_or_else(|| Outlook::choose(&signal, &parts));
        let stored = self.clone().io(strategy);
        Ok(Some(StoredPortions::new(stored, signal, parts)))
    }

    fn in_portions(&self) -> bool {
        true
    }

    fn leaves_out(&self) -> bool {
        self.ranges.as_ref().is_some_and(|ranges| ranges.len() > 1)
    }

    fn reads(&self, range: Option<Range<i64>>) -> Option<String> {
        let mut signal = self.signal.clone();
        let _ = signal.refresh();
        let parts = self.parts(&signal, range).ok()?;
        let outlook = Outlook::of(&signal, &parts);
        let strategy = (self.io).unwrap_or_else(|| outlook.choice());
        let reading = Reading::foresee(&signal, &parts, strategy);
        Some(format!(
            "{reading}\n  {}",
            outlook.to_string().replace('\n', "\n  ")
        ))
    }

    fn stored(&self) -> Option<(&Signal, Option<&[Range<i64>]>)> {
        Some((&self.signal, self.ranges.as_deref()))
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        let clock = self.clock.clone()?;
        Some(clock)
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

pub(crate) fn failed(error: StoreError) -> OpError {
    OpErrorKind::Failed(Cause::from(error)).into()
}

/// One pass over the parts.
pub(crate) struct Pass {
    signal: Signal,
    reader: SignalReader,
    stream: StreamId,
    parts: Vec<Stretch>,
    /// The part that is read, and from where on.
    part: usize,
    at: i64,
    /// What is left of the stretch that is read.
    stretch: Range<i64>,
    /// Its piece that was read last.
    cut: Cut,
    piece: i64,
    /// End and run of the stretch before.
    before: Option<(i64, u32)>,
    /// The stretch that begins next, where it was said that it lies before what was given.
    begins: Option<Pulled>,
    /// Whether a stretch that continues what was before the pass is announced, too.
    tells_all: bool,
}

impl Pass {
    /// Announces its first stretch also where that continues what was before.
    pub(crate) fn telling_all(self) -> Self {
        Self {
            tells_all: true,
            ..self
        }
    }

    /// Enters the next stretch and says so, unless it continues the one before; then, and at the end, None.
    fn enter(&mut self) -> Option<Pulled> {
        while let Some(part) = self.parts.get(self.part) {
            let (run, end) = (part.run, part.range.end);
            let gap = self.signal.gaps().first_within(self.at..end);
            let stretch = self.at..gap.map_or(end, |gap| gap.start);
            match gap {
                Some(gap) if gap.end() < end => self.at = gap.end(),
                _ => {
                    self.part += 1;
                    let next = self.parts.get(self.part);
                    self.at = next.map_or(0, |part| part.range.start);
                }
            }
            if stretch.is_empty() {
                continue;
            }
            let before = self.before.replace((stretch.end, run));
            let continues = before == Some((stretch.start, run));
            let why = before.filter(|_| !continues);
            let why = why.map(|before| self.between(before, stretch.start, run));
            let told = std::mem::take(&mut self.tells_all) || !continues;
            let anchor = first_of_stretch(&self.signal, stretch.start, run);
            self.stretch = stretch;
            // Ranges may touch inside a run: nothing to announce there.
            if !told {
                return None;
            }
            let begins = Pulled::Stretch { anchor, why };
            if before.is_none_or(|(end, _)| self.stretch.start >= end) {
                return Some(begins);
            }
            self.begins = Some(begins);
            return Some(Pulled::Back);
        }
        None
    }

    /// What lies between two stretches.
    fn between(&self, (end, old): (i64, u32), start: i64, new: u32) -> Break {
        if old != new {
            return Break::Clock {
                old: RunId(old),
                new: RunId(new),
            };
        }
        // Samples that exist and were not asked for are no gap.
        match self.signal.gaps().at(end) {
            Some(gap) if gap.end() == start => Break::Gap(end..start),
            _ => Break::Removed,
        }
    }

    /// The next segment of the stretch.
    fn read(&mut self) -> Result<Option<Pulled>, OpError> {
        if self.cut.is_empty() && !self.stretch.is_empty() {
            let start = self.stretch.start;
            let stop = self.stretch.end.min(start.saturating_add(self.piece));
            self.stretch.start = stop;
            let piece = self.reader.read(start..stop).map_err(failed)?;
            self.cut.put(piece.relabelled(start, self.stream)?);
        }
        self.cut.pull()
    }
}

impl Source for Pass {
    fn pull(&mut self) -> Result<Pulled, OpError> {
        if let Some(begins) = self.begins.take() {
            return Ok(begins);
        }
        if let Some(item) = self.read()? {
            return Ok(item);
        }
        match self.enter() {
            Some(begun) => Ok(begun),
            None => Ok(self.read()?.unwrap_or(Pulled::End)),
        }
    }

    fn time_of(&self, index: i64) -> Option<String> {
        let time = self.signal.time_of(index).ok()?;
        Some(civil::format(time.value))
    }

    fn reading(&self) -> Option<Reading> {
        Some(self.reader.reading().clone())
    }

    fn total(&self) -> Option<u64> {
        Some(samples_in(&self.signal, &self.parts))
    }
}

/// First sample after the last gap or clock step at or before an index.
pub(crate) fn first_of_stretch(signal: &Signal, index: i64, run: u32) -> i64 {
    let run = signal.state().runs.by_id(run);
    let gaps = signal.gaps();
    let before = gaps.overlapping(0..index).end.checked_sub(1);
    let gap = before.and_then(|position| gaps.get(position));
    run.map_or(index, |run| run.start)
        .max(gap.map_or(0, |gap| gap.end()))
        .min(index)
}

/// Samples of parts of a signal.
pub(crate) fn samples_in(signal: &Signal, parts: &[Stretch]) -> u64 {
    let gaps = signal.gaps();
    let count = |part: &Stretch| {
        part.range.end - part.range.start - gaps.missing_within(part.range.clone())
    };
    parts.iter().map(count).sum::<i64>().unsigned_abs()
}
