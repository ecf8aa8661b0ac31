//! Which operators behind a scan are done in tasks, by what they declare: pure.
//!
//! A chain goes on as long as an operator has one input, is the only one to take what comes before it, and declares that
//! it makes what belongs to a portion of portions alone: of itself (`Stateless`), of so many samples around
//! (`Overlap`), or, where the run grants it a tolerance, of so many samples that it settles in (`Settling`). What a task
//! has to read beyond its portion adds up from the chain's end to the scan, through the ratios of operators that give
//! other indices than they take. Windows are cut in a chain where they are counted from a run's own beginning and only
//! whole ones are given. What remembers or gathers is not in it, and of what holds something of this process only what says
//! that it may ([`Spread`]).

use isochrony_time::Ratio;

use super::dispatch::WINDOW;
use super::places::places;
use super::weight::{bytes_of_sample, is_free};
use crate::exec::RunOptions;
use crate::graph::{Edge, Graph, GraphNode};
use crate::held::Spread;
use crate::ops::Rewindow;
use crate::plan::Op;
use crate::{Align, Contract, Declared, Needs, PortType, Reach};

/// Of the run's memory, one part in so many is what a task reads at most.
const OF_MEMORY: u64 = 256;
/// So many tasks' results fit into what may wait. A number of its own, since that of workers must not show in where a
/// recording is cut.
const TASKS: u64 = WINDOW as u64 * 4;
/// A portion is at least so many times as long as what its task reads beyond it.
const OF_REACH: u64 = 4;
/// A recording has at least so many portions, where they do not become too short to be worth it and do not show.
const OF_RECORDING: u64 = 16;
/// Bytes of a portion below which handing over costs more than workers gain.
const LEAST: u64 = 16 << 10;

/// A chain from a scan on, before anything is read.
#[derive(Debug, PartialEq)]
pub(super) struct Chain {
    /// The scan, and the operators behind it.
    pub(super) nodes: Vec<usize>,
    /// Samples around its portion that a task needs.
    pub(super) reach: Reach,
    /// What is given of them too much, and where it is cut off.
    pub(super) trim: Option<Cutoff>,
    /// Whether its last operator gathers, and what it has gathered of a task is what comes out.
    pub(super) gathers: bool,
    /// Whether partial results are other bits where the recording is cut elsewhere.
    inexact: bool,
    /// By how much results may differ from those of one pass, against the largest value; 0: not at all.
    rel_err: f64,
    /// Why it does not go on.
    pub(super) why: String,
}

/// Where results that belong to other portions are cut off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cutoff {
    /// Behind this node, by its place in the chain.
    pub(super) behind: usize,
    /// Results behind the portion that the operators behind it need, in their indices.
    pub(super) after: u64,
}

/// What a task is, of a chain that is worth it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TaskSize {
    /// Samples of a portion, about.
    pub(super) samples: u64,
    /// Bytes that come out of it, about.
    pub(super) bytes: u64,
}

/// What an operator of a chain makes a result of.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Step {
    /// What it needs around, in indices of its input.
    reach: Reach,
    /// Indices given and taken.
    ratio: Ratio,
    /// Whether it gives results also where it does not know all that is before them, or behind.
    spills: bool,
    rel_err: f64,
}

impl Step {
    /// Each from itself alone.
    fn alone(ratio: Ratio) -> Self {
        Self {
            reach: Reach::default(),
            ratio,
            spills: false,
            rel_err: 0.0,
        }
    }
}

/// Whether an operator's partial results are other bits where the input is cut elsewhere.
pub(super) fn combines_inexactly(node: &GraphNode) -> bool {
    node.bound.contract == Contract::Reducible { exact: false }
}

/// The chain of each scan.
pub(super) fn chains(graph: &Graph, options: &RunOptions<'_>) -> Vec<Chain> {
    let mut takers = vec![Vec::new(); graph.nodes.len()];
    for (at, node) in graph.nodes.iter().enumerate() {
        for &(from, _) in &node.inputs {
            takers[from].push(at);
        }
    }
    let scans = (0..graph.nodes.len()).filter(|&node| graph.nodes[node].op.recording().is_some());
    scans
        .map(|scan| chain(graph, &takers, scan, options))
        .collect()
}

