//! Dependency graph: which tasklet waits for which, from `after`, inputs and outputs.
//!
//! Signals and tasklets are numbers here, so tests need no stores.

use std::collections::HashMap;
use std::ops::Range;

use crate::error::TaskletError;

/// A signal read or written by tasklets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignalSpec {
    /// Name for messages.
    pub name: String,
    /// Bytes per sample of scratch; None: a stored signal.
    pub scratch_sample_bytes: Option<u64>,
}

/// A range of a numbered signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignalExtent {
    /// Signal number.
    pub signal: usize,
    /// Sample indices.
    pub range: Range<i64>,
}

/// A range read by a tasklet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputSpec {
    /// Range.
    pub extent: SignalExtent,
    /// Ranges without samples, which others must write first.
    pub missing: Vec<Range<i64>>,
}

/// A tasklet for the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskletSpec {
    /// Unique name.
    pub name: String,
    /// The first is the primary input.
    pub inputs: Vec<InputSpec>,
    /// Outputs.
    pub outputs: Vec<SignalExtent>,
    /// Names of tasklets that must be done first.
    pub after: Vec<String>,
    /// Never runs beside another exclusive tasklet.
    pub exclusive: bool,
}

/// Tasklets by number, and their dependencies.
#[derive(Debug, Clone)]
pub struct DependencyGraph {
    /// Name of each tasklet.
    pub names: Vec<String>,
    /// Ascending dependencies of each.
    pub dependencies: Vec<Vec<usize>>,
    /// Ascending dependents of each.
    pub dependents: Vec<Vec<usize>>,
    /// Ascending readers of each one's scratch.
    pub scratch_readers: Vec<Vec<usize>>,
    /// Scratch bytes written by each.
    pub scratch_bytes: Vec<u64>,
    /// Exclusive tasklets run one at a time.
    pub exclusive: Vec<bool>,
    /// Position of each primary input: signal and index, or device and byte after [`Self::use_disk_positions`]. None:
    /// no input, or scratch.
    pub disk_position: Vec<Option<(usize, i64)>>,
}

impl DependencyGraph {
    /// Derives the dependencies. Signals must be sorted by disk position.
    ///
    /// # Errors
    /// [`TaskletError::DuplicateName`], [`TaskletError::UnknownTasklet`], [`TaskletError::TwoWriters`],
    /// [`TaskletError::NobodyWrites`], [`TaskletError::Cycle`].
    pub fn new(signals: &[SignalSpec], specs: &[TaskletSpec]) -> Result<Self, TaskletError> {
        let mut by_name = HashMap::new();
        for (at, spec) in specs.iter().enumerate() {
            if by_name.insert(spec.name.as_str(), at).is_some() {
                return Err(TaskletError::DuplicateName {
                    name: spec.name.clone(),
                });
            }
        }
        let writers = written_ranges(signals, specs)?;
        let mut dependencies: Vec<Vec<usize>> = vec![Vec::new(); specs.len()];
        let mut scratch_readers = dependencies.clone();
        for (at, spec) in specs.iter().enumerate() {
            for after in &spec.after {
                let dependency = by_name.get(after.as_str());
                dependencies[at].push(*dependency.ok_or_else(|| TaskletError::UnknownTasklet {
                    name: spec.name.clone(),
                    after: after.clone(),
                })?);
            }
            for input in &spec.inputs {
                let signal = input.extent.signal;
                for (_, writer) in overlapping(&writers[signal], &input.extent.range) {
                    dependencies[at].push(*writer);
                    if signals[signal].scratch_sample_bytes.is_some() {
                        scratch_readers[*writer].push(at);
                    }
                }
                for missing in &input.missing {
                    let signal_name = &signals[signal].name;
                    check_written(&writers[signal], missing, &spec.name, signal_name)?;
                }
            }
        }
        let sort_and_deduplicate = |list: &mut Vec<usize>| {
            list.sort_unstable();
            list.dedup();
        };
        dependencies.iter_mut().for_each(sort_and_deduplicate);
        scratch_readers.iter_mut().for_each(sort_and_deduplicate);
        let mut dependents = vec![Vec::new(); specs.len()];
        for (at, dependencies) in dependencies.iter().enumerate() {
            for dependency in dependencies {
                dependents[*dependency].push(at);
            }
        }
        let scratch_bytes = specs.iter().map(|spec| {
            let bytes = spec.outputs.iter().map(|output| {
                let samples = (output.range.end - output.range.start).max(0);
                let sample_bytes = signals[output.signal].scratch_sample_bytes.unwrap_or(0);
                sample_bytes.saturating_mul(samples.cast_unsigned())
            });
            bytes.fold(0, u64::saturating_add)
        });
        let disk_position = specs.iter().map(|spec| {
            let primary = &spec.inputs.first()?.extent;
            let is_stored = signals[primary.signal].scratch_sample_bytes.is_none();
            is_stored.then_some((primary.signal, primary.range.start))
        });
        let graph = Self {
            names: specs.iter().map(|spec| spec.name.clone()).collect(),
            scratch_bytes: scratch_bytes.collect(),
            exclusive: specs.iter().map(|spec| spec.exclusive).collect(),
            disk_position: disk_position.collect(),
            dependencies,
            dependents,
            scratch_readers,
        };
        match graph.find_cycle() {
            Some(path) => Err(TaskletError::Cycle { path }),
            None => Ok(graph),
        }
    }

