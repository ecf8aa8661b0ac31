//! Tasklets over signals of stores as the scheduling sees them: which signals there are, what is absent, what they are called.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use isochrony_segment::DType;
use isochrony_store::{Scratch, Signal, Store, StoreError};

use crate::error::TaskletError;
use crate::followed::Followed;
use crate::graph::{Extent, Input, SignalSpec, Spec};
use crate::tasklet::{Part, Place, Tasklet};

/// By what signals are sorted: scratch last, then the folder of their store and the order in which they were made there,
/// which is about that of their files on the disk.
type Key = (bool, PathBuf, u64);

/// A signal of the run.
pub(crate) struct Known {
    /// What the journal calls it; of scratch its number in this run.
    pub(crate) identity: String,
    /// As it was when the run was planned.
    pub(crate) signal: Signal,
    /// Some tasklet writes to it.
    pub(crate) written: bool,
    pub(crate) is_scratch: bool,
    /// Where it is read: where it is written, if it is.
    place: Place,
    /// Else by each handle that shows it: one may not show what another does.
    followed: Vec<(Signal, Arc<Followed>)>,
}

impl Known {
    /// Where a part of it is read.
    fn home(&mut self, part: &Part) -> Result<Place, StoreError> {
        let Place::Stored(_, signal) = &part.place else {
            return Ok(self.place.clone());
        };
        if self.written || self.is_scratch {
            return Ok(self.place.clone());
        }
        let same = |(handle, _): &&(Signal, Arc<Followed>)| handle.is_same(signal);
        if let Some((_, followed)) = self.followed.iter().find(same) {
            return Ok(Place::Followed(Arc::clone(followed)));
        }
        let signal = part.signal()?;
        let followed = Arc::new(Followed::new(signal.clone()));
        self.followed.push((signal, Arc::clone(&followed)));
        Ok(Place::Followed(followed))
    }

    /// As the handle of a place shows it.
    fn shown(&self, home: &Place) -> Signal {
        match home {
            Place::Followed(followed) => followed.last(),
            _ => self.signal.clone(),
        }
    }
}

/// The signals of tasklets, and the tasklets in their terms.
pub(crate) struct Index {
    pub(crate) signals: Vec<Known>,
    pub(crate) signal_specs: Vec<SignalSpec>,
    pub(crate) specs: Vec<Spec>,
    /// Of each tasklet where its inputs are read.
    homes: Vec<Vec<Place>>,
    /// Stores that are written.
    pub(crate) stores: Vec<Store>,
}

/// What is enough to know a signal again in most cases, and costs nothing to find.
fn short_key(part: &Part) -> Option<(&Path, u64)> {
    match &part.place {
        Place::Stored(store, signal) => Some((store.path(), signal.id().0)),
        Place::Followed(_) => None,
        // The only one of its store.
        Place::Scratch(scratch) => Some((scratch.folder(), u64::MAX)),
    }
}

fn key(part: &Part, signal: &Signal) -> Key {
    let folder = match &part.place {
        Place::Stored(store, _) => {
            std::path::absolute(store.path()).unwrap_or_else(|_| store.path().to_owned())
        }
        Place::Followed(_) => PathBuf::new(),
        Place::Scratch(scratch) => scratch.folder().to_owned(),
    };
    (part.is_scratch(), folder, signal.id().0)
}

