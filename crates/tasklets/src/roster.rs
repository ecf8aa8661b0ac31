//! Which tasklet may run next: the state of a run without its threads.
//!
//! A tasklet may begin when all that it needs is done. One that writes scratch has to leave room besides: *all that comes
//! before it in the serial order could still be done one by one within the budget*. So the first unfinished tasklet of that
//! order may always begin, since what it needs is before it, and a run cannot block itself; and whatever else has room
//! begins on any worker that is free. Of those that run in turn only one runs at a time: the others are left where they are,
//! and never handed to a worker that would then wait.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::graph::Graph;
use crate::ledger::Ledger;
use crate::order::Serial;

/// What became of a tasklet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It waits for others, for room or for a worker.
    Waiting,
    /// A worker has it.
    Running,
    /// It is done.
    Done,
    /// It was done in an earlier run.
    Kept,
    /// It failed.
    Failed,
    /// It needs this one, which failed.
    NotRun(usize),
}

impl State {
    fn is_over(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}

/// What a worker that is free should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Run this.
    Run(usize),
    /// Wait until another worker has ended something.
    Wait,
    /// Go home.
    End,
}

/// Tasklets whose needs are done.
#[derive(Debug, Clone, Default)]
struct Queue {
    /// Places of those that wait for a worker only.
    ready: BTreeSet<usize>,
    /// Places of those that wait for room besides.
    writers: BTreeSet<usize>,
}

/// The state of a run.
#[derive(Debug, Clone)]
pub struct Roster {
    graph: Arc<Graph>,
    serial: Arc<Serial>,
    budget: i128,
    state: Vec<State>,
    /// How many tasklets each still waits for.
    waits: Vec<usize>,
    /// How many still have to read the scratch of each.
    readers: Vec<usize>,
    /// Of those that run whenever they can, and of those that run in turn, who waits for a worker.
    queues: [Queue; 2],
    /// Of those that run in turn one is running.
    taken: bool,
    /// Least that any tasklet writes to scratch.
    least: i128,
    /// First place whose tasklet is not over.
    frontier: usize,
    ledger: Ledger,
    running: usize,
    over: usize,
    /// Bytes of scratch that are in use, and were at most.
    live: u64,
    peak: u64,
    stopped: bool,
}

impl Roster {
    /// A run of the tasklets of an order that was found for this budget; the others are kept.
    #[must_use]
    pub fn new(graph: impl Into<Arc<Graph>>, serial: impl Into<Arc<Serial>>, budget: u64) -> Self {
        let (graph, serial) = (graph.into(), serial.into());
        let kept: Vec<bool> = serial
            .place
            .iter()
            .map(|place| *place == usize::MAX)
            .collect();
        let remaining = |list: &Vec<usize>| list.iter().filter(|at| !kept[**at]).count();
        let state = kept
            .iter()
            .map(|kept| if *kept { State::Kept } else { State::Waiting });
        let mut roster = Self {
            budget: i128::from(budget),
            state: state.collect(),
            waits: graph.needs.iter().map(remaining).collect(),
            readers: graph.readers.iter().map(remaining).collect(),
            queues: Default::default(),
            taken: false,
            least: graph
                .scratch
                .iter()
                .filter(|bytes| **bytes > 0)
                .min()
                .copied()
                .unwrap_or(0)
                .into(),
            frontier: 0,
            ledger: Ledger::new(&serial.live),
            running: 0,
            over: kept.iter().filter(|kept| **kept).count(),
            live: 0,
            peak: 0,
            stopped: false,
            graph,
            serial,
        };
        let free: Vec<usize> = roster
            .serial
            .tasklets
            .iter()
            .copied()
            .filter(|at| roster.waits[*at] == 0)
            .collect();
        free.into_iter().for_each(|at| roster.is_ready(at));
        roster
    }

    /// What a free worker should do; a tasklet that it is given counts as begun.
    pub fn take(&mut self) -> Next {
        if self.stopped || self.over == self.graph.len() {
            return Next::End;
        }
        let (any, in_turn) = (&self.queues[0], &self.queues[1]);
        let first = self.first(any, usize::MAX);
        let in_turn = (!self.taken).then(|| self.first(in_turn, first.unwrap_or(usize::MAX)));
        let Some(place) = in_turn.flatten().or(first) else {
            // Something is running: the first unfinished tasklet is, or could begin, or it is not its turn.
            return Next::Wait;
        };
        let tasklet = self.serial.tasklets[place];
        let queue = self.queue(tasklet);
        queue.ready.remove(&place);
        queue.writers.remove(&place);
        self.taken |= self.graph.in_turn[tasklet];
        self.state[tasklet] = State::Running;
        self.running += 1;
        let bytes = self.graph.scratch[tasklet];
        self.ledger.add(0..place, bytes.into());
        self.live += bytes;
        self.peak = self.peak.max(self.live);
        Next::Run(tasklet)
    }