    /// Replaces disk positions by device and byte from `lookup`; all or (false) none, since the two kinds cannot be
    /// compared.
    pub fn use_disk_positions(
        &mut self,
        mut lookup: impl FnMut(usize, i64) -> Option<(usize, i64)>,
    ) -> bool {
        let positions = self.disk_position.iter().map(|position| match position {
            Some((signal, index)) => lookup(*signal, *index).map(Some),
            None => Some(None),
        });
        let Some(positions) = positions.collect() else {
            return false;
        };
        self.disk_position = positions;
        true
    }

    /// Number of tasklets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are no tasklets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    fn find_cycle(&self) -> Option<String> {
        // Kahn's algorithm leaves tasklets on a cycle or behind one.
        let mut unmet: Vec<usize> = self.dependencies.iter().map(Vec::len).collect();
        let mut ready: Vec<usize> = (0..self.len()).filter(|at| unmet[*at] == 0).collect();
        while let Some(at) = ready.pop() {
            for dependent in &self.dependents[at] {
                unmet[*dependent] -= 1;
                if unmet[*dependent] == 0 {
                    ready.push(*dependent);
                }
            }
        }
        // From each, unmet dependencies lead into a cycle.
        let mut at = unmet.iter().position(|unmet| *unmet > 0)?;
        let mut path = Vec::new();
        let mut first_visit = HashMap::new();
        while !first_visit.contains_key(&at) {
            first_visit.insert(at, path.len());
            path.push(at);
            let mut dependencies = self.dependencies[at].iter();
            at = *dependencies.find(|dependency| unmet[**dependency] > 0)?;
        }
        let cycle = path.get(*first_visit.get(&at)?..)?.iter().chain([&at]);
        let names: Vec<String> = cycle.map(|at| format!("{:?}", self.names[*at])).collect();
        Some(names.join(" needs "))
    }
}

/// By signal: range and writer, sorted and disjoint.
type WrittenRanges = Vec<Vec<(Range<i64>, usize)>>;

fn written_ranges(
    signals: &[SignalSpec],
    specs: &[TaskletSpec],
) -> Result<WrittenRanges, TaskletError> {
    let mut writers: WrittenRanges = vec![Vec::new(); signals.len()];
    for (at, spec) in specs.iter().enumerate() {
        let outputs = spec.outputs.iter();
        for output in outputs.filter(|output| !output.range.is_empty()) {
            writers[output.signal].push((output.range.clone(), at));
        }
    }
    for (signal, written) in writers.iter_mut().enumerate() {
        written.sort_by_key(|(range, at)| (range.start, *at));
        for pair in written.windows(2) {
            let ((one, first), (two, second)) = (&pair[0], &pair[1]);
            if two.start < one.end {
                return Err(TaskletError::TwoWriters {
                    first: specs[*first].name.clone(),
                    second: specs[*second].name.clone(),
                    signal: signals[signal].name.clone(),
                    start: two.start,
                    end: one.end.min(two.end),
                });
            }
        }
    }
    Ok(writers)
}

fn overlapping<'a>(
    written: &'a [(Range<i64>, usize)],
    range: &Range<i64>,
) -> &'a [(Range<i64>, usize)] {
    if range.is_empty() {
        return &[];
    }
    let first = written.partition_point(|(one, _)| one.end <= range.start);
    let end = written.partition_point(|(one, _)| one.start < range.end);
    &written[first..end.max(first)]
}

fn check_written(
    written: &[(Range<i64>, usize)],
    missing: &Range<i64>,
    name: &str,
    signal: &str,
) -> Result<(), TaskletError> {
    let mut covered_to = missing.start;
    for (range, _) in overlapping(written, missing) {
        if range.start > covered_to {
            break;
        }
        covered_to = covered_to.max(range.end);
    }
    if covered_to >= missing.end {
        return Ok(());
    }
    let next = overlapping(written, &(covered_to..missing.end)).first();
    Err(TaskletError::NobodyWrites {
        name: name.to_owned(),
        signal: signal.to_owned(),
        start: covered_to,
        end: next.map_or(missing.end, |(range, _)| range.start),
    })
}
