//! The schedule of an execution: tasklets to run, their order and reasons, and reused ones.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use isochrony_store::Positions;

use crate::catalog::SignalCatalog;
use crate::error::TaskletError;
use crate::graph::DependencyGraph;
use crate::journal::{Journal, JournalRecord, LockedJournal};
use crate::journal_location::JournalLocation;
use crate::options::ExecutorOptions;
use crate::previous_execution::{OccupiedOutput, PreviousExecution};
use crate::serial_order::{OrderPolicy, OrderReason, SerialOrder};
use crate::signal_range::merge_ranges;
use crate::tasklet::Tasklet;

/// With fewer input bytes, read times are negligible.
const MIN_BYTES_FOR_DISK_POSITIONS: u64 = 64 << 20;

pub(crate) struct Schedule {
    pub(crate) catalog: SignalCatalog,
    pub(crate) graph: Arc<DependencyGraph>,
    pub(crate) serial: Arc<SerialOrder>,
    /// Identifies inputs, outputs and function in the journal. Empty without one.
    pub(crate) fingerprints: Vec<String>,
    pub(crate) reused_values: HashMap<usize, String>,
    pub(crate) notes: Vec<String>,
    /// As tasklet and output: see [`find_unfinished_outputs`].
    pub(crate) unfinished_outputs: Vec<(usize, usize)>,
    pub(crate) journal: Option<JournalLocation>,
    previous: PreviousExecution,
    has_disk_positions: bool,
}

impl Schedule {
    /// Does not lock the journal, so this may change.
    pub(crate) fn preview(
        tasklets: &[Tasklet],
        options: &ExecutorOptions,
        resume: bool,
    ) -> Result<Self, TaskletError> {
        let (catalog, graph) = catalog_and_graph(tasklets)?;
        let journal = journal_location(options, &catalog)?;
        let records = match &journal {
            Some(location) if resume => Journal::read(location)?,
            _ => Vec::new(),
        };
        Self::new(
            tasklets,
            options,
            resume,
            (catalog, graph),
            journal,
            records,
        )
    }

    pub(crate) fn with_locked_journal(
        tasklets: &[Tasklet],
        options: &ExecutorOptions,
        resume: bool,
    ) -> Result<(Self, Option<LockedJournal>), TaskletError> {
        let (catalog, graph) = catalog_and_graph(tasklets)?;
        let Some(location) = journal_location(options, &catalog)? else {
            let no_records = Vec::new();
            let schedule = Self::new(
                tasklets,
                options,
                resume,
                (catalog, graph),
                None,
                no_records,
            )?;
            return Ok((schedule, None));
        };
        let mut journal = LockedJournal::new(&location)?;
        // Again: the lock's last owner may have changed the signals.
        let (catalog, graph) = catalog_and_graph(tasklets)?;
        let records = if resume {
            journal.take_records()
        } else {
            Vec::new()
        };
        let schedule = Self::new(
            tasklets,
            options,
            resume,
            (catalog, graph),
            Some(location),
            records,
        )?;
        Ok((schedule, Some(journal)))
    }

    fn new(
        tasklets: &[Tasklet],
        options: &ExecutorOptions,
        resume: bool,
        (catalog, mut graph): (SignalCatalog, DependencyGraph),
        journal: Option<JournalLocation>,
        records: Vec<JournalRecord>,
    ) -> Result<Self, TaskletError> {
        if resume && journal.is_none() {
            return Err(TaskletError::Option {
                option: "resume",
                got: "True".into(),
                legal: "a journal= too: no tasklet writes to a store that could keep one",
            });
        }
        let previous = PreviousExecution::new(records);
        let fingerprints: Vec<String> = (tasklets.iter().enumerate())
            .filter(|_| journal.is_some())
            .map(|(tasklet_index, tasklet)| catalog.identity(tasklet_index, tasklet))
            .collect();
        let mut notes = Vec::new();
        let reused = find_reused(&graph, &catalog, &fingerprints, &previous, &mut notes);
        let unfinished_outputs =
            find_unfinished_outputs(&catalog, &reused, &previous, journal.as_ref())?;
        let has_disk_positions =
            options.order == OrderPolicy::Disk && look_up_disk_positions(&catalog, &mut graph);
        let serial = SerialOrder::new(&graph, &reused, options.order, options.scratch)?;
        let reused_tasklets = (0..graph.len()).filter(|tasklet_index| reused[*tasklet_index]);
        let reused_values = reused_tasklets.filter_map(|tasklet_index| {
            let (_, value) = previous.finished.get(&graph.names[tasklet_index])?;
            Some((tasklet_index, value.clone()?))
        });
        Ok(Self {
            reused_values: reused_values.collect(),
            catalog,
            graph: Arc::new(graph),
            serial: Arc::new(serial),
            fingerprints,
            notes,
            unfinished_outputs,
            journal,
            previous,
            has_disk_positions,
        })
    }

