//! Decides which tasklet may start next, without threads.
//!
//! A tasklet may start when its dependencies are done. If it writes scratch, the budget must still allow *executing all
//! tasklets before it in the serial order one by one*. So the first unfinished tasklet may always start: no deadlock.
//!
//! ```text
//!  step of the serial order    0     1     2     3     4     5
//!                            done  runs  slow  ready ready waits
//!                                    ^first unfinished step
//!
//!  Step 4 may start if, for each of the steps 1, 2 and 3:
//!    scratch in use at that step of the serial order + scratch of tasklets that started early + its own <= budget
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::graph::DependencyGraph;
use crate::segment_tree::SegmentTree;
use crate::serial_order::SerialOrder;

/// State of a tasklet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskletState {
    /// Waiting for dependencies, scratch or a worker.
    Waiting,
    /// A worker runs it.
    Running,
    /// Succeeded.
    Done,
    /// Kept from a previous execution.
    Kept,
    /// Failed.
    Failed,
    /// Depends on this failed tasklet.
    NotRun(usize),
}

impl TaskletState {
    fn is_finished(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}

/// Next action of an idle worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assignment {
    /// Run this tasklet.
    Run(usize),
    /// Ask again when a tasklet has finished.
    Wait,
    /// Nothing is left to start.
    Finished,
}

#[derive(Debug, Clone, Default)]
struct ReadyQueue {
    without_scratch: BTreeSet<usize>,
    with_scratch: BTreeSet<usize>,
}

/// Decides which tasklet starts next.
#[derive(Debug, Clone)]
pub struct TaskletScheduler {
    graph: Arc<DependencyGraph>,
    serial: Arc<SerialOrder>,
    budget: i128,
    state: Vec<TaskletState>,
    unmet_dependencies: Vec<usize>,
    pending_readers: Vec<usize>,
    /// Ready tasklets: non-exclusive, then exclusive ones.
    queues: [ReadyQueue; 2],
    exclusive_running: bool,
    min_scratch: i128,
    first_unfinished_step: usize,
    /// Per step: scratch in use if the remaining tasklets run one by one.
    scratch_by_step: SegmentTree,
    running: usize,
    finished: usize,
    scratch_in_use: u64,
    peak_scratch: u64,
    stopped: bool,
}

impl TaskletScheduler {
    /// `serial` must be an order for the same scratch budget. Missing tasklets count as kept.
    #[must_use]
    pub fn new(
        graph: impl Into<Arc<DependencyGraph>>,
        serial: impl Into<Arc<SerialOrder>>,
        budget: u64,
    ) -> Self {
        let (graph, serial) = (graph.into(), serial.into());
        let kept: Vec<bool> = serial.step.iter().map(|step| *step == usize::MAX).collect();
        let count_remaining = |list: &Vec<usize>| list.iter().filter(|at| !kept[**at]).count();
        let state = kept.iter().map(|kept| {
            if *kept {
                TaskletState::Kept
            } else {
                TaskletState::Waiting
            }
        });
        let scratch = graph.scratch_bytes.iter().copied();
        let min_scratch = scratch.filter(|bytes| *bytes > 0).min().unwrap_or(0);
        let mut scheduler = Self {
            budget: i128::from(budget),
            state: state.collect(),
            unmet_dependencies: graph.dependencies.iter().map(count_remaining).collect(),
            pending_readers: graph.scratch_readers.iter().map(count_remaining).collect(),
            queues: Default::default(),
            exclusive_running: false,
            min_scratch: min_scratch.into(),
            first_unfinished_step: 0,
            scratch_by_step: SegmentTree::new(&serial.scratch_in_use),
            running: 0,
            finished: kept.iter().filter(|kept| **kept).count(),
            scratch_in_use: 0,
            peak_scratch: 0,
            stopped: false,
            graph,
            serial,
        };
        let tasklets = scheduler.serial.tasklets.iter().copied();
        let ready: Vec<usize> = tasklets
            .filter(|at| scheduler.unmet_dependencies[*at] == 0)
            .collect();
        ready.into_iter().for_each(|at| scheduler.enqueue(at));
        scheduler
    }

    /// The next action of an idle worker. A returned tasklet counts as started.
    pub fn assign(&mut self) -> Assignment {
        if self.stopped || self.finished == self.graph.len() {
            return Assignment::Finished;
        }
        let [shared, exclusive] = &self.queues;
        let first_shared = self.first_startable(shared, usize::MAX);
        let first_exclusive = if self.exclusive_running {
            None
        } else {
            self.first_startable(exclusive, first_shared.unwrap_or(usize::MAX))
        };
        let Some(step) = first_exclusive.or(first_shared) else {
            // A worker is busy: the first unfinished tasklet runs, may start, or waits for an exclusive one.
            return Assignment::Wait;
        };
        let tasklet = self.serial.tasklets[step];
        let queue = self.queue_of(tasklet);
        queue.without_scratch.remove(&step);
        queue.with_scratch.remove(&step);
        self.exclusive_running |= self.graph.exclusive[tasklet];
        self.state[tasklet] = TaskletState::Running;
        self.running += 1;
        let bytes = self.graph.scratch_bytes[tasklet];
        // The serial order counts it from the tasklet's own step; now it is in use at all earlier ones, too.
        self.scratch_by_step.add(0..step, bytes.into());
        self.scratch_in_use += bytes;
        self.peak_scratch = self.peak_scratch.max(self.scratch_in_use);
        Assignment::Run(tasklet)
    }

