//! Which entry a thread takes, and which thread wakes.

use super::StageSchedule;
use super::engine::Engine;
use super::thread::ThreadState;

pub(super) const NOBODY: usize = usize::MAX;

impl Engine {
    fn last_entry(&self) -> usize {
        self.queue.entries.len() - 1
    }

    pub(super) fn take(&mut self, thread: usize) -> Option<usize> {
        let last = self.last_entry();
        let entry = match self.machine.schedule {
            StageSchedule::NearestToEnd => {
                let end = if thread == 0 { last + 1 } else { last };
                self.queue.last_ready_below(end)
            }
            StageSchedule::ThreadPerStage => Some(thread).filter(|&own| self.queue.is_ready(own)),
            StageSchedule::CacheWeightedStealing { threshold } => self
                .own_ready(thread)
                .or_else(|| self.steal(thread, threshold)),
        }?;
        self.uncount_ready(entry);
        self.queue.take(entry, self.now);
        Some(entry)
    }

    fn own_ready(&self, thread: usize) -> Option<usize> {
        let mut end = self.queue.entries.len();
        if self.owned_ready[thread] == 0 {
            return None;
        }
        while let Some(entry) = self.queue.last_ready_below(end) {
            if self.owners[entry] == thread {
                return Some(entry);
            }
            end = entry;
        }
        None
    }

    /// Takes the first entry of the thread with most ready, except the last stage.
    fn steal(&self, thief: usize, threshold: usize) -> Option<usize> {
        let others = (0..self.owned_ready.len()).filter(|&other| other != thief);
        let victim = others.max_by_key(|&other| (self.owned_ready[other], usize::MAX - other))?;
        if self.owned_ready[victim] <= threshold {
            return None;
        }
        let mut entries = 0..self.last_entry();
        entries.find(|&entry| self.owners[entry] == victim && self.queue.is_ready(entry))
    }

    pub(super) fn wake_for(&mut self, entry: usize) {
        let is_idle = |thread: usize| {
            let thread = self.threads.get(thread);
            thread.is_some_and(|thread| thread.state == ThreadState::Idle)
        };
        let caller = Some(0).filter(|&caller| is_idle(caller));
        let thread = match self.machine.schedule {
            StageSchedule::NearestToEnd if entry == self.last_entry() => caller,
            StageSchedule::NearestToEnd => self.idle.last().copied().or(caller),
            StageSchedule::ThreadPerStage => Some(entry).filter(|&own| is_idle(own)),
            StageSchedule::CacheWeightedStealing { threshold } => {
                let owner = self.owners[entry];
                let may_steal = self.owned_ready[owner] > threshold && entry != self.last_entry();
                match is_idle(owner) {
                    true => Some(owner),
                    false if may_steal => self.idle.last().copied().or(caller),
                    false => None,
                }
            }
        };
        if let Some(thread) = thread {
            self.wake(thread);
        }
    }

    /// Consecutive entries of equal expected load, where threads own entries.
    pub(super) fn assign_owners(&mut self) {
        let entries = self.queue.entries.len();
        self.owners = vec![NOBODY; entries];
        let StageSchedule::CacheWeightedStealing { .. } = self.machine.schedule else {
            return;
        };
        let visits = self.plan.visits();
        let load = |entry: usize| {
            let of_entry = &self.queue.entries[entry];
            let replicas = self.stages[of_entry.stage].replicas;
            match of_entry.replica < replicas {
                true => {
                    let service = self.plan.stages[of_entry.stage].service.mean();
                    visits[of_entry.stage] * service / replicas as f64
                }
                false => 0.0,
            }
        };
        let threads = self.wanted_threads();
        let total: f64 = (0..entries).map(load).sum();
        let mut before = 0.0;
        for entry in 0..entries {
            let middle = (before + load(entry) / 2.0) / total.max(f64::MIN_POSITIVE);
            self.owners[entry] = ((middle * threads as f64) as usize).min(threads - 1);
            before += load(entry);
        }
        self.owners[entries - 1] = 0;
        self.owned_ready = vec![0; self.threads.len()];
        for entry in (0..entries).filter(|&entry| self.queue.is_ready(entry)) {
            self.owned_ready[self.owners[entry]] += 1;
        }
    }

    pub(super) fn is_of_other(&self, thread: usize, entry: usize) -> bool {
        let owner = self.owners[entry];
        owner != NOBODY && owner != thread
    }

    pub(super) fn count_ready(&mut self, entry: usize) {
        if let Some(count) = self.owned_ready.get_mut(self.owners[entry]) {
            *count += 1;
        }
    }

    pub(super) fn uncount_ready(&mut self, entry: usize) {
        if let Some(count) = self.owned_ready.get_mut(self.owners[entry]) {
            *count -= 1;
        }
    }
}
