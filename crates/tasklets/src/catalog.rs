//! Signal catalog: numbers the signals of an execution and describes its tasklets in these numbers.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use isochrony_segment::DType;
use isochrony_store::{Scratch, Signal, Store, StoreError};

use crate::error::TaskletError;
use crate::graph::{InputSpec, SignalExtent, SignalSpec, TaskletSpec};
use crate::shared_signal::SharedSignal;
use crate::signal_range::{SignalHandle, SignalRange};
use crate::tasklet::Tasklet;

/// Scratch last, then by store folder and id, which approximates the order on disk.
type SignalKey = (bool, PathBuf, u64);

pub(crate) struct CatalogEntry {
    /// Name in the journal. Scratch has only a number.
    pub(crate) identity: String,
    pub(crate) signal: Signal,
    pub(crate) is_written: bool,
    pub(crate) is_scratch: bool,
    /// For reading: the writer's, if written.
    handle: SignalHandle,
    /// If not written: one per distinct handle, as openings may show different states.
    shared: Vec<(Signal, Arc<SharedSignal>)>,
}

impl CatalogEntry {
    fn input_handle(&mut self, input: &SignalRange) -> Result<SignalHandle, StoreError> {
        let SignalHandle::Stored(_, signal) = &input.handle else {
            return Ok(self.handle.clone());
        };
        if self.is_written || self.is_scratch {
            return Ok(self.handle.clone());
        }
        let is_same = |(handle, _): &&(Signal, Arc<SharedSignal>)| handle.is_same(signal);
        if let Some((_, shared)) = self.shared.iter().find(is_same) {
            return Ok(SignalHandle::Shared(Arc::clone(shared)));
        }
        let signal = input.signal()?;
        let shared = Arc::new(SharedSignal::new(signal.clone()));
        self.shared.push((signal, Arc::clone(&shared)));
        Ok(SignalHandle::Shared(shared))
    }

    fn signal_through(&self, handle: &SignalHandle) -> Signal {
        match handle {
            SignalHandle::Shared(shared) => shared.cached(),
            _ => self.signal.clone(),
        }
    }
}

pub(crate) struct SignalCatalog {
    pub(crate) signals: Vec<CatalogEntry>,
    pub(crate) signal_specs: Vec<SignalSpec>,
    pub(crate) specs: Vec<TaskletSpec>,
    input_handles: Vec<Vec<SignalHandle>>,
    pub(crate) written_stores: Vec<Store>,
}

/// Usually identifies a signal.
fn cheap_key(range: &SignalRange) -> Option<(&Path, u64)> {
    match &range.handle {
        SignalHandle::Stored(store, signal) => Some((store.path(), signal.id().0)),
        SignalHandle::Shared(_) => None,
        // A scratch signal has its own folder.
        SignalHandle::Scratch(scratch) => Some((scratch.folder(), u64::MAX)),
    }
}

fn signal_key(range: &SignalRange, signal: &Signal) -> SignalKey {
    let folder = match &range.handle {
        SignalHandle::Stored(store, _) => {
            std::path::absolute(store.path()).unwrap_or_else(|_| store.path().to_owned())
        }
        SignalHandle::Shared(_) => PathBuf::new(),
        SignalHandle::Scratch(scratch) => scratch.folder().to_owned(),
    };
    (range.is_scratch(), folder, signal.id().0)
}

struct SignalLookup<'a> {
    keys: Vec<SignalKey>,
    /// By signal: an output that writes it, else an input; whether written.
    ranges: Vec<(&'a SignalRange, bool)>,
    /// Position in `keys`, by input and output in tasklet order.
    numbers: Vec<usize>,
    written_stores: HashMap<PathBuf, Store>,
}

impl<'a> SignalLookup<'a> {
    fn new(tasklets: &'a [Tasklet]) -> Result<Self, TaskletError> {
        let mut found = Self {
            keys: Vec::new(),
            ranges: Vec::new(),
            numbers: Vec::new(),
            written_stores: HashMap::new(),
        };
        // Thousands of tasklets use few signals.
        let mut by_cheap_key: HashMap<(&Path, u64), usize> = HashMap::new();
        for tasklet in tasklets {
            let inputs = tasklet.inputs.iter().map(|range| (range, false));
            let outputs = tasklet.outputs.iter().map(|range| (range, true));
            for (range, is_output) in inputs.chain(outputs) {
                let cheap_key = cheap_key(range);
                let number = match cheap_key.and_then(|key| by_cheap_key.get(&key)) {
                    Some(number) => *number,
                    None => {
                        let number = found.number_of(range)?;
                        if let Some(key) = cheap_key {
                            by_cheap_key.insert(key, number);
                        }
                        number
                    }
                };
                found.numbers.push(number);
                if is_output {
                    found.add_output(tasklet, range, number)?;
                }
            }
        }
        Ok(found)
    }

