//! Finds the stages of a plan, node by node in plan order.
//!
//! An operator that computes much begins a stage if its input's stage already has its share of the expected time
//! (`stage_costs`); one that computes little joins that stage. What runs in the caller's thread forms one stage with
//! all behind it. Inputs of a fan-in whose stages depend on the same source must come from one stage, which then has
//! all that lies between. There are a few stages per worker; further sources share stages.

mod stage_merging;

use std::collections::BTreeSet;

use super::cell_groups::CellGroups;
use super::obstacles::Obstacles;
use super::stage_costs::{computes_much, costs_ns};
use super::stage_plan::Replication;
use crate::engine::{PlanCuts, RunOptions};
use crate::plan::Op;
use crate::plan::graph::{Graph, GraphNode};
use crate::scheduler::task_contract::{TaskContract, interleaves, reduces, task_contract};
use crate::{Fields, Parallelism, PortType, Resource};

/// Approximate: of unequal stages one then has work for a free core.
const STAGES_PER_WORKER: usize = 4;
const MAX_STAGES: usize = 31;

const CALLER_ROOT: u64 = 1 << 63;

const CALLER: usize = usize::MAX;

struct GrowingStage {
    /// The node that began it.
    first: usize,
    /// Itself if it was not merged.
    merged_into: usize,
    cost_ns: f64,
    inputs: BTreeSet<usize>,
    /// 0 without sources.
    root: u64,
    in_caller: bool,
    /// `Blocks`: no source, and all operators can compute blocks independently. `Cells`: the first one settles, and the
    /// others need no neighbours.
    replication: Replication,
    /// The group of cells, whose operators are not executed otherwise; no others join.
    cells: Option<usize>,
}

impl GrowingStage {
    fn has_replicas(&self) -> bool {
        let is_worth_it = computes_much(self.cost_ns) || self.cells.is_some();
        self.replication != Replication::None && is_worth_it
    }
}

pub(super) struct StageBuilder<'a> {
    graph: &'a Graph,
    options: &'a RunOptions<'a>,
    obstacles: Obstacles,
    /// By group of obstacles.
    group_stages: Vec<Option<usize>>,
    cells: CellGroups,
    /// By group of cells.
    cell_stages: Vec<Option<usize>>,
    /// Nodes that only the caller's thread executes.
    callers: Vec<bool>,
    stages: Vec<GrowingStage>,
    /// Stages with sources; further sources join them in turn.
    source_stages: Vec<usize>,
    sources: usize,
    caller_sources: Option<usize>,
    max_stages: usize,
    /// By node; and about the most of one stage if there are too many.
    expected_ns: Vec<f64>,
    share_ns: f64,
    stage_of: Vec<usize>,
    /// By node of the caller's thread: the stages it depends on; else empty.
    feeds: Vec<BTreeSet<usize>>,
    /// By node: its output does not ascend: streams alternate or ranges go back.
    descends: Vec<bool>,
    /// By node: difference from one thread without cells.
    rel_err: Vec<f64>,
    /// By node: the bit of a source.
    root_of: Vec<u64>,
    /// A node of each stage that obstacles keep together, and why.
    uncut: Vec<(usize, &'static str)>,
}

/// Other threads may execute only what the user chose workers for.
fn is_user_code(node: &GraphNode, options: &RunOptions<'_>) -> bool {
    let Op::Factory(factory) = &node.op else {
        return node.calls_python();
    };
    let may_leave = options.cuts != PlanCuts::WholeItems && factory.0.prefers_workers();
    !(may_leave && matches!(factory.0.parallelism(options), Parallelism::Workers(_)))
}

/// User code, what is delivered, and all behind them.
fn callers(graph: &Graph, options: &RunOptions<'_>, obstacles: &Obstacles) -> Vec<bool> {
    let mut callers = vec![false; graph.nodes.len()];
    for &(node, _) in &graph.outputs {
        callers[node] = true;
    }
    let mut groups: Vec<bool> = obstacles
        .groups
        .iter()
        .map(|group| group.in_caller)
        .collect();
    loop {
        let before = groups.clone();
        for (at, node) in graph.nodes.iter().enumerate() {
            let group = obstacles.group_of[at];
            let mut inputs = node.inputs.iter();
            callers[at] |= group.is_some_and(|group| groups[group])
                || is_user_code(node, options)
                || inputs.any(|&(from, _)| callers[from]);
            if let Some(group) = group {
                groups[group] |= callers[at];
            }
        }
        if groups == before {
            return callers;
        }
    }
}

