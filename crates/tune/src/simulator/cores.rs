//! Cores: running and waiting tasks, time slices.
//!
//! A free core goes to the task that has used the least time; a waking task preempts one that has used more by a third
//! of a slice. A task that slept is put back to at most one slice below the others.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::SimulatedMachine;
use super::engine::Engine;
use super::events::Event;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    Thread(usize),
    Competitor(usize),
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CoreUse {
    pub(super) on_core: bool,
    pub(super) core: usize,
    /// Seconds used at the start of its slice; adjusted after sleep.
    used_s: f64,
    since_s: f64,
    slice_end_s: f64,
    counted_s: f64,
}

impl CoreUse {
    pub(super) fn preferring(core: usize) -> Self {
        Self {
            core,
            ..Self::default()
        }
    }

    fn used(&self, now: f64) -> f64 {
        match self.on_core {
            true => self.used_s + (now - self.since_s),
            false => self.used_s,
        }
    }
}

struct CompetitorThread {
    competitor: usize,
    core_use: CoreUse,
}

pub(super) struct Cores {
    tasks: Vec<Option<Task>>,
    busy: usize,
    /// By the bits of the seconds used, then sequence numbers.
    waiting: BinaryHeap<Reverse<(u64, u64, Task)>>,
    next_sequence: u64,
    competitors: Vec<CompetitorThread>,
    active: Vec<bool>,
    least_used_s: f64,
    watched: bool,
}

impl Cores {
    pub(super) fn new(machine: &SimulatedMachine) -> Self {
        let competitors = machine.competitors.iter().enumerate();
        let numbers = competitors.flat_map(|(number, one)| (0..one.threads).map(move |_| number));
        let competitors = numbers.enumerate().map(|(thread, competitor)| {
            // Competitors take cores from the last, threads from the first.
            let core = machine.cores - 1 - thread % machine.cores;
            let core_use = CoreUse::preferring(core);
            CompetitorThread {
                competitor,
                core_use,
            }
        });
        Self {
            tasks: vec![None; machine.cores],
            busy: 0,
            waiting: BinaryHeap::new(),
            next_sequence: 0,
            competitors: competitors.collect(),
            active: vec![false; machine.competitors.len()],
            least_used_s: 0.0,
            watched: false,
        }
    }
}

impl Engine {
    pub(super) fn begin_work(&mut self, thread: usize, seconds: f64) {
        let state = &mut self.threads[thread];
        state.remaining = seconds;
        state.work_since = self.now;
        match state.core_use.on_core {
            true => self.plan_end_of_work(thread),
            false => self.wake_task(Task::Thread(thread)),
        }
    }

    fn plan_end_of_work(&mut self, thread: usize) {
        let state = &self.threads[thread];
        let event = Event::Done {
            thread: thread as u32,
            version: state.version,
        };
        self.events.push(self.now + state.remaining, event);
    }

    fn core_use(&mut self, task: Task) -> &mut CoreUse {
        match task {
            Task::Thread(thread) => &mut self.threads[thread].core_use,
            Task::Competitor(number) => &mut self.cores.competitors[number].core_use,
        }
    }

    fn wake_task(&mut self, task: Task) {
        let slice = self.machine.time_slice_s;
        if self.cores.busy < self.machine.cores {
            return self.put_on_core(task);
        }
        let now = self.now;
        let mut least = f64::INFINITY;
        let mut most = (f64::NEG_INFINITY, None);
        for core in 0..self.machine.cores {
            if let Some(running) = self.cores.tasks[core] {
                let used = self.core_use(running).used(now);
                least = least.min(used);
                if used > most.0 {
                    most = (used, Some(running));
                }
            }
        }
        self.cores.least_used_s = self.cores.least_used_s.max(least);
        let bound = self.cores.least_used_s - slice;
        let own = self.core_use(task);
        own.used_s = own.used_s.max(bound);
        let used = own.used_s;
        self.wait_for_core(task);
        if let (most, Some(running)) = most
            && slice > 0.0
            && most > used + slice / 3.0
        {
            self.preempt(running);
        }
        self.watch_slices();
    }

    fn wait_for_core(&mut self, task: Task) {
        // Request order without time slices.
        let used = match self.machine.time_slice_s > 0.0 {
            true => self.core_use(task).used_s.max(0.0).to_bits(),
            false => 0,
        };
        let key = (used, self.cores.next_sequence, task);
        self.cores.next_sequence += 1;
        self.cores.waiting.push(Reverse(key));
    }

