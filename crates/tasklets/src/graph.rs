//! Who waits for whom: dependencies that were stated, and those that follow from reading what others write.

use std::collections::HashMap;
use std::ops::Range;

use crate::error::TaskletError;

/// A signal that tasklets read or write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignalSpec {
    /// For messages.
    pub name: String,
    /// Of a scratch signal the bytes of a sample.
    pub scratch: Option<u64>,
}

/// A range of a signal, by its place in the list of signals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// Which signal.
    pub signal: usize,
    /// Samples.
    pub range: Range<i64>,
}

/// What a tasklet reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Where.
    pub extent: Extent,
    /// Parts without samples that tasklets of the run have to write before.
    pub absent: Vec<Range<i64>>,
}

/// A tasklet as its scheduling sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spec {
    /// Unique.
    pub name: String,
    /// The first is the primary one, by whose place on the disk tasklets are ordered.
    pub inputs: Vec<Input>,
    /// What it writes.
    pub outputs: Vec<Extent>,
    /// Names of tasklets that have to be finished before.
    pub after: Vec<String>,
    /// It does not run beside another of this kind, but beside any that is not.
    pub in_turn: bool,
}

/// Tasklets and who waits for whom.
#[derive(Debug, Clone)]
pub struct Graph {
    /// Their names.
    pub names: Vec<String>,
    /// For whom each waits, ascending.
    pub needs: Vec<Vec<usize>>,
    /// Who waits for each, ascending.
    pub needed_by: Vec<Vec<usize>>,
    /// Who reads scratch that each writes, ascending.
    pub readers: Vec<Vec<usize>>,
    /// Bytes of scratch that each writes.
    pub scratch: Vec<u64>,
    /// Which of them run one at a time.
    pub in_turn: Vec<bool>,
    /// Place of each one's primary input on the disk; None: it reads no stored signal first.
    pub position: Vec<Option<(usize, i64)>>,
}

impl Graph {
    /// Finds dependencies. Signals are in the order in which they lie on the disk.
    ///
    /// # Errors
    /// [`TaskletError::DuplicateName`], [`TaskletError::UnknownTasklet`], [`TaskletError::TwoWriters`],
    /// [`TaskletError::NobodyWrites`], [`TaskletError::Cycle`].
    pub fn new(signals: &[SignalSpec], specs: &[Spec]) -> Result<Self, TaskletError> {
        let mut by_name = HashMap::new();
        for (at, spec) in specs.iter().enumerate() {
            if by_name.insert(spec.name.as_str(), at).is_some() {
                return Err(TaskletError::DuplicateName {
                    name: spec.name.clone(),
                });
            }
        }
        let writers = writers(signals, specs)?;
        let mut needs: Vec<Vec<usize>> = vec![Vec::new(); specs.len()];
        let mut readers = needs.clone();
        for (at, spec) in specs.iter().enumerate() {
            for after in &spec.after {
                let before = by_name.get(after.as_str());
                needs[at].push(*before.ok_or_else(|| TaskletError::UnknownTasklet {
                    name: spec.name.clone(),
                    after: after.clone(),
                })?);
            }
            for input in &spec.inputs {
                let signal = input.extent.signal;
                for (_, writer) in overlapping(&writers[signal], &input.extent.range) {
                    needs[at].push(*writer);
                    if signals[signal].scratch.is_some() {
                        readers[*writer].push(at);
                    }
                }
                for absent in &input.absent {
                    check_written(&writers[signal], absent, &spec.name, &signals[signal].name)?;
                }
            }
        }
        let tidy = |list: &mut Vec<usize>| {
            list.sort_unstable();
            list.dedup();
        };
        needs.iter_mut().for_each(tidy);
        readers.iter_mut().for_each(tidy);
        let mut needed_by = vec![Vec::new(); specs.len()];
        for (at, needs) in needs.iter().enumerate() {
            needs.iter().for_each(|before| needed_by[*before].push(at));
        }
        let scratch = specs.iter().map(|spec| {
            let bytes = |output: &Extent| {
                let samples = (output.range.end - output.range.start)
                    .max(0)
                    .cast_unsigned();
                signals[output.signal]
                    .scratch
                    .unwrap_or(0)
                    .saturating_mul(samples)
            };
            spec.outputs.iter().map(bytes).fold(0, u64::saturating_add)
        });
        let position = specs.iter().map(|spec| {
            let first = spec.inputs.first()?;
            let stored = signals[first.extent.signal].scratch.is_none();
            stored.then_some((first.extent.signal, first.extent.range.start))
        });
        let graph = Self {
            names: specs.iter().map(|spec| spec.name.clone()).collect(),
            scratch: scratch.collect(),
            in_turn: specs.iter().map(|spec| spec.in_turn).collect(),
            position: position.collect(),
            needs,
            needed_by,
            readers,
        };
        match graph.circle() {
            Some(path) => Err(TaskletError::Cycle { path }),
            None => Ok(graph),
        }
    }