/// The chain of a scan; `takers` are the nodes that take from each.
fn chain(graph: &Graph, takers: &[Vec<usize>], scan: usize, options: &RunOptions<'_>) -> Chain {
    let mut chain = Chain {
        nodes: vec![scan],
        reach: Reach::default(),
        trim: None,
        gathers: false,
        inexact: false,
        rel_err: 0.0,
        why: String::new(),
    };
    let recording = graph.nodes[scan].op.recording();
    if recording.is_some_and(|recording| !recording.0.in_portions()) {
        chain.why = "it can be read only once".into();
        return chain;
    }
    let leaves_out = recording.is_some_and(|recording| recording.0.leaves_out());
    let mut steps: Vec<Step> = Vec::new();
    chain.why = loop {
        let last: Edge = (chain.nodes[chain.nodes.len() - 1], 0);
        let next = match takers[last.0][..] {
            [] => break "nothing takes what it gives".to_owned(),
            [next] if !graph.outputs.contains(&last) => next,
            _ => break "several take what it gives".to_owned(),
        };
        let node = &graph.nodes[next];
        if chain.gathers {
            break format!(
                "{name} is complete at the end",
                name = graph.nodes[last.0].op.name()
            );
        }
        let input = graph.nodes[last.0].bound.outputs[0];
        let step = match joins(node, &input, options) {
            Ok(step) => step,
            Err(why) => break format!("{} {why}", node.op.name()),
        };
        if !step.ratio.is_one() && leaves_out {
            let why = "must know what it gave before what the selection leaves out";
            break format!("{} {why}", node.op.name());
        }
        let shows = step.rel_err > 0.0 || combines_inexactly(node);
        let held = |&at: &usize| matches!(graph.nodes[at].op, Op::Hold(_));
        if shows && chain.nodes.iter().any(held) {
            // With one worker the chain would have ended before.
            break format!(
                "{name} shows where the recording is cut, and is behind what one worker does not do in tasks",
                name = node.op.name()
            );
        }
        let rel_err = chain.rel_err + step.rel_err;
        if rel_err > options.tolerance.max(0.0) {
            let name = node.op.name();
            break format!(
                "{name} settles: in tasks it would be within {rel_err:.0e} of one pass, which tolerance= has to grant"
            );
        }
        chain.rel_err = rel_err;
        chain.gathers = matches!(node.bound.contract, Contract::Reducible { .. });
        chain.inexact = combines_inexactly(node);
        steps.push(step);
        chain.nodes.push(next);
    };
    loop {
        (chain.reach, chain.trim) = reach(&steps);
        let (most, needed) = (chain.most(graph, options), chain.reach.samples());
        let last = chain.nodes[chain.nodes.len() - 1];
        if needed < most || steps.pop().is_none() {
            return chain;
        }
        chain.nodes.pop();
        (chain.gathers, chain.inexact) = (false, false);
        chain.why = format!(
            "for {} a task needs {needed} samples beside its own and has memory for {most}; give more of it",
            graph.nodes[last].op.name()
        );
    }
}

/// What a task of these steps reads beyond its portion, and where what is too much is cut off.
fn reach(steps: &[Step]) -> (Reach, Option<Cutoff>) {
    let mut reach = Reach::default();
    let mut trim = None;
    for (at, step) in steps.iter().enumerate().rev() {
        if step.spills && trim.is_none() {
            // The scan has the place before that of the first step.
            let (behind, after) = (at + 1, reach.after);
            trim = Some(Cutoff { behind, after });
        }
        // An index of what comes out lies at its `down / up` of what comes in.
        let of = |given: u64| {
            let taken = u128::from(given) * u128::from(step.ratio.down());
            u64::try_from(taken.div_ceil(u128::from(step.ratio.up()))).unwrap_or(u64::MAX)
        };
        reach = Reach {
            before: of(reach.before).saturating_add(step.reach.before),
            after: of(reach.after).saturating_add(step.reach.after),
        };
    }
    (reach, trim)
}

/// Whether an operator can be done in tasks, and what it needs then, or why not.
fn joins(node: &GraphNode, input: &PortType, options: &RunOptions<'_>) -> Result<Step, String> {
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
    step(node, input).map_err(str::to_owned)
}

/// What an operator needs to be done in tasks, by what it declares, or why it cannot be.
fn step(node: &GraphNode, input: &PortType) -> Result<Step, &'static str> {
    let params = match &node.op {
        Op::Apply { params, .. } => Some(params),
        _ => None,
    };
    let bound = &node.bound;
    if node.inputs.len() != 1 || bound.align != Align::Single {
        return Err("takes several inputs");
    }
    if bound.outputs.len() != 1 {
        return Err("gives several outputs");
    }
    let ratio = bound.ratio.map(|(up, down)| Ratio::new(up, down));
    let Ok(ratio) = ratio.unwrap_or(Ok(Ratio::ONE)) else {
        return Err("gives other indices than it takes");
    };
    let alone = Step::alone(ratio);
    let rewindow = |_: &&_| node.op.name() == Rewindow::DECLARATION.name;
    if let Some(params) = params.filter(rewindow) {
        let text = |name| params.get(name).and_then(|value| value.as_str());
        return match (text("anchor"), text("tail"), bound.outputs[0]) {
            (Some("range"), ..) => Err("counts windows from where reading begins"),
            (_, Some("keep"), _) => Err("keeps a short last window"),
            (_, _, PortType::Frames { window, .. }) => {
                let (before, after) = (0, window - 1);
                let reach = Reach { before, after };
                Ok(Step { reach, ..alone })
            }
            _ => Err("gives no windows"),
        };
    }
    // Samples as they are; of windows, so many of them.
    let every = match (input, &bound.outputs[0]) {
        (PortType::Samples { .. }, PortType::Samples { .. }) => 1,
        (PortType::Frames { hop, .. }, PortType::Frames { hop: given, .. }) if hop == given => *hop,
        _ => 0,
    };
    let around = |before: u64, after: u64, rel_err: f64| {
        if every == 0 {
            return Err("needs what is around of what has no samples or windows");
        }
        let of = |count: u64| count.saturating_mul(every);
        let reach = Reach {
            before: of(before),
            after: of(after).max(bound.delay.max(0).unsigned_abs()),
        };
        Ok(Step {
            reach,
            rel_err,
            spills: true,
            ..alone
        })
    };
    match bound.contract {
        Contract::Reducible { .. } => Ok(alone),
        Contract::Stateless if bound.delay != 0 || !ratio.is_one() => {
            Err("gives other indices than it takes")
        }
        Contract::Stateless => Ok(alone),
        Contract::Overlap { before, after } => around(before, after, 0.0),
        // What it knows of what is behind is what it waits for.
        Contract::Settling { before, rel_err } => around(before, 0, rel_err),
        Contract::Sequential => Err("remembers what came before"),
    }
}

