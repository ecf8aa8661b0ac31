//! Task table: tasks waiting in the window, behind it, or running.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::{HostId, ObjectId, PlacementError, TaskId};

pub(crate) const NONE: u32 = u32::MAX;

pub(crate) type Objects = SmallVec<[ObjectId; 2]>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Ended,
    Backlog,
    Waiting,
    Running(HostId),
    /// Cancelled in the backlog, with its slot still queued.
    Cancelled,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Ended | Self::Cancelled => "ended",
            Self::Backlog | Self::Waiting => "waiting",
            Self::Running(_) => "running",
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Task {
    generation: u32,
    pub(crate) state: State,
    pub(crate) number: u64,
    pub(crate) entered: u64,
    pub(crate) group: u32,
    /// Sorted, without duplicates.
    pub(crate) objects: Objects,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskList {
    pub(crate) first: u32,
    pub(crate) last: u32,
}

impl TaskList {
    pub(crate) const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
    };
}

pub(crate) type Links = Vec<[u32; 2]>;

/// Inserts a task by its number: new ones at the end; returned ones are old, so searched from the front.
pub(crate) fn link(list: &mut TaskList, links: &mut Links, number: impl Fn(u32) -> u64, task: u32) {
    let (mut before, mut after) = (list.last, NONE);
    if before != NONE && number(before) > number(task) {
        (before, after) = (NONE, list.first);
        while number(after) < number(task) {
            (before, after) = (after, links[after as usize][1]);
        }
    }
    links[task as usize] = [before, after];
    match before {
        NONE => list.first = task,
        _ => links[before as usize][1] = task,
    }
    match after {
        NONE => list.last = task,
        _ => links[after as usize][0] = task,
    }
}

pub(crate) fn unlink(list: &mut TaskList, links: &mut Links, task: u32) {
    let [before, after] = links[task as usize];
    match before {
        NONE => list.first = after,
        _ => links[before as usize][1] = after,
    }
    match after {
        NONE => list.last = before,
        _ => links[after as usize][0] = before,
    }
}

#[derive(Debug, Clone)]
pub(crate) struct TaskTable {
    pub(crate) tasks: Vec<Task>,
    free: Vec<u32>,
    next_number: u64,
    backlog: VecDeque<u32>,
    backlog_count: usize,
    window: TaskList,
    links: Links,
    pub(crate) waiting: usize,
    pub(crate) running: usize,
    pub(crate) oldest_since: u64,
}

impl TaskTable {
    pub(crate) fn new() -> Self {
        Self {
            tasks: Vec::new(),
            free: Vec::new(),
            next_number: 0,
            backlog: VecDeque::new(),
            backlog_count: 0,
            window: TaskList::EMPTY,
            links: Vec::new(),
            waiting: 0,
            running: 0,
            oldest_since: 0,
        }
    }

    pub(crate) fn admit(&mut self, objects: &[ObjectId]) -> TaskId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.tasks.push(Task {
                generation: 0,
                state: State::Ended,
                number: 0,
                entered: 0,
                group: NONE,
                objects: Objects::new(),
            });
            self.links.push([NONE; 2]);
            (self.tasks.len() - 1) as u32
        });
        let task = &mut self.tasks[slot as usize];
        task.state = State::Backlog;
        task.number = self.next_number;
        self.next_number += 1;
        task.objects.clear();
        task.objects.extend_from_slice(objects);
        if !objects.is_sorted_by(|a, b| a < b) {
            task.objects.sort_unstable();
            task.objects.dedup();
        }
        self.backlog.push_back(slot);
        self.backlog_count += 1;
        self.id(slot)
    }

    pub(crate) fn enter(&mut self, size: usize, now: u64) -> Option<u32> {
        while self.waiting < size {
            let slot = self.backlog.pop_front()?;
            if self.tasks[slot as usize].state == State::Backlog {
                self.backlog_count -= 1;
                self.wait(slot, now);
                return Some(slot);
            }
            self.end(slot);
        }
        None
    }

    pub(crate) fn wait(&mut self, slot: u32, now: u64) {
        let task = &mut self.tasks[slot as usize];
        task.state = State::Waiting;
        task.entered = now;
        let number = |slot: u32| self.tasks[slot as usize].number;
        link(&mut self.window, &mut self.links, number, slot);
        self.waiting += 1;
        if self.window.first == slot {
            self.oldest_since = now;
        }
    }

    pub(crate) fn leave(&mut self, slot: u32, now: u64) {
        if self.window.first == slot {
            self.oldest_since = now;
        }
        unlink(&mut self.window, &mut self.links, slot);
        self.waiting -= 1;
    }

    pub(crate) fn cancel_backlog(&mut self, slot: u32) {
        self.tasks[slot as usize].state = State::Cancelled;
        self.backlog_count -= 1;
    }

    pub(crate) fn end(&mut self, slot: u32) {
        let task = &mut self.tasks[slot as usize];
        task.state = State::Ended;
        task.generation = task.generation.wrapping_add(1);
        self.free.push(slot);
    }

    pub(crate) fn oldest(&self) -> Option<u32> {
        (self.window.first != NONE).then_some(self.window.first)
    }

    pub(crate) fn backlog(&self) -> usize {
        self.backlog_count
    }

    pub(crate) fn id(&self, slot: u32) -> TaskId {
        TaskId {
            slot,
            generation: self.tasks[slot as usize].generation,
        }
    }

    pub(crate) fn state(
        &self,
        id: TaskId,
        expected: &'static str,
        allowed: impl Fn(State) -> bool,
    ) -> Result<State, PlacementError> {
        let task = self.tasks.get(id.slot as usize);
        let state = task
            .filter(|task| task.generation == id.generation)
            .map_or(State::Ended, |task| task.state);
        if allowed(state) {
            return Ok(state);
        }
        Err(PlacementError::TaskState {
            task: id.slot,
            generation: id.generation,
            state: state.name(),
            expected,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Task;

    #[test]
    fn task_memory_is_as_documented() {
        // Including its links here and in its group.
        assert!(std::mem::size_of::<Task>() + 16 <= 100);
    }
}
