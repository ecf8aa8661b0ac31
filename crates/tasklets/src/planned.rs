//! What a run will do: which tasklets, in which order and why, what of an earlier run is kept.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use isochrony_store::Positions;

use crate::earlier::{Earlier, Occupied, joined};
use crate::error::TaskletError;
use crate::executor::Options;
use crate::graph::Graph;
use crate::index::Index;
use crate::journal::{Journal, Line, Locked};
use crate::order::{Order, Serial, Why};
use crate::tasklet::Tasklet;

/// Where a store keeps the journals of its runs.
pub(crate) const JOURNALS: &str = ".isochrony/tasklets";

pub(crate) struct Planned {
    pub(crate) index: Index,
    pub(crate) graph: Arc<Graph>,
    pub(crate) serial: Arc<Serial>,
    /// What makes each tasklet what it is.
    pub(crate) identities: Vec<String>,
    /// Values of tasklets that are kept from an earlier run, as JSON.
    pub(crate) values: HashMap<usize, String>,
    /// What is to be said about going on.
    pub(crate) notes: Vec<String>,
    /// Outputs that an earlier run left without telling that they are finished: tasklet, output.
    pub(crate) unfinished: Vec<(usize, usize)>,
    pub(crate) journal: Option<PathBuf>,
    earlier: Earlier,
    /// Whether the file system said where inputs lie.
    by_extents: bool,
}

impl Planned {
    /// What a run would do now; another one may change that.
    pub(crate) fn looked_at(
        tasklets: &[Tasklet],
        options: &Options,
        resume: bool,
    ) -> Result<Self, TaskletError> {
        let index = Index::new(tasklets)?;
        let graph = Graph::new(&index.signal_specs, &index.specs)?;
        let journal = journal_path(options, &index);
        let lines = match &journal {
            Some(path) if resume => Journal::read(path)?,
            _ => Vec::new(),
        };
        Self::new(tasklets, options, resume, (index, graph), journal, lines)
    }

    /// What a run will do, which no other can change: its journal is locked before anything is read that is acted upon.
    pub(crate) fn locked(
        tasklets: &[Tasklet],
        options: &Options,
        resume: bool,
    ) -> Result<(Self, Option<Locked>), TaskletError> {
        let index = Index::new(tasklets)?;
        let graph = Graph::new(&index.signal_specs, &index.specs)?;
        let Some(path) = journal_path(options, &index) else {
            let planned = Self::new(tasklets, options, resume, (index, graph), None, Vec::new())?;
            return Ok((planned, None));
        };
        let mut journal = Locked::new(&path, options.journal.is_none())?;
        // What signals held before is what the run before this one may have changed since.
        let index = Index::new(tasklets)?;
        let graph = Graph::new(&index.signal_specs, &index.specs)?;
        let lines = if resume {
            journal.take_lines()
        } else {
            Vec::new()
        };
        let parts = (index, graph);
        let planned = Self::new(tasklets, options, resume, parts, Some(path), lines)?;
        Ok((planned, Some(journal)))
    }