    /// Stored ranges to write, merged, without earlier claims.
    pub(crate) fn new_claims(&self) -> Vec<(String, Range<i64>)> {
        let signals = &self.catalog.signals;
        let mut written: Vec<Vec<Range<i64>>> = vec![Vec::new(); signals.len()];
        for output in self.catalog.specs.iter().flat_map(|spec| &spec.outputs) {
            written[output.signal].push(output.range.clone());
        }
        let stored = signals.iter().zip(written);
        let stored = stored.filter(|(signal, _)| !signal.is_scratch);
        let claims = stored.flat_map(|(signal, ranges)| {
            let ranges = merge_ranges(ranges).into_iter();
            ranges.map(|range| (signal.identity.clone(), range))
        });
        claims
            .filter(|(signal, range)| !self.previous.claims(signal, range))
            .collect()
    }

    pub(crate) fn reason_text(&self, tasklet_index: usize, policy: OrderPolicy) -> String {
        match self.serial.reason[tasklet_index] {
            OrderReason::NeededBy(other) => format!("needed by {:?}", self.graph.names[other]),
            OrderReason::FreesScratch(other) => {
                format!("frees scratch of {:?}", self.graph.names[other])
            }
            OrderReason::ByPolicy if policy == OrderPolicy::Given => "as given".into(),
            OrderReason::ByPolicy => match self.catalog.specs[tasklet_index].inputs.first() {
                Some(input) => format!("by place of {}", self.catalog.range_text(&input.extent)),
                None => "reads nothing".into(),
            },
        }
    }

    pub(crate) fn explain(&self, tasklets: &[Tasklet], options: &ExecutorOptions) -> String {
        const MAX_TASKLETS_SHOWN: usize = 40;
        let (peak_scratch, _) = self.serial.peak_scratch();
        let policy = match options.order {
            OrderPolicy::Disk if self.has_disk_positions => {
                "place of the primary input on the disk, as the file system tells it"
            }
            OrderPolicy::Disk => "place of the primary input on the disk",
            OrderPolicy::Given => "the order in which they were added",
        };
        let mut text = format!(
            "{} of {} tasklets on {} worker(s), by {policy}\nscratch: {peak_scratch} bytes at least, {} at most\n",
            self.serial.tasklets.len(),
            self.graph.len(),
            options.workers,
            options.scratch,
        );
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        let steps = self.serial.tasklets.iter().enumerate();
        for (step, tasklet_index) in steps.take(MAX_TASKLETS_SHOWN) {
            let spec = &self.catalog.specs[*tasklet_index];
            let inputs = spec.inputs.iter().map(|input| &input.extent);
            let inputs: Vec<String> = inputs
                .map(|extent| self.catalog.range_text(extent))
                .collect();
            let outputs = spec.outputs.iter();
            let outputs: Vec<String> = outputs
                .map(|extent| self.catalog.range_text(extent))
                .collect();
            let (name, function) = (&spec.name, &tasklets[*tasklet_index].function_name);
            let _ = writeln!(
                text,
                "{:4} {name}: {function}({}) -> {}; {}",
                step + 1,
                inputs.join(", "),
                outputs.join(", "),
                self.reason_text(*tasklet_index, options.order)
            );
        }
        let more = (self.serial.tasklets.len()).saturating_sub(MAX_TASKLETS_SHOWN);
        if more > 0 {
            let _ = writeln!(text, "     and {more} more");
        }
        text
    }
}

fn catalog_and_graph(
    tasklets: &[Tasklet],
) -> Result<(SignalCatalog, DependencyGraph), TaskletError> {
    let catalog = SignalCatalog::new(tasklets)?;
    let graph = DependencyGraph::new(&catalog.signal_specs, &catalog.specs)?;
    Ok((catalog, graph))
}

/// Asks for positions of primary inputs, if there is much to read. Returns whether all are known.
fn look_up_disk_positions(catalog: &SignalCatalog, graph: &mut DependencyGraph) -> bool {
    let primary = (catalog.specs.iter()).filter_map(|spec| Some(&spec.inputs.first()?.extent));
    let bytes = primary.map(|extent| catalog.extent_bytes(extent));
    if bytes.fold(0, u64::saturating_add) < MIN_BYTES_FOR_DISK_POSITIONS {
        return false;
    }
    let mut positions: HashMap<usize, Positions> = HashMap::new();
    graph.use_disk_positions(|signal, start| {
        let positions = positions
            .entry(signal)
            .or_insert_with(|| catalog.signals[signal].signal.positions());
        let (device, byte) = positions.of(start)?;
        Some((
            usize::try_from(device).ok()?.checked_add(1)?,
            i64::try_from(byte).ok()?,
        ))
    })
}

