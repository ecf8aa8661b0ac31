//! The order of one tasklet at a time, of which every run with more workers is a relaxation.
//!
//! Tasklets are taken by the place of their primary input on the disk. Whoever reads scratch comes as soon as it can after
//! what it reads, and what else it needs is brought forward, so that scratch is in use for a short time only. Where the
//! budget has room, such groups are done side by side, as many as half of it holds (64 MiB at most): then the disk is read in longer
//! stretches of one signal, and the next groups can begin while these are drained.

use crate::error::TaskletError;
use crate::graph::Graph;

/// Most scratch of groups that are done side by side: long enough stretches for any disk; with more, results would come late,
/// and scratch would leave the page cache before it is read.
const WIDEST: u64 = 64 << 20;

/// Which tasklet is taken first where dependencies leave a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// The one whose primary input lies first on the disk.
    #[default]
    Disk,
    /// The one that was added first.
    Given,
}

/// Why a tasklet has its place in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// By its primary input's place on the disk, or as it was added.
    Place,
    /// That tasklet needs it.
    NeededBy(usize),
    /// It reads scratch of that tasklet, which is then free.
    Drains(usize),
}

/// Tasklets one after another.
#[derive(Debug, Clone)]
pub struct Serial {
    /// The order.
    pub tasklets: Vec<usize>,
    /// Of each tasklet, by its number, its place in the order; `usize::MAX`: it is not run.
    pub place: Vec<usize>,
    /// Of each tasklet why.
    pub why: Vec<Why>,
    /// Bytes of scratch that are in use at each place, if it is done one after another.
    pub live: Vec<u64>,
    /// Of each tasklet the last place that reads its scratch, or its own.
    pub last: Vec<usize>,
}

impl Serial {
    /// The order of those tasklets that are not `kept` from an earlier run.
    ///
    /// # Errors
    /// [`TaskletError::ScratchTooSmall`].
    pub fn new(
        graph: &Graph,
        kept: &[bool],
        order: Order,
        budget: u64,
    ) -> Result<Self, TaskletError> {
        let mut placing = Placing::new(graph, kept, order);
        placing.all();
        let Placing {
            tasklets,
            units,
            why,
            keys,
            ..
        } = placing;
        if order == Order::Disk
            && let Some(wide) = widened(graph, &tasklets, &units, &keys, (budget / 2).min(WIDEST))
        {
            let wide = Self::of(graph, wide, why.clone());
            if wide.most().0 <= budget {
                return Ok(wide);
            }
        }
        let narrow = Self::of(graph, tasklets, why);
        let (needed, at) = narrow.most();
        if needed > budget {
            return Err(TaskletError::ScratchTooSmall {
                budget,
                needed,
                name: graph.names[narrow.tasklets[at]].clone(),
                order: match order {
                    Order::Disk => "",
                    Order::Given => {
                        " in the given order (that by disk position frees scratch early)"
                    }
                },
            });
        }
        Ok(narrow)
    }

    fn of(graph: &Graph, tasklets: Vec<usize>, why: Vec<Why>) -> Self {
        let mut place = vec![usize::MAX; graph.len()];
        for (at, tasklet) in tasklets.iter().enumerate() {
            place[*tasklet] = at;
        }
        let mut last = place.clone();
        let mut ends = vec![0u64; tasklets.len() + 1];
        let mut live = vec![0u64; tasklets.len()];
        for tasklet in &tasklets {
            let readers = graph.readers[*tasklet].iter().map(|reader| place[*reader]);
            let until = readers.filter(|at| *at != usize::MAX).max();
            last[*tasklet] = until.unwrap_or(0).max(place[*tasklet]);
            ends[last[*tasklet] + 1] += graph.scratch[*tasklet];
        }
        let mut now = 0;
        for (at, tasklet) in tasklets.iter().enumerate() {
            now = now + graph.scratch[*tasklet] - ends[at];
            live[at] = now;
        }
        Self {
            tasklets,
            place,
            why,
            live,
            last,
        }
    }

    /// Most scratch in use, and where.
    #[must_use]
    pub fn most(&self) -> (u64, usize) {
        let mut most = (0, 0);
        for (at, live) in self.live.iter().enumerate() {
            if *live > most.0 {
                most = (*live, at);
            }
        }
        most
    }
}

/// By what tasklets are sorted.
type Key = (usize, i64, usize);

struct Placing<'a> {
    graph: &'a Graph,
    order: Order,
    keys: Vec<Key>,
    /// In the order already, on the way to it, or not to be run.
    taken: Vec<bool>,
    /// In the order, or kept.
    placed: Vec<bool>,
    tasklets: Vec<usize>,
    /// Where in the order groups begin that have no scratch in common.
    units: Vec<usize>,
    why: Vec<Why>,
}