    fn new(
        tasklets: &[Tasklet],
        options: &Options,
        resume: bool,
        (index, mut graph): (Index, Graph),
        journal: Option<PathBuf>,
        lines: Vec<Line>,
    ) -> Result<Self, TaskletError> {
        if resume && journal.is_none() {
            return Err(TaskletError::Option {
                option: "resume",
                got: "True".into(),
                legal: "a journal= too: no tasklet writes to a store that could keep one",
            });
        }
        let earlier = Earlier::new(lines);
        // Only journals ask for them.
        let identities: Vec<String> = (tasklets.iter().enumerate())
            .filter(|_| journal.is_some())
            .map(|(at, tasklet)| index.identity(at, tasklet))
            .collect();
        let mut notes = Vec::new();
        let kept = kept(&graph, &index, &identities, &earlier, &mut notes);
        let mut unfinished = Vec::new();
        for (at, spec) in index.specs.iter().enumerate().filter(|(at, _)| !kept[*at]) {
            for (number, output) in spec.outputs.iter().enumerate() {
                let known = &index.signals[output.signal];
                let (start, end) = (output.range.start, output.range.end);
                if known.signal.gaps().missing_within(start..end) == end - start {
                    continue;
                }
                if known.is_scratch || !earlier.claims(&known.identity, &output.range) {
                    let gap = known.signal.gaps().first_within(start..end);
                    let occupied = Occupied {
                        name: &spec.name,
                        signal: &index.signal_specs[output.signal].name,
                        identity: &known.identity,
                        range: start..end,
                        at: gap.map_or(
                            start,
                            |gap| if gap.start > start { start } else { gap.end() },
                        ),
                    };
                    return Err(occupied.error(journal.as_deref()));
                }
                unfinished.push((at, number));
            }
        }
        let by_extents = options.order == Order::Disk && place_on_disk(&index, &mut graph);
        let serial = Serial::new(&graph, &kept, options.order, options.scratch)?;
        let values = kept
            .iter()
            .enumerate()
            .filter(|(_, kept)| **kept)
            .filter_map(|(at, _)| {
                let (_, value) = earlier.done.get(&graph.names[at])?;
                Some((at, value.clone()?))
            });
        Ok(Self {
            values: values.collect(),
            index,
            graph: Arc::new(graph),
            serial: Arc::new(serial),
            identities,
            notes,
            unfinished,
            journal,
            earlier,
            by_extents,
        })
    }

    /// The ranges of stored signals that the run writes, neighbours as one, but those that the journal has already.
    pub(crate) fn claims(&self) -> Vec<(String, Range<i64>)> {
        let mut claims: Vec<Vec<Range<i64>>> = vec![Vec::new(); self.index.signals.len()];
        for output in self.index.specs.iter().flat_map(|spec| &spec.outputs) {
            claims[output.signal].push(output.range.clone());
        }
        let stored = self.index.signals.iter().zip(claims);
        let stored = stored.filter(|(known, _)| !known.is_scratch);
        let all = stored.flat_map(|(known, claims)| {
            let claims = joined(claims).into_iter();
            claims.map(|claim| (known.identity.clone(), claim))
        });
        all.filter(|(signal, claim)| !self.earlier.claims(signal, claim))
            .collect()
    }

    /// Why a tasklet has its place.
    pub(crate) fn why(&self, at: usize, order: Order) -> String {
        match self.serial.why[at] {
            Why::NeededBy(other) => format!("needed by {:?}", self.graph.names[other]),
            Why::Drains(other) => format!("frees scratch of {:?}", self.graph.names[other]),
            Why::Place if order == Order::Given => "as given".into(),
            Why::Place => match self.index.specs[at].inputs.first() {
                Some(input) => format!("by place of {}", self.index.words(&input.extent)),
                None => "reads nothing".into(),
            },
        }
    }

    /// The order and its reasons.
    pub(crate) fn explain(&self, tasklets: &[Tasklet], options: &Options) -> String {
        const MOST: usize = 40;
        let (most, _) = self.serial.most();
        let by = match options.order {
            Order::Disk if self.by_extents => {
                "place of the primary input on the disk, as the file system tells it"
            }
            Order::Disk => "place of the primary input on the disk",
            Order::Given => "the order in which they were added",
        };
        let mut text = format!(
            "{} of {} tasklets on {} worker(s), by {by}\nscratch: {most} bytes at least, {} at most\n",
            self.serial.tasklets.len(),
            self.graph.len(),
            options.workers,
            options.scratch,
        );
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        for (place, at) in self.serial.tasklets.iter().take(MOST).enumerate() {
            let spec = &self.index.specs[*at];
            let inputs: Vec<String> = spec
                .inputs
                .iter()
                .map(|input| self.index.words(&input.extent))
                .collect();
            let outputs: Vec<String> = spec
                .outputs
                .iter()
                .map(|output| self.index.words(output))
                .collect();
            let (name, function) = (&spec.name, &tasklets[*at].function_name);
            let _ = write!(
                text,
                "{:4} {name}: {function}({}) -> {}; ",
                place + 1,
                inputs.join(", "),
                outputs.join(", ")
            );
            let _ = writeln!(text, "{}", self.why(*at, options.order));
        }
        if self.serial.tasklets.len() > MOST {
            let _ = writeln!(text, "     and {} more", self.serial.tasklets.len() - MOST);
        }
        text
    }
}

