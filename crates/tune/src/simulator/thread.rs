//! Threads: working, looking for work, sleeping or unwanted.

use super::StageSchedule;
use super::cores::CoreUse;
use super::engine::Engine;
use super::events::Event;
use super::reorder::Item;
use super::stage_queue::BurstOutcome;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThreadState {
    /// On a core or waiting for one.
    Working,
    Looking,
    Idle,
    Waking,
    Retired,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Work {
    Item(Item),
    /// Nothing to compute.
    Nothing(BurstOutcome),
}

pub(super) struct SimulatedThread {
    pub(super) state: ThreadState,
    pub(super) work: Option<(usize, Work)>,
    pub(super) burst_left: usize,
    pub(super) core_use: CoreUse,
    pub(super) remaining: f64,
    pub(super) work_since: f64,
    pub(super) idle_since: f64,
    pub(super) version: u32,
}

impl SimulatedThread {
    fn new(core: usize) -> Self {
        Self {
            state: ThreadState::Retired,
            work: None,
            burst_left: 0,
            core_use: CoreUse::preferring(core),
            remaining: 0.0,
            work_since: 0.0,
            idle_since: 0.0,
            version: 0,
        }
    }
}

impl Engine {
    pub(super) fn wanted_threads(&self) -> usize {
        match self.machine.schedule {
            StageSchedule::ThreadPerStage => self.queue.entries.len(),
            _ if !self.helpers_began => 1,
            _ => self.configuration.workers.min(self.queue.entries.len()),
        }
    }

    pub(super) fn may_work(&self, thread: usize) -> bool {
        thread < self.wanted_threads()
    }

    pub(super) fn assign_threads(&mut self) {
        let wanted = self.wanted_threads();
        while self.threads.len() < wanted {
            let core = self.threads.len() % self.machine.cores;
            self.threads.push(SimulatedThread::new(core));
        }
        self.assign_owners();
        for thread in 0..self.threads.len() {
            match self.threads[thread].state {
                ThreadState::Idle => self.wake(thread),
                ThreadState::Retired if thread < wanted => self.begin_looking(thread),
                _ => {}
            }
        }
    }

    pub(super) fn begin_looking(&mut self, thread: usize) {
        self.threads[thread].state = ThreadState::Looking;
        self.looking.push_back(thread);
    }

    pub(super) fn begin_looking_first(&mut self, thread: usize) {
        self.threads[thread].state = ThreadState::Looking;
        self.looking.push_front(thread);
    }

    pub(super) fn wake(&mut self, thread: usize) {
        if let Some(at) = self.idle.iter().rposition(|&idle| idle == thread) {
            self.idle.remove(at);
        }
        let machine = &self.machine;
        let rested = self.now - self.threads[thread].idle_since;
        self.cpu_s += rested.min(machine.spin_s);
        if rested <= machine.spin_s || machine.wake_s == 0.0 {
            self.begin_looking(thread);
            return;
        }
        self.threads[thread].state = ThreadState::Waking;
        let event = Event::Wakes {
            thread: thread as u32,
        };
        self.events.push(self.now + machine.wake_s, event);
    }

    pub(super) fn rest(&mut self, thread: usize) {
        self.leave_core(thread);
        self.threads[thread].state = ThreadState::Idle;
        self.threads[thread].idle_since = self.now;
        let is_pooled = self.machine.schedule != StageSchedule::ThreadPerStage;
        if thread > 0 && is_pooled {
            self.idle.push(thread);
        }
    }

    /// What it was woken for goes to another.
    pub(super) fn retire_thread(&mut self, thread: usize) {
        self.leave_core(thread);
        self.threads[thread].state = ThreadState::Retired;
        let last = self.queue.entries.len() - 1;
        for end in [last, last + 1] {
            if let Some(entry) = self.queue.last_ready_below(end) {
                self.wake_for(entry);
            }
        }
    }
}
