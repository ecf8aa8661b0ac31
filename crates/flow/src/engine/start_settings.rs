//! Settings of a tuned run that are chosen before it starts: whether threads are pinned, how stored signals are read,
//! where the plan is cut into stages, and where Python functions are called.

use std::collections::BTreeSet;

use isochrony_runtime::Pinning;
use isochrony_store::Strategy;
use isochrony_tune::{FunctionPlace, TuneError};

use crate::SharedRecording;
use crate::plan::Op;
use crate::plan::graph::Graph;

/// What the user or a saved configuration states.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GivenSettings {
    /// Whether threads are pinned; None: where the allowed CPUs have several last-level caches.
    pub pin: Option<bool>,
    /// Strategies of the stored signals in plan order; None: the plan's, else those of the machine's profile. A strategy
    /// in the plan wins.
    pub io: Option<Vec<Strategy>>,
    /// Stage of each operator of the plan as it runs; None: chosen.
    pub cuts: Option<Vec<usize>>,
    /// Where each Python function is called, in plan order; None: chosen. What the plan states wins.
    pub places: Option<Vec<FunctionPlace>>,
}

/// Pinned threads keep their caches; with a single cache they have nothing to keep.
pub(super) fn has_several_caches() -> bool {
    let Some(pinning) = Pinning::of_current_thread() else {
        return false;
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let caches: BTreeSet<usize> = (0..threads).map(|at| pinning.location(at).cache).collect();
    caches.len() > 1
}

/// Fixes the strategy of each stored signal that the plan reads; returns their names.
pub(super) fn fix_io(
    graph: &mut Graph,
    given: Option<&[Strategy]>,
) -> Result<Vec<String>, TuneError> {
    let mut names = Vec::new();
    for node in &mut graph.nodes {
        let Op::Scan {
            recording, range, ..
        } = &mut node.op
        else {
            continue;
        };
        let Some(stored) = recording.0.as_stored() else {
            continue;
        };
        let given = given.and_then(|given| given.get(names.len()).copied());
        // An unreadable recording is an error of the run.
        let Some(strategy) = stored.strategy_of(range.clone(), given) else {
            continue;
        };
        names.push(strategy.name().to_owned());
        *recording = SharedRecording::new(stored.clone().io(strategy));
    }
    match given {
        Some(given) if given.len() != names.len() => Err(TuneError::OtherPlan {
            what: "stored signals",
            has: given.len(),
            needs: names.len(),
        }),
        _ => Ok(names),
    }
}