impl<'a> StageBuilder<'a> {
    pub(super) fn new(graph: &'a Graph, options: &'a RunOptions<'a>) -> Self {
        let max_stages = (STAGES_PER_WORKER * options.workers.max(1)).min(MAX_STAGES);
        let expected_ns = costs_ns(graph, options);
        let share_ns = expected_ns.iter().sum::<f64>() / max_stages as f64;
        let obstacles = Obstacles::of(graph, &expected_ns, share_ns / 2.0);
        let cells = CellGroups::of(graph, options);
        Self {
            graph,
            options,
            cell_stages: vec![None; cells.samples.len()],
            cells,
            callers: callers(graph, options, &obstacles),
            group_stages: vec![None; obstacles.groups.len()],
            obstacles,
            root_of: vec![0; graph.nodes.len()],
            uncut: Vec::new(),
            stages: Vec::new(),
            source_stages: Vec::new(),
            sources: 0,
            caller_sources: None,
            max_stages,
            expected_ns,
            share_ns,
            stage_of: Vec::with_capacity(graph.nodes.len()),
            feeds: Vec::with_capacity(graph.nodes.len()),
            descends: Vec::with_capacity(graph.nodes.len()),
            rel_err: Vec::with_capacity(graph.nodes.len()),
        }
    }

    fn stage(&self, mut stage: usize) -> usize {
        while self.stages[stage].merged_into != stage {
            stage = self.stages[stage].merged_into;
        }
        stage
    }