    /// The first of a queue before a place that could begin.
    fn first(&self, queue: &Queue, before: usize) -> Option<usize> {
        let free = queue.ready.first().copied().filter(|place| *place < before);
        let writer = self.admissible(&queue.writers, free.unwrap_or(before));
        writer.or(free)
    }

    /// The first writer of scratch before a place that has room.
    fn admissible(&self, writers: &BTreeSet<usize>, before: usize) -> Option<usize> {
        for place in writers.range(..before) {
            let most = self.ledger.most(self.frontier..*place);
            let bytes: i128 = self.graph.scratch[self.serial.tasklets[*place]].into();
            if self.frontier == *place || most + bytes <= self.budget {
                return Some(*place);
            }
            // Further on there is no less in use.
            if most + self.least > self.budget {
                return None;
            }
        }
        None
    }

    /// A tasklet is done. Gives those whose scratch nobody needs any more.
    pub fn done(&mut self, tasklet: usize) -> Vec<usize> {
        self.running -= 1;
        let mut released = Vec::new();
        self.end(tasklet, State::Done, &mut released);
        let graph = Arc::clone(&self.graph);
        for after in &graph.needed_by[tasklet] {
            self.waits[*after] -= 1;
            if self.waits[*after] == 0 && self.state[*after] == State::Waiting {
                self.is_ready(*after);
            }
        }
        released
    }

    /// A tasklet failed: those that need it, directly or not, are not run. Gives those whose scratch nobody needs any more.
    pub fn failed(&mut self, tasklet: usize) -> Vec<usize> {
        self.running -= 1;
        let mut released = Vec::new();
        let mut lost = vec![tasklet];
        self.end(tasklet, State::Failed, &mut released);
        while let Some(before) = lost.pop() {
            for after in self.graph.needed_by[before].clone() {
                if self.state[after] == State::Waiting {
                    self.end(after, State::NotRun(tasklet), &mut released);
                    lost.push(after);
                }
            }
        }
        released
    }

    /// No tasklet begins any more; those that run may end.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    fn is_ready(&mut self, tasklet: usize) {
        let place = self.serial.place[tasklet];
        let bytes = self.graph.scratch[tasklet];
        let queue = self.queue(tasklet);
        match bytes {
            0 => queue.ready.insert(place),
            _ => queue.writers.insert(place),
        };
    }

    /// Where a tasklet waits for a worker.
    fn queue(&mut self, tasklet: usize) -> &mut Queue {
        &mut self.queues[usize::from(self.graph.in_turn[tasklet])]
    }

    /// A tasklet is over, in whichever way.
    fn end(&mut self, tasklet: usize, state: State, released: &mut Vec<usize>) {
        let began = std::mem::replace(&mut self.state[tasklet], state) == State::Running;
        self.over += 1;
        if began && self.graph.in_turn[tasklet] {
            self.taken = false;
        }
        let (place, last) = (self.serial.place[tasklet], self.serial.last[tasklet]);
        let bytes: i128 = self.graph.scratch[tasklet].into();
        if !began {
            self.ledger.add(place..last + 1, -bytes);
        } else if state == State::Failed || self.readers[tasklet] == 0 {
            self.release(tasklet, released);
        }
        let graph = Arc::clone(&self.graph);
        for before in &graph.needs[tasklet] {
            if graph.readers[*before].binary_search(&tasklet).is_ok() {
                self.readers[*before] -= 1;
                if self.readers[*before] == 0 && self.state[*before] == State::Done {
                    self.release(*before, released);
                }
            }
        }
        let over = |place: &usize| self.state[self.serial.tasklets[*place]].is_over();
        self.frontier = (self.frontier..self.serial.tasklets.len())
            .find(|place| !over(place))
            .unwrap_or(self.serial.tasklets.len());
    }

    fn release(&mut self, tasklet: usize, released: &mut Vec<usize>) {
        let bytes = self.graph.scratch[tasklet];
        if bytes > 0 {
            self.ledger
                .add(0..self.serial.last[tasklet] + 1, -i128::from(bytes));
            self.live -= bytes;
            released.push(tasklet);
        }
    }

    /// What became of a tasklet.
    #[must_use]
    pub fn state(&self, tasklet: usize) -> State {
        self.state[tasklet]
    }

    /// The order that it follows.
    #[must_use]
    pub fn serial(&self) -> &Serial {
        &self.serial
    }

    /// Tasklets that are over, those kept included, and all.
    #[must_use]
    pub fn progress(&self) -> (usize, usize) {
        (self.over, self.graph.len())
    }

    /// Most bytes of scratch that were in use at a time.
    #[must_use]
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// How many tasklets run now.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running
    }
}