    fn first_startable(&self, queue: &ReadyQueue, before: usize) -> Option<usize> {
        let first = queue.without_scratch.first().copied();
        let first = first.filter(|step| *step < before);
        let writer = self.first_that_fits(&queue.with_scratch, first.unwrap_or(before));
        writer.or(first)
    }

    fn first_that_fits(&self, steps: &BTreeSet<usize>, before: usize) -> Option<usize> {
        for step in steps.range(..before) {
            let peak = self.scratch_by_step.max(self.first_unfinished_step..*step);
            let bytes: i128 = self.graph.scratch_bytes[self.serial.tasklets[*step]].into();
            if self.first_unfinished_step == *step || peak + bytes <= self.budget {
                return Some(*step);
            }
            // A longer range has no smaller peak.
            if peak + self.min_scratch > self.budget {
                return None;
            }
        }
        None
    }

    /// Marks a running tasklet as done. Returns tasklets whose scratch can be released.
    pub fn complete(&mut self, tasklet: usize) -> Vec<usize> {
        self.running -= 1;
        let mut released = Vec::new();
        self.finish(tasklet, TaskletState::Done, &mut released);
        let graph = Arc::clone(&self.graph);
        for dependent in &graph.dependents[tasklet] {
            self.unmet_dependencies[*dependent] -= 1;
            if self.unmet_dependencies[*dependent] == 0
                && self.state[*dependent] == TaskletState::Waiting
            {
                self.enqueue(*dependent);
            }
        }
        released
    }

    /// Marks a running tasklet as failed and its dependents as not run. Returns as [`complete`](Self::complete).
    pub fn fail(&mut self, tasklet: usize) -> Vec<usize> {
        self.running -= 1;
        let mut released = Vec::new();
        let mut unvisited = vec![tasklet];
        self.finish(tasklet, TaskletState::Failed, &mut released);
        while let Some(failed) = unvisited.pop() {
            for dependent in self.graph.dependents[failed].clone() {
                if self.state[dependent] == TaskletState::Waiting {
                    self.finish(dependent, TaskletState::NotRun(tasklet), &mut released);
                    unvisited.push(dependent);
                }
            }
        }
        released
    }

    /// Starts no more tasklets. Running ones may finish.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    fn enqueue(&mut self, tasklet: usize) {
        let step = self.serial.step[tasklet];
        let bytes = self.graph.scratch_bytes[tasklet];
        let queue = self.queue_of(tasklet);
        match bytes {
            0 => queue.without_scratch.insert(step),
            _ => queue.with_scratch.insert(step),
        };
    }

    fn queue_of(&mut self, tasklet: usize) -> &mut ReadyQueue {
        &mut self.queues[usize::from(self.graph.exclusive[tasklet])]
    }

    fn finish(&mut self, tasklet: usize, state: TaskletState, released: &mut Vec<usize>) {
        let previous = std::mem::replace(&mut self.state[tasklet], state);
        let was_running = previous == TaskletState::Running;
        self.finished += 1;
        if was_running && self.graph.exclusive[tasklet] {
            self.exclusive_running = false;
        }
        if !was_running {
            let steps = self.serial.step[tasklet]..self.serial.release_step[tasklet] + 1;
            let bytes = i128::from(self.graph.scratch_bytes[tasklet]);
            self.scratch_by_step.add(steps, -bytes);
        } else if state == TaskletState::Failed || self.pending_readers[tasklet] == 0 {
            self.release(tasklet, released);
        }
        let graph = Arc::clone(&self.graph);
        for dependency in &graph.dependencies[tasklet] {
            if graph.scratch_readers[*dependency]
                .binary_search(&tasklet)
                .is_ok()
            {
                self.pending_readers[*dependency] -= 1;
                if self.pending_readers[*dependency] == 0
                    && self.state[*dependency] == TaskletState::Done
                {
                    self.release(*dependency, released);
                }
            }
        }
        let steps = self.serial.tasklets.len();
        let is_finished = |step: &usize| self.state[self.serial.tasklets[*step]].is_finished();
        self.first_unfinished_step = (self.first_unfinished_step..steps)
            .find(|step| !is_finished(step))
            .unwrap_or(steps);
    }

    fn release(&mut self, tasklet: usize, released: &mut Vec<usize>) {
        let bytes = self.graph.scratch_bytes[tasklet];
        if bytes > 0 {
            let steps = 0..self.serial.release_step[tasklet] + 1;
            self.scratch_by_step.add(steps, -i128::from(bytes));
            self.scratch_in_use -= bytes;
            released.push(tasklet);
        }
    }

    /// The state of a tasklet.
    #[must_use]
    pub fn state(&self, tasklet: usize) -> TaskletState {
        self.state[tasklet]
    }

    /// The serial order.
    #[must_use]
    pub fn serial(&self) -> &SerialOrder {
        &self.serial
    }

    /// Finished tasklets, including kept ones, and total.
    #[must_use]
    pub fn progress(&self) -> (usize, usize) {
        (self.finished, self.graph.len())
    }

    /// Peak bytes of scratch.
    #[must_use]
    pub fn peak_scratch(&self) -> u64 {
        self.peak_scratch
    }

    /// Number of running tasklets.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running
    }
}
