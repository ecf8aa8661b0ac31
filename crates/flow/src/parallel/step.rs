//! What an operator needs so that tasks can do it, by what it declares: pure.

use isochrony_time::Ratio;

use crate::exec::RunOptions;
use crate::graph::GraphNode;
use crate::held::Spread;
use crate::ops::Rewindow;
use crate::plan::Op;
use crate::{Align, Contract, Declared, Needs, PortType, Reach};

/// What an operator that tasks do makes a result of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Step {
    /// What it needs around, in indices of its input.
    pub(super) reach: Reach,
    /// Indices given and taken.
    pub(super) ratio: Ratio,
    /// Whether it gives results also where it does not know all that is before them, or behind.
    pub(super) spills: bool,
    /// By how much its results may differ from those of one pass.
    pub(super) rel_err: f64,
    /// Whether it needs to know where samples go on, and not only each sample or window.
    pub(super) continues: bool,
}

impl Step {
    /// Each from itself alone.
    pub(super) fn alone() -> Self {
        Self {
            reach: Reach::default(),
            ratio: Ratio::ONE,
            spills: false,
            rel_err: 0.0,
            continues: false,
        }
    }

    /// What of its input it needs for so much of what it gives.
    pub(super) fn wants(&self, given: Reach) -> Reach {
        // An index of what comes out lies at its `down / up` of what comes in.
        let of = |given: u64| {
            let taken = u128::from(given) * u128::from(self.ratio.down());
            u64::try_from(taken.div_ceil(u128::from(self.ratio.up()))).unwrap_or(u64::MAX)
        };
        Reach {
            before: of(given.before).saturating_add(self.reach.before),
            after: of(given.after).saturating_add(self.reach.after),
        }
    }
}

/// Whether an operator's partial results are other bits where the input is cut elsewhere.
pub(super) fn combines_inexactly(node: &GraphNode) -> bool {
    node.bound.contract == Contract::Reducible { exact: false }
}

/// Whether an operator hands over what it has gathered.
pub(super) fn gathers(node: &GraphNode) -> bool {
    matches!(node.bound.contract, Contract::Reducible { .. })
}

/// Whether it is several streams in turn that an operator gives: then one does not go on where the other ends.
pub(super) fn mixes(node: &GraphNode) -> bool {
    node.bound.align == Align::Time && node.inputs.len() > 1
}

/// Whether an operator can be done in tasks, and what it needs then, or why not; `inputs` are what it is given.
pub(super) fn joins(
    node: &GraphNode,
    inputs: &[PortType],
    options: &RunOptions<'_>,
) -> Result<Step, String> {
    let held = match &node.op {
        Op::Hold(kept) => match kept.0.spread(options) {
            // One worker may be there for what shows where a recording is cut; what is held is not its business.
            Spread::Workers(_) if options.workers < 2 => return Err("is called here".into()),
            Spread::Workers(_) => true,
            Spread::Caller(why) => return Err(why),
        },
        _ => false,
    };
    if node.bound.needs == Needs::Interpreter && !held {
        return Err("needs the Python interpreter".into());
    }
    step(node, inputs).map_err(str::to_owned)
}

/// What an operator needs to be done in tasks, by what it declares, or why it cannot be.
fn step(node: &GraphNode, inputs: &[PortType]) -> Result<Step, &'static str> {
    let bound = &node.bound;
    let ratio = bound.ratio.map(|(up, down)| Ratio::new(up, down));
    let Ok(ratio) = ratio.unwrap_or(Ok(Ratio::ONE)) else {
        return Err("gives other indices than it takes");
    };
    match (bound.align, bound.contract) {
        (Align::Single, _) => {}
        // What meets lies in one task, or in another as a whole.
        (Align::Window | Align::Time, Contract::Stateless) if ratio.is_one() => {
            return Ok(Step::alone());
        }
        (Align::Window | Align::Time, _) => return Err("remembers what met before"),
        (Align::Control, _) => {
            return Err("takes ranges, which may ask for samples of other tasks");
        }
        (Align::Loop { .. } | Align::Arrival, _) => return Err("is part of a loop"),
        (Align::Civil | Align::Resampled, _) => {
            return Err(
                "lets streams meet by civil time, at which tasks of different clocks are not cut",
            );
        }
        (Align::Begin, _) => {
            return Err("takes several inputs, whose items need not lie in one task");
        }
    }
    let (&[input], [output, others @ ..]) = (inputs, &bound.outputs[..]) else {
        return Err("takes several inputs");
    };
    if let Some(windows) = rewindow(node, output)? {
        return Ok(windows);
    }
    // Samples as they are; of windows, so many of them.
    let every = match (input, output) {
        (PortType::Samples { .. }, PortType::Samples { .. }) => 1,
        (PortType::Frames { hop, .. }, PortType::Frames { hop: given, .. }) if hop == *given => hop,
        _ => 0,
    };
    let around = |before: u64, after: u64, rel_err: f64| {
        if every == 0 || !others.is_empty() {
            return Err("needs what is around of what has no samples or windows");
        }
        let of = |count: u64| count.saturating_mul(every);
        let reach = Reach {
            before: of(before),
            after: of(after).max(bound.delay.max(0).unsigned_abs()),
        };
        Ok(Step {
            reach,
            ratio,
            rel_err,
            spills: true,
            continues: true,
        })
    };
    match bound.contract {
        Contract::Reducible { .. } => Ok(Step::alone()),
        Contract::Stateless if bound.delay != 0 || !ratio.is_one() => {
            Err("gives other indices than it takes")
        }
        Contract::Stateless => Ok(Step::alone()),
        Contract::Overlap { before, after } => around(before, after, 0.0),
        // What it knows of what is behind is what it waits for.
        Contract::Settling { before, rel_err } => around(before, 0, rel_err),
        Contract::Sequential => Err("remembers what came before"),
    }
}

/// What cutting windows needs; None of what does something else.
fn rewindow(node: &GraphNode, output: &PortType) -> Result<Option<Step>, &'static str> {
    let Op::Apply { params, .. } = &node.op else {
        return Ok(None);
    };
    if node.op.name() != Rewindow::DECLARATION.name {
        return Ok(None);
    }
    let text = |name| params.get(name).and_then(|value| value.as_str());
    match (text("anchor"), text("tail"), *output) {
        (Some("range"), ..) => Err("counts windows from where reading begins"),
        (_, Some("keep"), _) => Err("keeps a short last window"),
        (_, _, PortType::Frames { window, .. }) => Ok(Some(Step {
            reach: Reach {
                before: 0,
                after: window - 1,
            },
            continues: true,
            ..Step::alone()
        })),
        _ => Err("gives no windows"),
    }
}