    /// Cuts that were chosen before, instead of by costs.
    fn given_stage_of(&self) -> Option<&'a [usize]> {
        self.options.cut_rule?.stage_of.as_deref()
    }

    fn new_stage(&mut self, cost_ns: f64, inputs: BTreeSet<usize>) -> usize {
        let number = self.stages.len();
        self.stages.push(GrowingStage {
            first: self.stage_of.len(),
            merged_into: number,
            cost_ns,
            inputs,
            root: 0,
            in_caller: false,
            replication: Replication::None,
            cells: None,
        });
        number
    }

    /// Without the caller's.
    fn stages_of(&self, node: usize) -> BTreeSet<usize> {
        match self.stage_of[node] {
            CALLER => self.feeds[node]
                .iter()
                .map(|&one| self.stage(one))
                .collect(),
            stage => BTreeSet::from([self.stage(stage)]),
        }
    }

    fn roots(&self, stages: &BTreeSet<usize>) -> u64 {
        let mut seen: BTreeSet<usize> = BTreeSet::new();
        let mut open: Vec<usize> = stages.iter().copied().collect();
        let mut roots = 0;
        while let Some(stage) = open.pop() {
            let stage = self.stage(stage);
            if seen.insert(stage) {
                roots |= self.stages[stage].root;
                open.extend(&self.stages[stage].inputs);
            }
        }
        roots
    }

    fn place(&mut self, node: usize) {
        let descends = self.descends(node);
        self.descends.push(descends);
        let replicable = self.replicable(node);
        let inputs = &self.graph.nodes[node].inputs;
        let cost_ns = self.expected_ns[node];
        let mut stages: BTreeSet<usize> = BTreeSet::new();
        let cells = self.cells.group_of[node].filter(|_| !self.callers[node]);
        if let [(from, _)] = inputs[..] {
            stages = self.stages_of(from);
        } else if cells.is_some() {
            // All inputs come from this group, or from the scan before it.
            stages.extend(inputs.iter().flat_map(|&(from, _)| self.stages_of(from)));
        } else {
            let before: BTreeSet<usize> = inputs.iter().map(|&(from, _)| from).collect();
            let before: Vec<usize> = before.into_iter().collect();
            self.merge_inputs(&before);
            for from in before {
                stages.extend(self.stages_of(from));
            }
        }
        let group = self.obstacles.group_of[node];
        let stage = if self.callers[node] {
            self.stage_of.push(CALLER);
            self.feeds.push(stages);
            return;
        } else if let Some(cells) = cells {
            self.place_in_cells(node, cells, stages)
        } else if let Some(group) = group {
            self.place_bound(node, group, stages)
        } else if inputs.is_empty() {
            self.place_source(node, cost_ns)
        } else {
            let open = stages.iter().copied();
            let mut open = open.filter(|&stage| self.stages[stage].cells.is_none());
            let given = self.given_stage_of();
            let is_same = |&stage: &usize| {
                given.is_some_and(|given| given[self.stages[stage].first] == given[node])
            };
            let first = open.clone().find(is_same).or_else(|| open.next());
            let first = first.or(stages.first().copied()).unwrap_or(0);
            let joins = match stages.len() {
                _ if given.is_some() => is_same(&first) && self.stages[first].cells.is_none(),
                1 => self.joins(&self.stages[first], cost_ns, &replicable),
                _ => self.stages.len() >= 2 * self.max_stages && self.stages[first].cells.is_none(),
            };
            match joins {
                true => {
                    stages.remove(&first);
                    self.stages[first].cost_ns += cost_ns;
                    if replicable.is_none() {
                        self.stages[first].replication = Replication::None;
                    }
                    self.stages[first].inputs.extend(stages);
                    first
                }
                false => {
                    let stage = self.new_stage(cost_ns, stages);
                    self.stages[stage].replication = match replicable {
                        None => Replication::None,
                        Some(contract) if contract.rel_err > 0.0 => Replication::Cells,
                        Some(_) => Replication::Blocks,
                    };
                    stage
                }
            }
        };
        self.stage_of.push(stage);
        self.feeds.push(BTreeSet::new());
    }

    /// In the stage that computes the cells of a feed.
    fn place_in_cells(&mut self, node: usize, cells: usize, mut stages: BTreeSet<usize>) -> usize {
        let cost_ns = self.expected_ns[node];
        let own = self.cell_stages[cells].map(|stage| self.stage(stage));
        let stage = own.unwrap_or_else(|| {
            let stage = self.new_stage(0.0, BTreeSet::new());
            self.stages[stage].cells = Some(cells);
            self.stages[stage].replication = Replication::Cells;
            stage
        });
        self.cell_stages[cells] = Some(stage);
        stages.remove(&stage);
        self.stages[stage].cost_ns += cost_ns;
        self.stages[stage].inputs.extend(stages);
        stage
    }

    /// In the stage of its group.
    fn place_bound(&mut self, node: usize, group: usize, mut stages: BTreeSet<usize>) -> usize {
        let cost_ns = self.expected_ns[node];
        let own = self.group_stages[group].map(|stage| self.stage(stage));
        if self.graph.nodes[node].inputs.is_empty() {
            // In turn with other sources, so that all of a group have a root.
            let stage = self.place_source(node, cost_ns);
            let own = own.unwrap_or(stage);
            self.unite(own, stage);
            self.group_stages[group] = Some(own);
            return self.stage(own);
        }
        let stage = own.unwrap_or_else(|| self.new_stage(0.0, BTreeSet::new()));
        let shared = self.roots(&BTreeSet::from([stage])) & self.roots(&stages);
        if shared != 0 && stages != BTreeSet::from([stage]) {
            stages.insert(stage);
            self.merge_between(&stages, shared);
            stages = stages.iter().map(|&one| self.stage(one)).collect();
        }
        let stage = self.stage(stage);
        stages.remove(&stage);
        let into = &mut self.stages[stage];
        into.cost_ns += cost_ns;
        into.replication = Replication::None;
        into.inputs.extend(stages);
        self.group_stages[group] = Some(stage);
        stage
    }

    fn joins(&self, stage: &GrowingStage, cost_ns: f64, replicable: &Option<TaskContract>) -> bool {
        let is_full = self.stages.len() >= 2 * self.max_stages;
        let joins = match (stage.replication, replicable) {
            // It begins a stage that is cut into its own cells.
            (_, Some(contract)) if contract.rel_err > 0.0 => false,
            (Replication::Cells, contract) => *contract == Some(TaskContract::stateless()),
            (Replication::Blocks, contract) if computes_much(stage.cost_ns) => contract.is_some(),
            (Replication::Blocks, Some(_)) => true,
            // It would have no replicas there.
            (_, Some(_)) if computes_much(cost_ns) => false,
            _ => {
                let is_light = !computes_much(cost_ns) || !computes_much(stage.cost_ns);
                is_light || stage.cost_ns + cost_ns / 2.0 <= self.share_ns
            }
        };
        (joins || is_full) && stage.cells.is_none()
    }

    fn descends(&self, node: usize) -> bool {
        let own = &self.graph.nodes[node];
        let recording = own.op.recording();
        let mut inputs = own.inputs.iter();
        interleaves(own)
            || recording.is_some_and(|recording| recording.0.skips_samples())
            || inputs.any(|&(from, _)| self.descends[from])
    }

    /// For a node that can compute blocks or cells of its input. Records how far its output may differ.
    fn replicable(&mut self, at: usize) -> Option<TaskContract> {
        let node = &self.graph.nodes[at];
        let before = node.inputs.iter().map(|&(from, _)| self.rel_err[from]);
        let before: f64 = before.sum();
        let contract = self.contract(at).filter(|contract| {
            let total = before + contract.rel_err;
            contract.rel_err == 0.0 || total <= self.options.tolerance
        });
        let own = contract.map_or(0.0, |contract| contract.rel_err);
        self.rel_err.push(before + own);
        contract
    }

    fn contract(&self, at: usize) -> Option<TaskContract> {
        let node = &self.graph.nodes[at];
        let is_whole = self.options.cuts == PlanCuts::WholeItems || reduces(node);
        if self.descends[at] || node.inputs.len() != 1 || is_whole || self.callers[at] {
            return None;
        }
        let inputs = node
            .inputs
            .iter()
            .map(|&(from, output)| self.graph.nodes[from].properties.outputs[usize::from(output)]);
        let inputs: Vec<_> = inputs.collect();
        if self.options.has_slots && self.adds_times_of_feed(at, inputs[0]) {
            return None;
        }
        let contract = task_contract(node, &inputs, self.options).ok()?;
        let samples = |port: &PortType| matches!(port, PortType::Samples { .. });
        let in_cells =
            samples(&inputs[0]) && samples(&node.properties.outputs[0]) && !node.has_changes();
        (contract.rel_err == 0.0 || in_cells).then_some(contract)
    }

    /// Whether it gives rows the times of what is received or made in this process.
    fn adds_times_of_feed(&self, at: usize, input: PortType) -> bool {
        let node = &self.graph.nodes[at];
        let [PortType::Rows { fields, .. }] = node.properties.outputs[..] else {
            return false;
        };
        let fields = fields.schema().fields().iter();
        let has_times = fields
            .map(|field| field.data_type())
            .any(|one| *one == Fields::civil());
        let recording = self.graph.recording_of_edge(node.inputs[0]);
        let is_of_feed = recording.is_some_and(|recording| recording.is_feed());
        has_times && !matches!(input, PortType::Rows { .. }) && is_of_feed
    }

    fn place_source(&mut self, node: usize, cost_ns: f64) -> usize {
        if self.graph.nodes[node].properties.needs == Resource::Interpreter {
            let stage = match self.caller_sources {
                Some(stage) => self.stage(stage),
                None => self.new_stage(0.0, BTreeSet::new()),
            };
            self.caller_sources = Some(stage);
            let own = &mut self.stages[stage];
            own.cost_ns += cost_ns;
            (own.root, own.in_caller) = (own.root | CALLER_ROOT, true);
            self.root_of[node] = CALLER_ROOT;
            return stage;
        }
        let mut turn = self.sources % self.max_stages;
        self.sources += 1;
        if self.stages.len() >= 2 * self.max_stages && !self.source_stages.is_empty() {
            turn %= self.source_stages.len();
        }
        let stage = match self.source_stages.get(turn) {
            Some(&stage) => {
                let stage = self.stage(stage);
                self.stages[stage].cost_ns += cost_ns;
                stage
            }
            None => {
                let stage = self.new_stage(cost_ns, BTreeSet::new());
                self.source_stages.push(stage);
                stage
            }
        };
        self.root_of[node] = 1 << turn;
        self.stages[stage].root |= 1 << turn;
        stage
    }

    /// Inputs of a node that depend on the same source must come from one stage.
    fn merge_inputs(&mut self, before: &[usize]) {
        // Each input is compared with all before it together.
        let mut earlier: BTreeSet<usize> = BTreeSet::new();
        for &node in before {
            let own = self.stages_of(node);
            let shared = self.roots(&earlier) & self.roots(&own);
            earlier = earlier.iter().map(|&one| self.stage(one)).collect();
            earlier.extend(own);
            if shared != 0 {
                self.merge_between(&earlier, shared);
                earlier = earlier.iter().map(|&one| self.stage(one)).collect();
            }
        }
    }

    fn merge_between(&mut self, stages: &BTreeSet<usize>, shared: u64) {
        let mut open: Vec<usize> = stages.iter().copied().collect();
        let mut all: BTreeSet<usize> = BTreeSet::new();
        while let Some(stage) = open.pop() {
            let stage = self.stage(stage);
            if self.roots(&BTreeSet::from([stage])) & shared != 0 && all.insert(stage) {
                open.extend(&self.stages[stage].inputs);
            }
        }
        self.merge(all);
    }

    /// Two stages of one group, with all between them.
    fn unite(&mut self, one: usize, other: usize) {
        let both = BTreeSet::from([self.stage(one), self.stage(other)]);
        let [one, other] = [one, other].map(|stage| self.roots(&BTreeSet::from([stage])));
        match one & other {
            _ if both.len() < 2 => {}
            0 => self.merge(both),
            shared => self.merge_between(&both, shared),
        }
    }

    fn merge(&mut self, mut all: BTreeSet<usize>) {
        let Some(first) = all.pop_first() else {
            return;
        };
        for stage in all {
            let one = &mut self.stages[stage];
            one.merged_into = first;
            let (cost_ns, root, in_caller) = (one.cost_ns, one.root, one.in_caller);
            let inputs = std::mem::take(&mut one.inputs);
            let into = &mut self.stages[first];
            into.cost_ns += cost_ns;
            into.root |= root;
            into.in_caller |= in_caller;
            into.replication = Replication::None;
            into.inputs.extend(inputs);
        }
        let inputs = std::mem::take(&mut self.stages[first].inputs);
        let inputs = inputs.iter().map(|&one| self.stage(one));
        self.stages[first].inputs = inputs.filter(|&one| one != first).collect();
    }
}
