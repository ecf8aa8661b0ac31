//! What plans scan, against what tasklets say that they read and write.

use std::collections::HashMap;
use std::ops::Range;

use isochrony_flow::Plan;
use isochrony_store::{Signal, Store};
use isochrony_time::TimebaseId;
use pyo3::prelude::*;

use super::Described;
use crate::errors::{Raised, Result};
use crate::plan::NativePlan;
use crate::selection::Selection;

/// Refuses a plan that scans what its inputs leave out, or nobody would wait for who writes it.
#[pyfunction]
pub(crate) fn check_scans(
    plan: &Bound<'_, NativePlan>,
    inputs: Vec<Bound<'_, Selection>>,
) -> Result<()> {
    let mut stated: HashMap<TimebaseId, Vec<Range<i64>>> = HashMap::new();
    for input in &inputs {
        let selection = &input.get().selection;
        let ranges = selection.parts().iter().map(|part| part.range.clone());
        let signal = selection.signal().timebase();
        stated.entry(signal).or_default().extend(ranges);
    }
    for ranges in stated.values_mut() {
        ranges.sort_unstable_by_key(|range| range.start);
    }
    for (signal, scanned) in plan.get().plan().stored() {
        let stated = stated
            .get(&signal.timebase())
            .map_or(&[][..], Vec::as_slice);
        for range in scanned {
            let mut at = range.start;
            for one in stated {
                if one.start <= at {
                    at = at.max(one.end);
                }
            }
            if at < range.end {
                let (name, start, end) = (signal.name(), range.start, range.end);
                let message = format!(
                    "Tasklet(plan) scans {name}[{start}:{end}], of which its inputs= leave out {at}:{end}; state all that the plan scans, of the same store and signal"
                );
                return Err(Raised::new("OptionError", "bad_option", message).into());
            }
        }
    }
    Ok(())
}

/// What tasklets write, by signal.
pub(super) struct Written(HashMap<TimebaseId, (Store, Vec<Range<i64>>)>);

impl Written {
    pub(super) fn new(tasklets: &[Described<'_>]) -> Self {
        let mut written: HashMap<TimebaseId, (Store, Vec<Range<i64>>)> = HashMap::new();
        for output in tasklets.iter().flat_map(|one| &one.outputs) {
            let output = output.get();
            // Scratch has one opening only.
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
            // No two overlap, or the run is refused: their ends are in order, too.
            ranges.sort_unstable_by_key(|range| range.start);
        }
        Self(written)
    }

    /// Refuses a plan that would not see what the run writes: through another opening of the store it shows once it is
    /// committed, which is later.
    pub(super) fn check(&self, name: &str, plan: &Plan) -> Result<()> {
        for (signal, scanned) in plan.stored() {
            let Some((store, written)) = self.0.get(&signal.timebase()) else {
                continue;
            };
            let meets = |range: &Range<i64>| {
                let first = written.partition_point(|one| one.end <= range.start);
                written.get(first).is_some_and(|one| one.start < range.end)
            };
            if !store.shows(&signal) && scanned.iter().any(meets) {
                return Err(unseen(name, &signal, store));
            }
        }
        Ok(())
    }
}

fn unseen(name: &str, signal: &Signal, store: &Store) -> crate::errors::Error {
    let message = format!(
        "the plan of tasklet {name:?} scans {:?} through another opening of {} than that which tasklets write to, and would not see what they write; scan the signal of the store that outputs= are of",
        signal.name(),
        store.path().display()
    );
    Raised::new("OptionError", "bad_option", message).into()
}