impl Chain {
    /// Whether where a recording is cut shows in what comes out.
    pub(super) fn shows_cuts(&self) -> bool {
        self.rel_err > 0.0 || self.inexact
    }

    /// The operators behind the scan.
    fn operators<'a>(&self, graph: &'a Graph) -> impl Iterator<Item = &'a GraphNode> {
        self.nodes[1..].iter().map(|&node| &graph.nodes[node])
    }

    /// Samples of a task of which all that comes fits: what some tasks that wait give takes an eighth of the memory.
    fn most(&self, graph: &Graph, options: &RunOptions<'_>) -> u64 {
        let each = bytes_of_sample(self.operators(graph).map(|node| &node.bound));
        ((options.memory / 8 / TASKS) as f64 / each) as u64
    }

    /// A task of a recording of so many samples: of a short one smaller, so that several workers have something to do, unless
    /// it shows where it is cut.
    pub(super) fn task_of(&self, task: TaskSize, total: u64, graph: &Graph) -> TaskSize {
        if self.shows_cuts() {
            return task;
        }
        let least = LEAST / sample_bytes(graph, self.nodes[0]);
        let least = least.max(OF_REACH.saturating_mul(self.reach.samples()));
        let samples = task.samples.min((total / OF_RECORDING).max(least));
        // Rounded up: nothing is to be taken for free.
        let bytes = u128::from(task.bytes) * u128::from(samples) / u128::from(task.samples.max(1));
        TaskSize {
            samples,
            bytes: bytes as u64 + 1,
        }
    }

    /// What a task is; None if the chain is not worth being spread. It depends on the plan and its memory alone.
    pub(super) fn task(&self, graph: &Graph, options: &RunOptions<'_>) -> Option<TaskSize> {
        if self.operators(graph).all(is_free) {
            return None;
        }
        let size = sample_bytes(graph, self.nodes[0]);
        let wanted = options.task.min(options.memory / OF_MEMORY) / size;
        let wanted = wanted.max(OF_REACH.saturating_mul(self.reach.samples()));
        let samples = wanted.min(self.most(graph, options)).max(1);
        let each = bytes_of_sample(self.operators(graph).map(|node| &node.bound));
        let bytes = (samples as f64 * each) as u64;
        Some(TaskSize { samples, bytes })
    }

    /// In words.
    fn line(&self, graph: &Graph) -> String {
        let names = self.nodes.iter().map(|&node| graph.nodes[node].op.name());
        let names = names.collect::<Vec<_>>().join(" -> ");
        let Reach { before, after } = self.reach;
        let more = match self.trim {
            None => String::new(),
            Some(_) => format!(", read with {before} before and {after} behind them"),
        };
        match self.task(graph, &RunOptions::default()) {
            None if self.gathers => {
                format!("{names} in order: it is done sooner than handed over\n")
            }
            None => format!("{names} in order: {}\n", self.why),
            Some(TaskSize { samples, .. }) if self.gathers => format!(
                "{names} in tasks of up to {samples} samples{more}, whose partial results are combined in order\n"
            ),
            Some(TaskSize { samples, .. }) => format!(
                "{names} in tasks of up to {samples} samples{more}, then in order: {}\n",
                self.why
            ),
        }
    }
}

fn sample_bytes(graph: &Graph, scan: usize) -> u64 {
    let port = graph.nodes[scan].bound.outputs[0];
    port.dtype().map_or(8, |dtype| dtype.size() as u64)
}

/// What workers would do of a graph, and why not more.
pub(crate) fn explain(graph: &Graph) -> String {
    let options = RunOptions {
        workers: 2,
        ..RunOptions::default()
    };
    let chains = chains(graph, &options);
    let lines = chains.iter().map(|chain| chain.line(graph));
    let spread = (chains.iter()).filter(|chain| chain.task(graph, &options).is_some());
    let spread: Vec<usize> = spread.flat_map(|chain| chain.nodes.clone()).collect();
    let places = places(graph, &options, &spread).into_iter();
    lines.chain(places.map(|place| place + "\n")).collect()
}