    fn number_of(&mut self, range: &'a SignalRange) -> Result<usize, TaskletError> {
        let key = signal_key(range, &range.cached_signal()?);
        if let Some(number) = self.keys.iter().position(|known| *known == key) {
            return Ok(number);
        }
        self.keys.push(key);
        self.ranges.push((range, false));
        Ok(self.keys.len() - 1)
    }

    fn add_output(
        &mut self,
        tasklet: &Tasklet,
        range: &'a SignalRange,
        number: usize,
    ) -> Result<(), TaskletError> {
        if let SignalHandle::Stored(store, _) = &range.handle {
            let refuse = |why| -> Result<(), TaskletError> {
                Err(TaskletError::NotWritable {
                    name: tasklet.name.clone(),
                    signal: range.cached_signal()?.name().into(),
                    why,
                })
            };
            if !store.is_writable() {
                return refuse("its store is open for reading; open it with mode \"r+\"");
            }
            if !range.cached_signal()?.codec().is_empty() {
                return refuse("it is sealed; unseal it first");
            }
            let folder = self.keys[number].1.clone();
            let stores = &mut self.written_stores;
            stores.entry(folder).or_insert_with(|| store.clone());
        }
        let (first, is_written) = &mut self.ranges[number];
        if !*is_written {
            (*first, *is_written) = (range, true);
        }
        Ok(())
    }
}

impl SignalCatalog {
    pub(crate) fn new(tasklets: &[Tasklet]) -> Result<Self, TaskletError> {
        let found = SignalLookup::new(tasklets)?;
        let mut sorted: Vec<usize> = (0..found.keys.len()).collect();
        sorted.sort_by_key(|number| &found.keys[*number]);
        let mut signals = Vec::with_capacity(sorted.len());
        let mut signal_specs = Vec::with_capacity(sorted.len());
        let mut position = vec![0; sorted.len()];
        for number in sorted {
            position[number] = signals.len();
            let (range, is_written) = found.ranges[number];
            let signal = range.signal()?;
            let (name, identity) = match &range.handle {
                SignalHandle::Stored(store, _) => (
                    signal.name().to_owned(),
                    format!("{}/{}#{}", store.uuid()?, signal.name(), signal.id().0),
                ),
                _ => {
                    let scratch_before = found.keys[..number].iter();
                    let count = scratch_before
                        .filter(|(is_scratch, ..)| *is_scratch)
                        .count();
                    let name = format!("scratch {count}");
                    (name.clone(), name)
                }
            };
            let sample_bytes = signal.dtype().size() as u64;
            signal_specs.push(SignalSpec {
                name,
                scratch_sample_bytes: range.is_scratch().then_some(sample_bytes),
            });
            signals.push(CatalogEntry {
                identity,
                is_scratch: range.is_scratch(),
                is_written,
                handle: range.handle.clone(),
                shared: Vec::new(),
                signal,
            });
        }
        let mut numbers = found.numbers.into_iter();
        let mut extent_of = |range: &SignalRange| SignalExtent {
            signal: numbers.next().map_or(0, |number| position[number]),
            range: range.range.clone(),
        };
        let mut specs = Vec::with_capacity(tasklets.len());
        let mut input_handles = Vec::with_capacity(tasklets.len());
        for tasklet in tasklets {
            let mut spec = TaskletSpec {
                name: tasklet.name.clone(),
                after: tasklet.after.clone(),
                exclusive: tasklet.exclusive,
                ..TaskletSpec::default()
            };
            let mut handles = Vec::with_capacity(tasklet.inputs.len());
            for input in &tasklet.inputs {
                let extent = extent_of(input);
                let handle = signals[extent.signal].input_handle(input)?;
                let entry: &CatalogEntry = &signals[extent.signal];
                let signal = entry.signal_through(&handle);
                check_bounds(&signal, &input.range)?;
                let missing = missing_ranges(entry, &signal, &extent.range);
                spec.inputs.push(InputSpec { extent, missing });
                handles.push(handle);
            }
            for output in &tasklet.outputs {
                let extent = extent_of(output);
                check_bounds(&signals[extent.signal].signal, &output.range)?;
                spec.outputs.push(extent);
            }
            specs.push(spec);
            input_handles.push(handles);
        }
        Ok(Self {
            signals,
            signal_specs,
            specs,
            input_handles,
            written_stores: found.written_stores.into_values().collect(),
        })
    }