/// Less than this is read in no time, wherever it lies.
const MUCH: u64 = 64 << 20;

/// Asks the file system where primary inputs lie, if there is much to be read.
fn place_on_disk(index: &Index, graph: &mut Graph) -> bool {
    let primary = (index.specs.iter()).filter_map(|spec| Some(&spec.inputs.first()?.extent));
    let bytes = primary.map(|extent| index.bytes_of(extent));
    if bytes.fold(0, u64::saturating_add) < MUCH {
        return false;
    }
    let mut positions: HashMap<usize, Positions> = HashMap::new();
    graph.place_by(|signal, start| {
        let positions =
            (positions.entry(signal)).or_insert_with(|| index.signals[signal].signal.positions());
        let (device, byte) = positions.of(start)?;
        Some((
            usize::try_from(device).ok()?.checked_add(1)?,
            i64::try_from(byte).ok()?,
        ))
    })
}

fn journal_path(options: &Options, index: &Index) -> Option<PathBuf> {
    if options.journal.is_some() {
        return options.journal.clone();
    }
    let mut stores: Vec<&Path> = index.stores.iter().map(|store| store.path()).collect();
    stores.sort_unstable();
    let written = index
        .signals
        .iter()
        .filter(|known| known.written && !known.is_scratch);
    let outputs: Vec<&str> = written.map(|known| known.identity.as_str()).collect();
    // Runs that write other signals have journals of their own, so that one does not end what the other could go on with.
    let name = format!(
        "{:08x}.journal",
        crc32c::crc32c(outputs.join("\n").as_bytes())
    );
    stores.first().map(|store| store.join(JOURNALS).join(name))
}

/// What an earlier run finished and nothing has changed since. Whoever needs what is run again is run again; whoever wrote
/// scratch for one that is run, too, for scratch does not last.
fn kept(
    graph: &Graph,
    index: &Index,
    identities: &[String],
    earlier: &Earlier,
    notes: &mut Vec<String>,
) -> Vec<bool> {
    let mut kept = vec![false; graph.len()];
    let mut changed = Vec::new();
    let mut waits: Vec<usize> = graph.needs.iter().map(Vec::len).collect();
    let mut order: Vec<usize> = (0..graph.len()).filter(|at| waits[*at] == 0).collect();
    let mut next = 0;
    while let Some(at) = order.get(next).copied() {
        next += 1;
        if let Some((of, _)) = earlier.done.get(&graph.names[at]) {
            if *of != identities[at] {
                changed.push(graph.names[at].as_str());
            }
            let whole = *of == identities[at] && index.is_written(at);
            kept[at] = whole && graph.needs[at].iter().all(|need| kept[*need]);
        }
        for after in &graph.needed_by[at] {
            waits[*after] -= 1;
            if waits[*after] == 0 {
                order.push(*after);
            }
        }
    }
    for at in order.into_iter().rev() {
        if graph.readers[at].iter().any(|reader| !kept[*reader]) {
            kept[at] = false;
        }
    }
    let count = kept.iter().filter(|kept| **kept).count();
    if !earlier.done.is_empty() {
        notes.push(format!(
            "{count} of {} tasklets are kept from an earlier run",
            graph.len()
        ));
    }
    if let Some(first) = changed.first() {
        let more = match changed.len() {
            1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        notes.push(format!(
            "tasklet {first:?}{more} changed since (inputs, outputs or function) and is run again, with what needs it"
        ));
    }
    kept
}
