//! [`StagePlan::of`], [`StagePlan::with_cells`], [`StagePlan::instead_of_tasks`]: whether a plan is cut into stages.

use super::block_subgraph::too_little_memory;
use super::stage_builder::StageBuilder;
use super::stage_costs::{computes_much, expected_ns};
use super::stage_plan::{Replication, StagePlan};
use crate::engine::{PlanCuts, RunOptions};
use crate::plan::graph::Graph;
use crate::scheduler::subgraph::SubgraphPlan;
use crate::{Resource, RunError};

/// Plans are not cut with less: links could hold what is needed elsewhere.
const MIN_MEMORY: u64 = 4 << 20;
/// Number of workers for which a plan is cut where results depend on cells.
const WORKERS_OF_CELLS: usize = 8;

impl StagePlan {
    /// The error says why the plan is not cut.
    pub(crate) fn of(graph: &Graph, options: &RunOptions<'_>) -> Result<Self, &'static str> {
        Self::check(options)?;
        let options = RunOptions {
            tolerance: 0.0,
            ..*options
        };
        let stages = StageBuilder::new(graph, &options).build()?;
        match stages.has_room_for_items(graph, &options) {
            true => Ok(stages),
            false => Err(
                "half of memory= has no room for the largest item of each link between stages; raise memory=, or scan with a shorter segment=",
            ),
        }
    }

    fn check(options: &RunOptions<'_>) -> Result<(), &'static str> {
        if options.memory < MIN_MEMORY {
            return Err(
                "memory= has no room for what stages pass to each other; give 4 MiB or more",
            );
        }
        Ok(())
    }

    /// Stages of a plan in which an operator settles and no task computes it: the same for any number of workers. None
    /// without such an operator.
    ///
    /// # Errors
    /// Too little memory: without cells results would differ.
    pub(crate) fn with_cells(
        graph: &Graph,
        options: &RunOptions<'_>,
        subgraph_plans: &[SubgraphPlan],
    ) -> Result<Option<Self>, RunError> {
        if !options.allows_settling() {
            return Ok(None);
        }
        let mut in_tasks = subgraph_plans.iter();
        if in_tasks.any(|plan| plan.settles() && plan.task_size(graph, options).is_some()) {
            return Ok(None);
        }
        let for_all = RunOptions {
            workers: WORKERS_OF_CELLS,
            cut_rule: None,
            ..*options
        };
        let Ok(stages) = StageBuilder::new(graph, &for_all).build() else {
            return Ok(None);
        };
        let mut replication = stages.replication.iter();
        let Some(in_cells) = replication.position(|one| *one == Replication::Cells) else {
            return Ok(None);
        };
        match Self::check(options) {
            Ok(()) => Ok(Some(stages)),
            Err(_) => {
                let node = stages.stages[in_cells][0];
                let name = graph.nodes[node].op.name();
                Err(too_little_memory(name, node, MIN_MEMORY, options))
            }
        }
    }

    /// Whether tasks are better in any case: cuts would show in results, workers decode samples, or worker processes call
    /// functions.
    pub(super) fn is_excluded_by_tasks(
        graph: &Graph,
        options: &RunOptions<'_>,
        subgraph_plans: &[SubgraphPlan],
    ) -> bool {
        let may_have_tasks = options.cuts == PlanCuts::Any || options.allows_settling();
        let mut in_tasks = subgraph_plans
            .iter()
            .filter(|plan| may_have_tasks && plan.task_size(graph, options).is_some());
        in_tasks.any(|plan| {
            let mut nodes = plan.nodes.iter().map(|one| &graph.nodes[one.node]);
            options.allows_settling()
                || plan.decodes(graph)
                || nodes.any(|node| node.properties.needs == Resource::Interpreter)
        })
    }

    /// Stages of a plan with several operators that tasks would leave to one thread, although they can work at the same
    /// time; replicas then compute what tasks would. None if tasks are better: at most one such operator, samples that
    /// workers decode, functions that worker processes call, or cuts that show in results.
    pub(crate) fn instead_of_tasks(
        graph: &Graph,
        options: &RunOptions<'_>,
        subgraph_plans: &[SubgraphPlan],
    ) -> Option<Self> {
        let is_excluded = Self::is_excluded_by_tasks(graph, options, subgraph_plans);
        if options.workers < 2 || options.allows_settling() || is_excluded {
            return None;
        }
        let mut in_tasks = vec![false; graph.nodes.len()];
        for plan in subgraph_plans {
            if plan.task_size(graph, options).is_some() {
                let nodes = plan.nodes.iter();
                nodes.for_each(|one| in_tasks[one.node] = true);
            }
        }
        let stages = Self::of(graph, options).ok()?;
        // What tasks would compute must gain from as many threads.
        let entries = stages.computing(&stages.entries(options.workers));
        let mut nodes = in_tasks.iter().enumerate();
        let has_replicas = |node: usize| entries[stages.stage_of[node]].len() > 1;
        // As declared, also where costs were measured: a configuration of tasks has no cuts, and must find tasks again.
        let expected = expected_ns(graph);
        if nodes.any(|(node, &in_tasks)| {
            in_tasks && computes_much(expected[node]) && !has_replicas(node)
        }) {
            return None;
        }
        let left = |stage: &&Vec<usize>| {
            let mut nodes = stage.iter();
            nodes.any(|&node| !in_tasks[node] && computes_much(expected[node]))
        };
        let tasks = in_tasks.contains(&true);
        (tasks && stages.stages.iter().filter(left).count() > 1).then_some(stages)
    }
}
