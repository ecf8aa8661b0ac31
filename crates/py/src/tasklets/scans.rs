//! Compares scans of plans with the inputs and outputs of tasklets.

use std::collections::HashMap;
use std::ops::Range;

use isochrony_flow::{Plan, ScannedSignal};
use isochrony_store::{Signal, Store};
use isochrony_tasklets::SignalRange;
use isochrony_time::TimebaseId;
use pyo3::prelude::*;

use super::description::TaskletDescription;
use crate::errors::{PackageError, Result};
use crate::plan::NativePlan;
use crate::signal::selection::Selection;

/// Refuses a plan that scans ranges outside its inputs, whose writers would not be waited for. A signal scanned whole
/// is read where the inputs are, which must be one range.
#[pyfunction]
pub(crate) fn check_scans(
    plan: &Bound<'_, NativePlan>,
    inputs: Vec<Bound<'_, Selection>>,
) -> Result<()> {
    let mut stated: HashMap<TimebaseId, Vec<Range<i64>>> = HashMap::new();
    for input in &inputs {
        let selection = &input.get().selection;
        let ranges = stated.entry(selection.signal().timebase()).or_default();
        match selection.index_range() {
            Some(range) => ranges.push(range),
            None => ranges.extend(selection.parts().iter().map(|part| part.range.clone())),
        }
    }
    for ranges in stated.values_mut() {
        ranges.sort_unstable_by_key(|range| range.start);
    }
    for ScannedSignal {
        signal,
        ranges,
        whole,
    } in plan.get().plan().stored()
    {
        let stated = stated.get(&signal.timebase());
        let (name, stated) = (signal.name(), stated.map_or(&[][..], Vec::as_slice));
        let refused = |message| Err(PackageError::new("OptionError", "bad_option", message).into());
        if whole && !stated.is_empty() {
            let mut one = &stated[0];
            for other in stated {
                if one.end < other.start {
                    return refused(format!(
                        "Tasklet(plan) scans all of {name}, but its inputs= state two ranges of it, {}:{} and {}:{}; state one range, or scan each range",
                        one.start, one.end, other.start, other.end
                    ));
                }
                if one.end < other.end {
                    one = other;
                }
            }
            continue;
        }
        for range in ranges {
            let mut at = range.start;
            for one in stated {
                if one.start <= at {
                    at = at.max(one.end);
                }
            }
            if at < range.end {
                let (start, end) = (range.start, range.end);
                return refused(format!(
                    "Tasklet(plan) scans {name}[{start}:{end}], but its inputs= leave out {at}:{end}; state the whole range that the plan scans, of the same store and signal"
                ));
            }
        }
    }
    Ok(())
}

pub(super) struct WrittenRanges(HashMap<TimebaseId, (Store, Vec<Range<i64>>)>);

impl WrittenRanges {
    pub(super) fn new(tasklets: &[TaskletDescription<'_>]) -> Self {
        let mut written: HashMap<TimebaseId, (Store, Vec<Range<i64>>)> = HashMap::new();
        for output in tasklets.iter().flat_map(|one| &one.outputs) {
            let output = output.get();
            // A scratch signal has one opening only.
            if output.scratch.is_none() {
                let signal = output.signal().timebase();
                let store = &output.shared.store;
                let found = written
                    .entry(signal)
                    .or_insert_with(|| (store.clone(), Vec::new()));
                let ranges = output.selection.parts().iter();
                found.1.extend(ranges.map(|part| part.range.clone()));
            }
        }
        for (_, ranges) in written.values_mut() {
            // They do not overlap, so ends are sorted too.
            ranges.sort_unstable_by_key(|range| range.start);
        }
        Self(written)
    }

    /// Refuses a plan that would miss output of the execution: another opening shows only commits.
    pub(super) fn check(
        &self,
        name: &str,
        plan: &Plan,
        inputs: &[(TimebaseId, Range<i64>)],
    ) -> Result<()> {
        for ScannedSignal {
            signal,
            mut ranges,
            whole,
        } in plan.stored()
        {
            let stated = inputs.iter().find(|(of, _)| *of == signal.timebase());
            if let (true, Some((_, stated))) = (whole, stated) {
                ranges = vec![stated.clone()];
            }
            let Some((store, written)) = self.0.get(&signal.timebase()) else {
                continue;
            };
            let meets = |range: &Range<i64>| {
                let first = written.partition_point(|one| one.end <= range.start);
                written.get(first).is_some_and(|one| one.start < range.end)
            };
            if !store.shows(&signal) && ranges.iter().any(meets) {
                return Err(unseen(name, &signal, store));
            }
        }
        Ok(())
    }
}

fn unseen(name: &str, signal: &Signal, store: &Store) -> crate::errors::Error {
    let message = format!(
        "the plan of tasklet {name:?} scans {:?} of {} as opened a second time, and would not see what tasklets write; scan the signal of the store object to which outputs= belong",
        signal.name(),
        store.path().display()
    );
    PackageError::new("OptionError", "bad_option", message).into()
}

/// Range to read per signal: from the first to the last input.
pub(super) fn stated(inputs: &[(TimebaseId, SignalRange)]) -> Vec<(TimebaseId, Range<i64>)> {
    let mut stated: Vec<(TimebaseId, Range<i64>)> = Vec::new();
    for (signal, part) in inputs {
        let range = part.range();
        match stated.iter_mut().find(|(of, _)| of == signal) {
            Some((_, all)) => *all = all.start.min(range.start)..all.end.max(range.end),
            None => stated.push((*signal, range)),
        }
    }
    stated
}