fn journal_location(
    options: &ExecutorOptions,
    catalog: &SignalCatalog,
) -> Result<Option<JournalLocation>, TaskletError> {
    if let Some(path) = &options.journal {
        return JournalLocation::new(path).map(Some);
    }
    let stores = catalog.written_stores.iter();
    let Some(store) = stores.map(|store| store.path()).min() else {
        return Ok(None);
    };
    let signals = catalog.signals.iter();
    let written: Vec<&str> = signals
        .filter(|signal| signal.is_written && !signal.is_scratch)
        .map(|signal| signal.identity.as_str())
        .collect();
    // One per set of written signals: an execution must not empty another's journal.
    let checksum = crc32c::crc32c(written.join("\n").as_bytes());
    Ok(Some(JournalLocation::in_store(
        store,
        &format!("{checksum:08x}"),
    )))
}

/// Finds the finished tasklets that need not run again. One runs again if
/// - its fingerprint changed,
/// - a stored output misses samples,
/// - it depends on one that runs again, or
/// - it writes scratch for a reader that runs again: scratch does not outlast an execution.
///
/// In the last case its outputs do not change, so dependents do not run again; writers of scratch that it reads do.
fn find_reused(
    graph: &DependencyGraph,
    catalog: &SignalCatalog,
    fingerprints: &[String],
    previous: &PreviousExecution,
    notes: &mut Vec<String>,
) -> Vec<bool> {
    let mut reused = vec![false; graph.len()];
    let mut changed = Vec::new();
    // Kahn's algorithm: `ready` ends in topological order.
    let mut unmet: Vec<usize> = graph.dependencies.iter().map(Vec::len).collect();
    let mut ready: Vec<usize> = (0..graph.len())
        .filter(|tasklet_index| unmet[*tasklet_index] == 0)
        .collect();
    let mut next = 0;
    while let Some(tasklet_index) = ready.get(next).copied() {
        next += 1;
        if let Some((fingerprint, _)) = previous.finished.get(&graph.names[tasklet_index]) {
            let is_same = *fingerprint == fingerprints[tasklet_index];
            if !is_same {
                changed.push(graph.names[tasklet_index].as_str());
            }
            let mut dependencies = graph.dependencies[tasklet_index].iter();
            reused[tasklet_index] = is_same
                && catalog.has_all_outputs(tasklet_index)
                && dependencies.all(|dependency| reused[*dependency]);
        }
        for dependent in &graph.dependents[tasklet_index] {
            unmet[*dependent] -= 1;
            if unmet[*dependent] == 0 {
                ready.push(*dependent);
            }
        }
    }
    // The scratch rule: readers before writers.
    for tasklet_index in ready.into_iter().rev() {
        let mut readers = graph.scratch_readers[tasklet_index].iter();
        if readers.any(|reader| !reused[*reader]) {
            reused[tasklet_index] = false;
        }
    }
    let count = reused.iter().filter(|reused| **reused).count();
    if !previous.finished.is_empty() {
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
    reused
}

/// Finds outputs, as tasklet and output, partly written by a previous execution, which must be invalidated first.
///
/// # Errors
/// [`TaskletError::OutputOccupied`]: samples not claimed by the previous execution, or scratch that is not empty.
fn find_unfinished_outputs(
    catalog: &SignalCatalog,
    reused: &[bool],
    previous: &PreviousExecution,
    journal: Option<&JournalLocation>,
) -> Result<Vec<(usize, usize)>, TaskletError> {
    let mut unfinished = Vec::new();
    let specs = catalog.specs.iter().enumerate();
    for (tasklet_index, spec) in specs.filter(|(tasklet_index, _)| !reused[*tasklet_index]) {
        for (number, output) in spec.outputs.iter().enumerate() {
            let entry = &catalog.signals[output.signal];
            let gaps = entry.signal.gaps();
            let (start, end) = (output.range.start, output.range.end);
            if gaps.missing_within(start..end) == end - start {
                continue;
            }
            if entry.is_scratch || !previous.claims(&entry.identity, &output.range) {
                let first_sample = match gaps.first_within(start..end) {
                    Some(gap) if gap.start <= start => gap.end(),
                    _ => start,
                };
                let occupied = OccupiedOutput {
                    name: &spec.name,
                    signal: &catalog.signal_specs[output.signal].name,
                    signal_identity: &entry.identity,
                    range: start..end,
                    first_sample,
                };
                return Err(occupied.error(journal));
            }
            unfinished.push((tasklet_index, number));
        }
    }
    Ok(unfinished)
}