impl Index {
    pub(crate) fn new(tasklets: &[Tasklet]) -> Result<Self, TaskletError> {
        let mut found: HashMap<Key, (Signal, &Part, bool)> = HashMap::new();
        let mut scratch_order: Vec<Key> = Vec::new();
        let mut stores: HashMap<PathBuf, Store> = HashMap::new();
        let parts = tasklets.iter().flat_map(|tasklet| {
            let reads = tasklet.inputs.iter().map(|part| (part, false));
            let writes = tasklet.outputs.iter().map(|part| (part, true));
            reads
                .chain(writes)
                .map(move |(part, writes)| (tasklet, part, writes))
        });
        // Signals are looked up once, not once a tasklet: of each part the number of its signal among those that were met.
        let mut met: Vec<Key> = Vec::new();
        let mut numbers: HashMap<(&Path, u64), usize> = HashMap::new();
        let mut which: Vec<usize> = Vec::new();
        for (tasklet, part, writes) in parts {
            let short = short_key(part);
            let number = match short.and_then(|short| numbers.get(&short)) {
                Some(number) => *number,
                None => {
                    let signal = part.as_given()?;
                    let key = key(part, &signal);
                    let number = met.iter().position(|have| *have == key);
                    let number = number.unwrap_or(met.len());
                    if number == met.len() {
                        if part.is_scratch() {
                            scratch_order.push(key.clone());
                        }
                        found.insert(key.clone(), (signal, part, false));
                        met.push(key);
                    }
                    if let Some(short) = short {
                        numbers.insert(short, number);
                    }
                    number
                }
            };
            which.push(number);
            let key = &met[number];
            if writes && let Place::Stored(store, _) = &part.place {
                if !store.is_writable() {
                    return Err(not_writable(
                        tasklet,
                        &part.as_given()?,
                        "its store is open for reading; open it with mode \"r+\"",
                    ));
                }
                let signal = part.as_given()?;
                if !signal.codec().is_empty() {
                    return Err(not_writable(
                        tasklet,
                        &signal,
                        "it is sealed; unseal it first",
                    ));
                }
                stores.entry(key.1.clone()).or_insert_with(|| store.clone());
            }
            if writes
                && let Some(known) = found.get_mut(key)
                && !known.2
            {
                (known.1, known.2) = (part, true);
            }
        }
        let mut sorted: Vec<&Key> = found.keys().collect();
        sorted.sort();
        let places: HashMap<&Key, usize> = sorted
            .iter()
            .enumerate()
            .map(|(at, key)| (*key, at))
            .collect();
        let mut signals = Vec::with_capacity(sorted.len());
        let mut signal_specs = Vec::with_capacity(sorted.len());
        for key in &sorted {
            let (_, part, written) = &found[*key];
            let signal = part.signal()?;
            let number = scratch_order.iter().position(|one| one == *key);
            let (name, identity) = match (&part.place, number) {
                (Place::Stored(store, _), _) => (
                    signal.name().to_owned(),
                    format!("{}/{}#{}", store.uuid()?, signal.name(), signal.id().0),
                ),
                (_, number) => {
                    let name = format!("scratch {}", number.unwrap_or(0));
                    (name.clone(), name)
                }
            };
            signal_specs.push(SignalSpec {
                name,
                scratch: part.is_scratch().then(|| signal.dtype().size() as u64),
            });
            signals.push(Known {
                identity,
                is_scratch: part.is_scratch(),
                written: *written,
                place: part.place.clone(),
                followed: Vec::new(),
                signal,
            });
        }
        let places: Vec<usize> = met.iter().map(|key| places[key]).collect();
        let mut which = which.into_iter();
        let mut extent = |part: &Part| Extent {
            signal: which.next().map_or(0, |number| places[number]),
            range: part.range.clone(),
        };
        let mut specs = Vec::with_capacity(tasklets.len());
        let mut homes = Vec::with_capacity(tasklets.len());
        for tasklet in tasklets {
            let mut spec = Spec {
                name: tasklet.name.clone(),
                after: tasklet.after.clone(),
                in_turn: tasklet.in_turn,
                ..Spec::default()
            };
            let mut own_homes = Vec::with_capacity(tasklet.inputs.len());
            for part in &tasklet.inputs {
                let extent = extent(part);
                let home = signals[extent.signal].home(part)?;
                let known: &Known = &signals[extent.signal];
                let signal = known.shown(&home);
                check_bounds(&signal, &part.range)?;
                let absent = absent(known, &signal, &extent.range);
                spec.inputs.push(Input { extent, absent });
                own_homes.push(home);
            }
            for part in &tasklet.outputs {
                let extent = extent(part);
                check_bounds(&signals[extent.signal].signal, &part.range)?;
                spec.outputs.push(extent);
            }
            specs.push(spec);
            homes.push(own_homes);
        }
        Ok(Self {
            signals,
            signal_specs,
            specs,
            homes,
            stores: stores.into_values().collect(),
        })
    }