    /// Written signals are read through the writing store, as no other handle shows uncommitted samples.
    pub(crate) fn with_resolved_handles(&self, tasklets: &[Tasklet]) -> Vec<Tasklet> {
        let dtypes: Vec<DType> = (self.signals.iter())
            .map(|entry| entry.signal.dtype())
            .collect();
        let all = tasklets.iter().zip(&self.specs).zip(&self.input_handles);
        let resolved = all.map(|((tasklet, spec), handles)| {
            let inputs = tasklet.inputs.iter().zip(&spec.inputs).zip(handles);
            let outputs = tasklet.outputs.iter().zip(&spec.outputs);
            Tasklet {
                name: tasklet.name.clone(),
                inputs: inputs
                    .map(|((input, spec), handle)| SignalRange {
                        handle: handle.clone(),
                        range: input.range.clone(),
                        dtype: Some(dtypes[spec.extent.signal]),
                    })
                    .collect(),
                outputs: outputs
                    .map(|(output, extent)| SignalRange {
                        dtype: Some(dtypes[extent.signal]),
                        ..output.clone()
                    })
                    .collect(),
                function: Arc::clone(&tasklet.function),
                exclusive: tasklet.exclusive,
                function_name: String::new(),
                identity: String::new(),
                after: Vec::new(),
            }
        });
        resolved.collect()
    }

    pub(crate) fn scratch(&self) -> impl Iterator<Item = &Scratch> {
        self.signals.iter().filter_map(|entry| match &entry.handle {
            SignalHandle::Scratch(scratch) => Some(scratch),
            _ => None,
        })
    }

    /// `name[start:end]`, for messages.
    pub(crate) fn range_text(&self, extent: &SignalExtent) -> String {
        let name = &self.signal_specs[extent.signal].name;
        format!("{name}[{}:{}]", extent.range.start, extent.range.end)
    }

    pub(crate) fn identity(&self, at: usize, tasklet: &Tasklet) -> String {
        let spec = &self.specs[at];
        let text = |extent: &SignalExtent| {
            let identity = &self.signals[extent.signal].identity;
            format!("{identity}[{}:{}]", extent.range.start, extent.range.end)
        };
        let inputs = spec.inputs.iter();
        let inputs: Vec<String> = inputs.map(|input| text(&input.extent)).collect();
        let outputs: Vec<String> = spec.outputs.iter().map(text).collect();
        format!(
            "{} {} of {} to {}",
            tasklet.function_name,
            tasklet.identity,
            inputs.join(", "),
            outputs.join(", ")
        )
    }

    pub(crate) fn has_all_outputs(&self, at: usize) -> bool {
        self.specs[at].outputs.iter().all(|output| {
            let entry = &self.signals[output.signal];
            let gap = entry.signal.gaps().first_within(output.range.clone());
            entry.is_scratch || gap.is_none()
        })
    }

    pub(crate) fn tasklet_bytes(&self, at: usize) -> u64 {
        let spec = &self.specs[at];
        let inputs = spec.inputs.iter().map(|input| &input.extent);
        let bytes = (inputs.chain(&spec.outputs)).map(|extent| self.extent_bytes(extent));
        bytes.fold(0, u64::saturating_add)
    }

    pub(crate) fn extent_bytes(&self, extent: &SignalExtent) -> u64 {
        let size = self.signals[extent.signal].signal.dtype().size() as u64;
        let samples = (extent.range.end - extent.range.start).max(0);
        size.saturating_mul(samples.cast_unsigned())
    }
}

/// Ranges of an input that tasklets must write first: gaps in scratch or a written signal, and an input that is one
/// gap.
fn missing_ranges(entry: &CatalogEntry, signal: &Signal, range: &Range<i64>) -> Vec<Range<i64>> {
    let gaps = signal.gaps().within(range.clone());
    let gaps: Vec<Range<i64>> = gaps.map(|gap| gap.range()).collect();
    let is_one_gap = gaps.len() == 1 && gaps[0] == *range;
    if entry.is_scratch || entry.is_written || is_one_gap {
        gaps
    } else {
        Vec::new()
    }
}

fn check_bounds(signal: &Signal, range: &Range<i64>) -> Result<(), TaskletError> {
    let have_end = signal.end_index();
    if range.start < 0 || range.start > range.end || range.end > have_end {
        return Err(StoreError::OutOfBounds {
            signal: signal.name().into(),
            start: range.start,
            end: range.end,
            have_start: 0,
            have_end,
        }
        .into());
    }
    Ok(())
}
