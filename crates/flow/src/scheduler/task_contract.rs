//! Derives from an operator's declaration whether it can run in tasks, and what it needs. Pure.

use isochrony_time::Ratio;

use crate::Parallelism;
use crate::engine::{PlanCuts, RunOptions};
use crate::plan::Op;
use crate::plan::graph::{Graph, GraphNode};
use crate::{Alignment, Contract, PortType, PortionOverlap, Resource};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TaskContract {
    pub(super) overlap: PortionOverlap,
    pub(super) ratio: Ratio,
    /// Also emits results with incomplete context, which must be trimmed.
    pub(super) overproduces: bool,
    pub(super) rel_err: f64,
    /// Needs consecutive samples, not single samples or windows.
    pub(super) needs_continuity: bool,
}

impl TaskContract {
    pub(super) fn stateless() -> Self {
        Self {
            overlap: PortionOverlap::default(),
            ratio: Ratio::ONE,
            overproduces: false,
            rel_err: 0.0,
            needs_continuity: false,
        }
    }

    pub(super) fn input_overlap(&self, given: PortionOverlap) -> PortionOverlap {
        // Output index `i` lies at input index `i * down / up`.
        let of = |given: u64| {
            let nodes = u128::from(given) * u128::from(self.ratio.down());
            u64::try_from(nodes.div_ceil(u128::from(self.ratio.up()))).unwrap_or(u64::MAX)
        };
        PortionOverlap {
            before: of(given.before).saturating_add(self.overlap.before),
            after: of(given.after).saturating_add(self.overlap.after),
        }
    }
}

pub(super) fn reduces(node: &GraphNode) -> bool {
    node.properties.contract == Contract::Reducible
}

/// Whether it gives several streams in turn: consecutive items need not be contiguous.
pub(super) fn interleaves(node: &GraphNode) -> bool {
    node.properties.align == Alignment::Time && node.inputs.len() > 1
}

/// The error says why it cannot run in tasks.
pub(super) fn task_contract(
    node: &GraphNode,
    inputs: &[PortType],
    options: &RunOptions<'_>,
) -> Result<TaskContract, String> {
    let runs_on_workers = match &node.op {
        Op::Factory(kept) => match kept.0.parallelism(options) {
            // One worker calls process code sequentially.
            Parallelism::Workers(_) if options.workers < 2 => {
                return Err("is called in the caller's thread".into());
            }
            Parallelism::Workers(_) => true,
            Parallelism::CallingThread(why) => return Err(why),
        },
        _ => false,
    };
    if node.properties.needs == Resource::Interpreter && !runs_on_workers {
        return Err("needs the Python interpreter".into());
    }
    declared_contract(node, inputs).map_err(str::to_owned)
}

fn declared_contract(node: &GraphNode, inputs: &[PortType]) -> Result<TaskContract, &'static str> {
    let properties = &node.properties;
    let ratio = properties.ratio.map(|(up, down)| Ratio::new(up, down));
    let Ok(ratio) = ratio.unwrap_or(Ok(Ratio::ONE)) else {
        return Err("has other indices than its input");
    };
    match (properties.align, properties.contract) {
        (Alignment::Single, _) => {}
        // Matched items lie in the same task.
        (Alignment::Window | Alignment::Time, Contract::Stateless) if ratio.is_one() => {
            return Ok(TaskContract::stateless());
        }
        (Alignment::Window | Alignment::Time, _) => {
            return Err("keeps state between matched items");
        }
        (Alignment::Control, _) => {
            return Err("takes ranges, which may need samples of other tasks");
        }
        (Alignment::Loop { .. } | Alignment::Arrival, _) => return Err("is part of a loop"),
        (Alignment::Civil | Alignment::Resampled, _) => {
            return Err(
                "matches streams by civil time, at which tasks of different clocks are not cut",
            );
        }
        (Alignment::Begin, _) => {
            return Err("takes several inputs, whose items need not lie in one task");
        }
    }
    let (&[input], [output, others @ ..]) = (inputs, &properties.outputs[..]) else {
        return Err("takes several inputs");
    };
    // Samples per unit of overlap: 1 for samples, the hop for windows.
    let every = match (input, output) {
        (PortType::Samples { .. }, PortType::Samples { .. }) => 1,
        (PortType::Frames { hop, .. }, PortType::Frames { hop: given, .. }) if hop == *given => hop,
        _ => 0,
    };
    let around = |before: u64, after: u64, rel_err: f64| {
        if every == 0 || !others.is_empty() {
            return Err("needs the neighbours of items that are not samples or windows");
        }
        let of = |count: u64| count.saturating_mul(every);
        let overlap = PortionOverlap {
            before: of(before),
            after: of(after).max(properties.delay.max(0).unsigned_abs()),
        };
        Ok(TaskContract {
            overlap,
            ratio,
            rel_err,
            overproduces: true,
            needs_continuity: true,
        })
    };
    match properties.contract {
        Contract::Reducible => Ok(TaskContract::stateless()),
        Contract::Stateless if properties.delay != 0 || !ratio.is_one() => {
            Err("has other indices than its input")
        }
        Contract::Stateless => Ok(TaskContract::stateless()),
        Contract::Overlap { before, after } => around(before, after, 0.0),
        Contract::Lookahead { after } => Ok(TaskContract {
            overlap: PortionOverlap { before: 0, after },
            needs_continuity: true,
            ..TaskContract::stateless()
        }),
        // Its lookahead is its delay, which `around` includes.
        Contract::Settling { before, rel_err } => around(before, 0, rel_err),
        Contract::Sequential => {
            Err((properties.sequential_because).unwrap_or("remembers what came before"))
        }
    }
}

/// Where factory operators work, and why. `spread`: nodes that run in tasks.
pub(crate) fn placements(graph: &Graph, options: &RunOptions<'_>, spread: &[usize]) -> Vec<String> {
    let place = |at: usize| {
        let node = &graph.nodes[at];
        let Op::Factory(kept) = &node.op else {
            return None;
        };
        let label = kept.0.label();
        match kept.0.parallelism(options) {
            Parallelism::Workers(how) if spread.contains(&at) => Some(format!("{label} {how}")),
            Parallelism::Workers(_) if options.cuts == PlanCuts::WholeItems => Some(format!(
                "{label} in the caller's thread: workers= is not given, and with several it could be given other blocks"
            )),
            Parallelism::Workers(_) => Some(format!(
                "{label} in the caller's thread: no part of the plan that runs in tasks contains it"
            )),
            Parallelism::CallingThread(why) if node.properties.needs == Resource::Interpreter => {
                Some(format!("{label} in the caller's thread: it {why}"))
            }
            Parallelism::CallingThread(_) => None,
        }
    };
    (0..graph.nodes.len()).filter_map(place).collect()
}
