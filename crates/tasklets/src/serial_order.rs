//! The serial order: tasklets as one worker runs them, with the scratch in use at each step.
//!
//! Several workers relax it within the scratch budget. Two passes:
//!
//! 1. Take tasklets by disk position of their primary input. Readers of scratch follow its writer, after their other
//!    dependencies.
//! 2. Interleave groups without common scratch, up to half of the budget, for longer reads.
//!
//! ```text
//!  pass 1:   fft a0, fft b0, add 0   |   fft a1, fft b1, add 1        (| separates groups)
//!  pass 2:   fft a0, fft a1, fft b0, fft b1, add 0, add 1
//! ```

use crate::error::TaskletError;
use crate::graph::DependencyGraph;

/// Long enough reads for any disk. More would delay the first results and leave the page cache.
const MAX_INTERLEAVED_SCRATCH: u64 = 64 << 20;

/// Choice among tasklets allowed by dependencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OrderPolicy {
    /// By disk position of the primary input.
    #[default]
    Disk,
    /// By order of addition.
    Given,
}

/// Reason for a tasklet's step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderReason {
    /// Disk position, or order added.
    ByPolicy,
    /// Needed by this tasklet.
    NeededBy(usize),
    /// Reads this tasklet's scratch, which can then be released.
    FreesScratch(usize),
}

/// The order of one worker. A *step* is a position in it.
#[derive(Debug, Clone)]
pub struct SerialOrder {
    /// Tasklet of each step.
    pub tasklets: Vec<usize>,
    /// Step of each tasklet; `usize::MAX`: not executed.
    pub step: Vec<usize>,
    /// Reason for each tasklet's step.
    pub reason: Vec<OrderReason>,
    /// Scratch bytes in use at each step.
    pub scratch_in_use: Vec<u64>,
    /// Last step that reads a tasklet's scratch, or its own.
    pub release_step: Vec<usize>,
}

impl SerialOrder {
    /// Orders the tasklets not `kept` from a previous execution.
    ///
    /// # Errors
    /// [`TaskletError::ScratchTooSmall`].
    pub fn new(
        graph: &DependencyGraph,
        kept: &[bool],
        policy: OrderPolicy,
        budget: u64,
    ) -> Result<Self, TaskletError> {
        let mut builder = OrderBuilder::new(graph, kept, policy);
        builder.place_all();
        let OrderBuilder {
            tasklets,
            group_starts,
            reason,
            keys,
            ..
        } = builder;
        let max_scratch = (budget / 2).min(MAX_INTERLEAVED_SCRATCH);
        if policy == OrderPolicy::Disk
            && let Some(tasklets) =
                interleave_groups(graph, &tasklets, &group_starts, &keys, max_scratch)
        {
            let interleaved = Self::with_steps(graph, tasklets, reason.clone());
            if interleaved.peak_scratch().0 <= budget {
                return Ok(interleaved);
            }
        }
        let order = Self::with_steps(graph, tasklets, reason);
        let (needed, step) = order.peak_scratch();
        if needed > budget {
            return Err(TaskletError::ScratchTooSmall {
                budget,
                needed,
                name: graph.names[order.tasklets[step]].clone(),
                order: match policy {
                    OrderPolicy::Disk => "",
                    OrderPolicy::Given => {
                        " in the given order (that by disk position frees scratch early)"
                    }
                },
            });
        }
        Ok(order)
    }

    fn with_steps(graph: &DependencyGraph, tasklets: Vec<usize>, reason: Vec<OrderReason>) -> Self {
        let mut step = vec![usize::MAX; graph.len()];
        for (at, tasklet) in tasklets.iter().enumerate() {
            step[*tasklet] = at;
        }
        let mut release_step = step.clone();
        let mut released_at = vec![0u64; tasklets.len() + 1];
        for tasklet in &tasklets {
            let readers = graph.scratch_readers[*tasklet].iter();
            let last_read = readers
                .map(|reader| step[*reader])
                .filter(|step| *step != usize::MAX)
                .max();
            release_step[*tasklet] = last_read.unwrap_or(0).max(step[*tasklet]);
            released_at[release_step[*tasklet] + 1] += graph.scratch_bytes[*tasklet];
        }
        let mut scratch_in_use = vec![0u64; tasklets.len()];
        let mut bytes = 0;
        for (at, tasklet) in tasklets.iter().enumerate() {
            bytes = bytes + graph.scratch_bytes[*tasklet] - released_at[at];
            scratch_in_use[at] = bytes;
        }
        Self {
            tasklets,
            step,
            reason,
            scratch_in_use,
            release_step,
        }
    }

    /// Maximum scratch in use, and the first such step.
    #[must_use]
    pub fn peak_scratch(&self) -> (u64, usize) {
        let mut peak = (0, 0);
        for (step, bytes) in self.scratch_in_use.iter().enumerate() {
            if *bytes > peak.0 {
                peak = (*bytes, step);
            }
        }
        peak
    }
}

type SortKey = (usize, i64, usize);

struct OrderBuilder<'a> {
    graph: &'a DependencyGraph,
    policy: OrderPolicy,
    keys: Vec<SortKey>,
    entered: Vec<bool>,
    placed: Vec<bool>,
    tasklets: Vec<usize>,
    group_starts: Vec<usize>,
    reason: Vec<OrderReason>,
}