    /// Places tasklets by where their primary inputs lie, instead of by signal and index, if that is known of all of them:
    /// `lookup` gives a device and a byte of it. Whether it was.
    pub fn place_by(&mut self, mut lookup: impl FnMut(usize, i64) -> Option<(usize, i64)>) -> bool {
        let places = self.position.iter().map(|position| match position {
            Some((signal, index)) => lookup(*signal, *index).map(Some),
            None => Some(None),
        });
        // Of some by index and of others by byte there is no order.
        let Some(places) = places.collect() else {
            return false;
        };
        self.position = places;
        true
    }

    /// Number of tasklets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Names of tasklets that wait for one another in a circle, if there is one.
    fn circle(&self) -> Option<String> {
        let mut waits: Vec<usize> = self.needs.iter().map(Vec::len).collect();
        let mut free: Vec<usize> = (0..self.len()).filter(|at| waits[*at] == 0).collect();
        while let Some(at) = free.pop() {
            for after in &self.needed_by[at] {
                waits[*after] -= 1;
                if waits[*after] == 0 {
                    free.push(*after);
                }
            }
        }
        // Whoever still waits leads, by those that it waits for, into a circle.
        let mut at = waits.iter().position(|waits| *waits > 0)?;
        let mut path = Vec::new();
        let mut seen = HashMap::new();
        while !seen.contains_key(&at) {
            seen.insert(at, path.len());
            path.push(at);
            at = *self.needs[at].iter().find(|before| waits[**before] > 0)?;
        }
        let circle = path.get(*seen.get(&at)?..)?.iter().chain([&at]);
        let names: Vec<String> = circle.map(|at| format!("{:?}", self.names[*at])).collect();
        Some(names.join(" needs "))
    }
}

/// Of each signal the ranges that are written, in order, and by whom.
type Writers = Vec<Vec<(Range<i64>, usize)>>;

fn writers(signals: &[SignalSpec], specs: &[Spec]) -> Result<Writers, TaskletError> {
    let mut writers: Writers = vec![Vec::new(); signals.len()];
    for (at, spec) in specs.iter().enumerate() {
        for output in spec
            .outputs
            .iter()
            .filter(|output| !output.range.is_empty())
        {
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

/// Those of disjoint, sorted ranges that have an index in another.
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
    absent: &Range<i64>,
    name: &str,
    signal: &str,
) -> Result<(), TaskletError> {
    let mut from = absent.start;
    for (range, _) in overlapping(written, absent) {
        if range.start > from {
            break;
        }
        from = from.max(range.end);
    }
    if from >= absent.end {
        return Ok(());
    }
    let next = overlapping(written, &(from..absent.end)).first();
    Err(TaskletError::NobodyWrites {
        name: name.to_owned(),
        signal: signal.to_owned(),
        start: from,
        end: next.map_or(absent.end, |(range, _)| range.start),
    })
}