    fn fill_cores(&mut self) {
        while self.cores.busy < self.machine.cores
            && let Some(Reverse((_, _, task))) = self.cores.waiting.pop()
        {
            self.put_on_core(task);
        }
    }

    fn put_on_core(&mut self, task: Task) {
        let slice_end_s = self.now + self.machine.time_slice_s;
        let preferred = self.core_use(task).core;
        let mut tasks = self.cores.tasks.iter();
        let core = match self.cores.tasks[preferred] {
            None => preferred,
            Some(_) => tasks.position(Option::is_none).unwrap_or(preferred),
        };
        self.cores.tasks[core] = Some(task);
        self.cores.busy += 1;
        let now = self.now;
        let state = self.core_use(task);
        *state = CoreUse {
            on_core: true,
            core,
            used_s: state.used_s,
            since_s: now,
            slice_end_s,
            counted_s: now,
        };
        if let Task::Thread(thread) = task {
            self.threads[thread].work_since = now;
            self.plan_end_of_work(thread);
        }
    }

    pub(super) fn leave_core(&mut self, thread: usize) {
        self.vacate_core(Task::Thread(thread));
        self.fill_cores();
    }

    fn vacate_core(&mut self, task: Task) {
        let now = self.now;
        let state = self.core_use(task);
        if !state.on_core {
            return;
        }
        state.used_s = state.used(now);
        state.on_core = false;
        let (core, counted_s) = (state.core, state.counted_s);
        if matches!(task, Task::Thread(_)) {
            self.cpu_s += now - counted_s;
        }
        self.cores.tasks[core] = None;
        self.cores.busy -= 1;
    }

    pub(super) fn count_cpu_time(&mut self) {
        let threads = self.threads.iter_mut().map(|thread| &mut thread.core_use);
        for state in threads.filter(|state| state.on_core) {
            self.cpu_s += self.now - state.counted_s;
            state.counted_s = self.now;
        }
    }

    fn preempt(&mut self, task: Task) {
        if let Task::Thread(thread) = task {
            let state = &mut self.threads[thread];
            let spent = self.now - state.work_since;
            state.remaining = (state.remaining - spent).max(0.0);
            state.version += 1;
        }
        self.vacate_core(task);
        self.fill_cores();
        self.wait_for_core(task);
    }

    fn watch_slices(&mut self) {
        let is_wanted = self.machine.time_slice_s > 0.0 && !self.cores.waiting.is_empty();
        if !is_wanted || self.cores.watched {
            return;
        }
        let mut first = f64::INFINITY;
        for core in 0..self.machine.cores {
            if let Some(task) = self.cores.tasks[core] {
                first = first.min(self.core_use(task).slice_end_s);
            }
        }
        if first.is_finite() {
            self.cores.watched = true;
            self.events.push(first.max(self.now), Event::SliceEnds);
        }
    }

    /// They yield to tasks that have used less.
    pub(super) fn end_slices(&mut self) {
        self.cores.watched = false;
        let (now, slice) = (self.now, self.machine.time_slice_s);
        for core in 0..self.machine.cores {
            let Some(task) = self.cores.tasks[core] else {
                continue;
            };
            let Some(&Reverse((least, _, _))) = self.cores.waiting.peek() else {
                return;
            };
            let state = self.core_use(task);
            if state.slice_end_s > now {
                continue;
            }
            state.slice_end_s = now + slice;
            if f64::from_bits(least) <= state.used(now) {
                self.preempt(task);
            }
        }
        self.watch_slices();
    }

    pub(super) fn change_competitor(&mut self, index: usize) {
        let begins = !std::mem::replace(&mut self.cores.active[index], true);
        for number in 0..self.cores.competitors.len() {
            if self.cores.competitors[number].competitor != index {
                continue;
            }
            let task = Task::Competitor(number);
            if begins {
                let has_slices = self.machine.time_slice_s > 0.0;
                if has_slices || self.competitors_with_cores() + 1 < self.machine.cores {
                    self.wake_task(task);
                }
            } else {
                self.cores
                    .waiting
                    .retain(|Reverse((_, _, other))| *other != task);
                self.vacate_core(task);
            }
        }
        self.fill_cores();
    }

    fn competitors_with_cores(&self) -> usize {
        let is_competitor = |task: &Task| matches!(task, Task::Competitor(_));
        let running = self.cores.tasks.iter().flatten();
        let waiting = self.cores.waiting.iter();
        let waiting = waiting.filter(|Reverse((_, _, task))| is_competitor(task));
        running.filter(|task| is_competitor(task)).count() + waiting.count()
    }
}