enum DfsEvent {
    Enter(usize, OrderReason),
    /// Append it, as its dependencies were visited.
    Exit(usize),
}

impl<'a> OrderBuilder<'a> {
    fn new(graph: &'a DependencyGraph, kept: &[bool], policy: OrderPolicy) -> Self {
        let key = |at: usize| match (policy, graph.disk_position[at]) {
            (OrderPolicy::Given, _) => (0, 0, at),
            // A tasklet that reads nothing produces input for others.
            (OrderPolicy::Disk, None) => (0, 0, at),
            (OrderPolicy::Disk, Some((signal, start))) => (signal + 1, start, at),
        };
        Self {
            keys: (0..graph.len()).map(key).collect(),
            entered: kept.to_vec(),
            placed: kept.to_vec(),
            tasklets: Vec::new(),
            group_starts: Vec::new(),
            reason: vec![OrderReason::ByPolicy; graph.len()],
            graph,
            policy,
        }
    }

    fn place_all(&mut self) {
        let mut roots: Vec<usize> = (0..self.graph.len())
            .filter(|at| !self.entered[*at])
            .collect();
        roots.sort_by_key(|at| self.keys[*at]);
        // Without a disk position, it follows the writers of its scratch.
        let reads_only_scratch = |at: &usize| {
            self.policy == OrderPolicy::Disk
                && self.graph.disk_position[*at].is_none()
                && !self.graph.dependencies[*at].is_empty()
        };
        let (later, first): (Vec<usize>, Vec<usize>) =
            roots.iter().partition(|at| reads_only_scratch(at));
        for root in first.into_iter().chain(later) {
            if !self.entered[root] {
                self.group_starts.push(self.tasklets.len());
                self.place_group(root);
            }
        }
    }

    /// Places a tasklet between its dependencies and the readers of its scratch. Not recursive: chains may be long.
    fn place_group(&mut self, root: usize) {
        let mut stack = vec![DfsEvent::Enter(root, OrderReason::ByPolicy)];
        while let Some(event) = stack.pop() {
            match event {
                DfsEvent::Enter(at, reason) => {
                    if std::mem::replace(&mut self.entered[at], true) {
                        continue;
                    }
                    self.reason[at] = reason;
                    stack.push(DfsEvent::Exit(at));
                    let dependencies = &self.graph.dependencies[at];
                    self.push(&mut stack, dependencies, OrderReason::NeededBy(at));
                }
                // A dependency is further down the stack: revisit later.
                DfsEvent::Exit(at) if !self.dependencies_are_placed(at) => {
                    self.entered[at] = false;
                }
                DfsEvent::Exit(at) => {
                    self.placed[at] = true;
                    self.tasklets.push(at);
                    if self.policy == OrderPolicy::Disk {
                        let readers = &self.graph.scratch_readers[at];
                        self.push(&mut stack, readers, OrderReason::FreesScratch(at));
                    }
                }
            }
        }
    }

    fn dependencies_are_placed(&self, at: usize) -> bool {
        let mut dependencies = self.graph.dependencies[at].iter();
        dependencies.all(|dependency| self.placed[*dependency])
    }

    fn push(&self, stack: &mut Vec<DfsEvent>, list: &[usize], reason: OrderReason) {
        let unvisited = list.iter().copied().filter(|at| !self.entered[*at]);
        let mut unvisited: Vec<usize> = unvisited.collect();
        unvisited.sort_by_key(|at| std::cmp::Reverse(self.keys[*at]));
        stack.extend(unvisited.into_iter().map(|at| DfsEvent::Enter(at, reason)));
    }
}

/// None if no two adjacent groups fit.
fn interleave_groups(
    graph: &DependencyGraph,
    tasklets: &[usize],
    group_starts: &[usize],
    keys: &[SortKey],
    max_scratch: u64,
) -> Option<Vec<usize>> {
    let last_end = [tasklets.len()];
    let ends = group_starts.iter().skip(1).chain(&last_end);
    let groups: Vec<&[usize]> = group_starts
        .iter()
        .zip(ends)
        .map(|(start, end)| &tasklets[*start..*end])
        .collect();
    let scratch_of =
        |group: &[usize]| -> u64 { group.iter().map(|at| graph.scratch_bytes[*at]).sum() };
    let mut order = Vec::with_capacity(tasklets.len());
    // Longest dependency chain; any order is valid within a level.
    let mut level = vec![0usize; graph.len()];
    let mut is_interleaved = false;
    let mut next = 0;
    while next < groups.len() {
        let mut merged = groups[next].to_vec();
        let mut bytes = scratch_of(groups[next]);
        next += 1;
        while bytes > 0 && next < groups.len() && scratch_of(groups[next]) > 0 {
            let more = scratch_of(groups[next]);
            if bytes + more > max_scratch {
                break;
            }
            merged.extend_from_slice(groups[next]);
            (bytes, next, is_interleaved) = (bytes + more, next + 1, true);
        }
        for tasklet in &merged {
            let dependencies = graph.dependencies[*tasklet].iter();
            let longest = dependencies.map(|dependency| level[*dependency] + 1).max();
            level[*tasklet] = longest.unwrap_or(0);
        }
        merged.sort_by_key(|tasklet| (level[*tasklet], keys[*tasklet]));
        order.extend(merged);
    }
    is_interleaved.then_some(order)
}