enum Step {
    Reach(usize, Why),
    Place(usize),
}

impl<'a> Placing<'a> {
    fn new(graph: &'a Graph, kept: &[bool], order: Order) -> Self {
        let key = |at: usize| match (order, graph.position[at]) {
            (Order::Given, _) => (0, 0, at),
            // What reads no stored signal makes work for others: first. What reads scratch comes when that is there.
            (Order::Disk, None) => (0, 0, at),
            (Order::Disk, Some((signal, start))) => (signal + 1, start, at),
        };
        Self {
            keys: (0..graph.len()).map(key).collect(),
            taken: kept.to_vec(),
            placed: kept.to_vec(),
            tasklets: Vec::new(),
            units: Vec::new(),
            why: vec![Why::Place; graph.len()],
            graph,
            order,
        }
    }

    fn all(&mut self) {
        let mut all: Vec<usize> = (0..self.graph.len())
            .filter(|at| !self.taken[*at])
            .collect();
        all.sort_by_key(|at| self.keys[*at]);
        // What reads only scratch has no place of its own on the disk.
        let drained = |at: &usize| {
            self.order == Order::Disk
                && self.graph.position[*at].is_none()
                && !self.graph.needs[*at].is_empty()
        };
        let (later, first): (Vec<usize>, Vec<usize>) = all.iter().partition(|at| drained(at));
        for at in first.into_iter().chain(later) {
            if !self.taken[at] {
                self.units.push(self.tasklets.len());
                self.reach(at);
            }
        }
    }

    /// Places a tasklet, before it what it needs, and behind it what frees its scratch. A stack of its own: chains may be
    /// long.
    fn reach(&mut self, root: usize) {
        let mut steps = vec![Step::Reach(root, Why::Place)];
        while let Some(step) = steps.pop() {
            match step {
                Step::Reach(at, why) => {
                    if std::mem::replace(&mut self.taken[at], true) {
                        continue;
                    }
                    self.why[at] = why;
                    steps.push(Step::Place(at));
                    self.push(&mut steps, &self.graph.needs[at], Why::NeededBy(at));
                }
                // What frees scratch may need something that is on its way itself: then it comes later.
                Step::Place(at) if self.graph.needs[at].iter().any(|need| !self.placed[*need]) => {
                    self.taken[at] = false;
                }
                Step::Place(at) => {
                    self.placed[at] = true;
                    self.tasklets.push(at);
                    if self.order == Order::Disk {
                        self.push(&mut steps, &self.graph.readers[at], Why::Drains(at));
                    }
                }
            }
        }
    }

    fn push(&self, steps: &mut Vec<Step>, list: &[usize], why: Why) {
        let mut list: Vec<usize> = list.iter().copied().filter(|at| !self.taken[*at]).collect();
        list.sort_by_key(|at| std::cmp::Reverse(self.keys[*at]));
        steps.extend(list.into_iter().map(|at| Step::Reach(at, why)));
    }
}

/// Groups side by side, as many as `room` holds; None if there is nothing to gain.
fn widened(
    graph: &Graph,
    tasklets: &[usize],
    units: &[usize],
    keys: &[Key],
    room: u64,
) -> Option<Vec<usize>> {
    let end = [tasklets.len()];
    let ends = units.iter().skip(1).chain(&end);
    let units: Vec<&[usize]> = units
        .iter()
        .zip(ends)
        .map(|(a, b)| &tasklets[*a..*b])
        .collect();
    let bytes = |unit: &[usize]| unit.iter().map(|at| graph.scratch[*at]).sum::<u64>();
    let mut wide = Vec::with_capacity(tasklets.len());
    let mut level = vec![0usize; graph.len()];
    let mut gained = false;
    let mut at = 0;
    while at < units.len() {
        let mut group = units[at].to_vec();
        let mut used = bytes(units[at]);
        at += 1;
        // A group without scratch is a tasklet in its place.
        while used > 0 && at < units.len() && bytes(units[at]) > 0 {
            let more = bytes(units[at]);
            if used + more > room {
                break;
            }
            group.extend_from_slice(units[at]);
            (used, at, gained) = (used + more, at + 1, true);
        }
        for tasklet in &group {
            let before = graph.needs[*tasklet]
                .iter()
                .map(|before| level[*before] + 1);
            level[*tasklet] = before.max().unwrap_or(0);
        }
        group.sort_by_key(|tasklet| (level[*tasklet], keys[*tasklet]));
        wide.extend(group);
    }
    gained.then_some(wide)
}