    /// The tasklets, reading what the run writes through the store that writes it: another handle of that store does not
    /// show what is not committed. What it does not write they read through the handle that they were given, as it is then.
    pub(crate) fn at_home(&self, tasklets: &[Tasklet]) -> Vec<Tasklet> {
        let dtypes: Vec<DType> = (self.signals.iter())
            .map(|known| known.signal.dtype())
            .collect();
        let all = tasklets.iter().zip(&self.specs).zip(&self.homes);
        let at_home = all.map(|((tasklet, spec), homes)| {
            let inputs = tasklet.inputs.iter().zip(&spec.inputs).zip(homes);
            let outputs = tasklet.outputs.iter().zip(&spec.outputs);
            Tasklet {
                name: tasklet.name.clone(),
                inputs: inputs
                    .map(|((part, input), home)| Part {
                        place: home.clone(),
                        range: part.range.clone(),
                        dtype: Some(dtypes[input.extent.signal]),
                    })
                    .collect(),
                outputs: outputs
                    .map(|(part, output)| Part {
                        dtype: Some(dtypes[output.signal]),
                        ..part.clone()
                    })
                    .collect(),
                function: Arc::clone(&tasklet.function),
                // What it is planned by is known.
                in_turn: tasklet.in_turn,
                function_name: String::new(),
                identity: String::new(),
                after: Vec::new(),
            }
        });
        at_home.collect()
    }

    /// Scratch signals of the run.
    pub(crate) fn scratch(&self) -> impl Iterator<Item = &Scratch> {
        self.signals.iter().filter_map(|known| match &known.place {
            Place::Scratch(scratch) => Some(scratch),
            _ => None,
        })
    }

    /// A range in words.
    pub(crate) fn words(&self, extent: &Extent) -> String {
        let name = &self.signal_specs[extent.signal].name;
        format!("{name}[{}:{}]", extent.range.start, extent.range.end)
    }

    /// All that makes a tasklet what it is, beside its name.
    pub(crate) fn identity(&self, at: usize, tasklet: &Tasklet) -> String {
        let spec = &self.specs[at];
        let words = |extent: &Extent| {
            let identity = &self.signals[extent.signal].identity;
            format!("{identity}[{}:{}]", extent.range.start, extent.range.end)
        };
        let inputs: Vec<String> = spec
            .inputs
            .iter()
            .map(|input| words(&input.extent))
            .collect();
        let outputs: Vec<String> = spec.outputs.iter().map(words).collect();
        format!(
            "{} {} of {} to {}",
            tasklet.function_name,
            tasklet.identity,
            inputs.join(", "),
            outputs.join(", ")
        )
    }

    /// Whether each stored output of a tasklet is there as a whole.
    pub(crate) fn is_written(&self, at: usize) -> bool {
        self.specs[at].outputs.iter().all(|output| {
            let known = &self.signals[output.signal];
            known.is_scratch
                || known
                    .signal
                    .gaps()
                    .first_within(output.range.clone())
                    .is_none()
        })
    }

    /// Bytes that a tasklet reads and writes.
    pub(crate) fn bytes(&self, at: usize) -> u64 {
        let spec = &self.specs[at];
        let inputs = spec.inputs.iter().map(|input| &input.extent);
        let bytes = (inputs.chain(&spec.outputs)).map(|extent| self.bytes_of(extent));
        bytes.fold(0, u64::saturating_add)
    }

    pub(crate) fn bytes_of(&self, extent: &Extent) -> u64 {
        let size = self.signals[extent.signal].signal.dtype().size() as u64;
        let samples = (extent.range.end - extent.range.start).max(0);
        size.saturating_mul(samples.cast_unsigned())
    }
}

/// Parts of an input that tasklets have to write. A gap in a recording is none of them; in a signal that the run writes it
/// is, and where there is nothing but a gap.
fn absent(known: &Known, signal: &Signal, range: &Range<i64>) -> Vec<Range<i64>> {
    let gaps: Vec<Range<i64>> = signal
        .gaps()
        .within(range.clone())
        .map(|gap| gap.range())
        .collect();
    let nothing = gaps.len() == 1 && gaps[0] == *range;
    if known.is_scratch || known.written || nothing {
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

fn not_writable(tasklet: &Tasklet, signal: &Signal, why: &'static str) -> TaskletError {
    TaskletError::NotWritable {
        name: tasklet.name.clone(),
        signal: signal.name().into(),
        why,
    }
}
