//! Bursts: stages take, compute and send items.

use super::SimulatedSource;
use super::engine::Engine;
use super::reorder::Item;
use super::stage_queue::{BurstOutcome, Notice};
use super::thread::{ThreadState, Work};

struct TakenItem {
    item: Item,
    memory_bytes: f64,
    transfer_s: f64,
}

fn items_after(gain: f64, taken: u64) -> u64 {
    (gain * taken as f64).floor() as u64
}

impl Engine {
    pub(super) fn execute(&mut self, thread: usize, entry: usize) {
        let stage = self.queue.entries[entry].stage;
        let hand_over = self.machine.hand_over_s;
        self.threads[thread].state = ThreadState::Working;
        self.threads[thread].burst_left = match self.is_replicated(stage) {
            true => 1,
            false => self.plan.stages[stage].burst_items,
        };
        match self.next_item(thread, entry) {
            Ok(taken) => self.compute(thread, entry, taken, hand_over),
            Err(outcome) if hand_over > 0.0 => {
                self.threads[thread].work = Some((entry, Work::Nothing(outcome)));
                self.begin_work(thread, hand_over);
            }
            Err(outcome) => self.put_back(thread, entry, outcome),
        }
    }

    fn is_replicated(&self, stage: usize) -> bool {
        self.stages[stage].entries.len() > 1
    }

    fn next_item(&mut self, thread: usize, entry: usize) -> Result<TakenItem, BurstOutcome> {
        let stage = self.queue.entries[entry].stage;
        if self.is_replicated(stage) {
            return self.next_item_of_replica(thread, entry);
        }
        if !self.has_room(stage) {
            return Err(BurstOutcome::Full);
        }
        self.take_item(stage, thread)
            .ok_or_else(|| self.outcome_without_input(stage))
    }

    fn next_item_of_replica(
        &mut self,
        thread: usize,
        entry: usize,
    ) -> Result<TakenItem, BurstOutcome> {
        let (stage, replica) = (
            self.queue.entries[entry].stage,
            self.queue.entries[entry].replica,
        );
        self.send_completed(stage);
        self.end_if_done(stage);
        if self.stages[stage].ended {
            return Err(BurstOutcome::Ended);
        }
        if replica >= self.stages[stage].replicas {
            for other in self.stages[stage]
                .entries
                .clone()
                .filter(|&other| other != entry)
            {
                self.notify(other, Notice::Input);
            }
            return Err(BurstOutcome::Retired);
        }
        if !self.has_room(stage) || self.stages[stage].reorder.is_full() {
            return Err(BurstOutcome::Full);
        }
        let Some(taken) = self.take_item(stage, thread) else {
            return Err(match self.stages[stage].reorder.has_next() {
                true => BurstOutcome::Full,
                false => BurstOutcome::Idle,
            });
        };
        self.stages[stage].reorder.begin();
        let link = self.stages[stage].inputs[0];
        if !self.links[link].is_empty() || self.links[link].ended.is_some() {
            self.notify_stage(stage, Notice::Input);
        }
        Ok(taken)
    }

    /// `hand_over`: the thread's time to get here.
    fn compute(&mut self, thread: usize, entry: usize, taken: TakenItem, hand_over: f64) {
        let stage = self.queue.entries[entry].stage;
        let state = &mut self.stages[stage];
        while let Some(change) = self.plan.changes.get(state.next_change)
            && change.at_s <= self.now
        {
            state.next_change += 1;
            if change.stage == stage {
                state.factor = change.factor;
            }
        }
        let of_stage = &self.plan.stages[stage];
        let service = of_stage.service.draw(&mut state.random) * state.factor;
        let bytes = taken.memory_bytes + of_stage.memory_bytes;
        let rate = self.machine.memory_bytes_per_s;
        let memory = match rate > 0.0 && bytes > 0.0 {
            true => {
                // Memory serves requests one by one; the core waits.
                self.memory_free_s = self.memory_free_s.max(self.now) + bytes / rate;
                self.memory_free_s - self.now
            }
            false => 0.0,
        };
        self.threads[thread].work = Some((entry, Work::Item(taken.item)));
        self.begin_work(thread, hand_over + taken.transfer_s + memory + service);
    }

    pub(super) fn finish(&mut self, thread: usize) {
        let Some((entry, work)) = self.threads[thread].work.take() else {
            return;
        };
        let outcome = match work {
            Work::Nothing(outcome) => outcome,
            Work::Item(item) => {
                let core = self.threads[thread].core_use.core as u32;
                match self.complete(thread, entry, Item { core, ..item }) {
                    Some(outcome) => outcome,
                    None => return,
                }
            }
        };
        self.put_back(thread, entry, outcome);
    }

    fn complete(&mut self, thread: usize, entry: usize, item: Item) -> Option<BurstOutcome> {
        let stage = self.queue.entries[entry].stage;
        self.stages[stage].done += 1;
        if self.is_replicated(stage) {
            self.stages[stage].reorder.complete(item);
            self.send_completed(stage);
            self.end_if_done(stage);
            return Some(BurstOutcome::Ran);
        }
        self.send(stage, item);
        self.threads[thread].burst_left -= 1;
        if !self.has_room(stage) {
            return Some(BurstOutcome::Full);
        }
        if self.threads[thread].burst_left == 0 {
            return Some(BurstOutcome::Ran);
        }
        match self.take_item(stage, thread) {
            Some(taken) => {
                self.compute(thread, entry, taken, 0.0);
                None
            }
            None => Some(self.outcome_without_input(stage)),
        }
    }

    fn has_room(&self, stage: usize) -> bool {
        let mut outputs = self.stages[stage].outputs.iter();
        outputs.all(|&link| !self.links[link].is_full())
    }

    fn outcome_without_input(&mut self, stage: usize) -> BurstOutcome {
        if !self.has_ended_input(stage) {
            return BurstOutcome::Idle;
        }
        self.end_stage(stage);
        BurstOutcome::Ended
    }

    fn end_if_done(&mut self, stage: usize) {
        let state = &self.stages[stage];
        if !state.ended && state.reorder.is_empty() && self.has_ended_input(stage) {
            self.end_stage(stage);
        }
    }

    fn has_ended_input(&self, stage: usize) -> bool {
        let mut inputs = self.stages[stage].inputs.iter();
        let links =
            inputs.all(|&link| self.links[link].is_empty() && self.links[link].ended.is_some());
        links && self.has_ended_source(stage)
    }

    fn has_ended_source(&self, stage: usize) -> bool {
        let state = &self.stages[stage];
        match &self.plan.stages[stage].source {
            None => true,
            Some(SimulatedSource::Endless) => false,
            Some(SimulatedSource::Finite { items }) => state.given >= *items,
            Some(SimulatedSource::Arrivals { items, .. }) => {
                items.is_some_and(|items| state.given >= items)
            }
        }
    }

    fn source_has_item(&self, stage: usize) -> bool {
        match &self.plan.stages[stage].source {
            Some(SimulatedSource::Arrivals { .. }) => self.stages[stage].backlog > 0,
            _ => !self.has_ended_source(stage),
        }
    }

    fn take_item(&mut self, stage: usize, thread: usize) -> Option<TakenItem> {
        let inputs = self.stages[stage].inputs.len();
        // The source counts as the input after all links.
        let input = match (inputs, self.stages[stage].in_step) {
            (0, _) => inputs,
            (_, true) => self.lagging_input(stage)?,
            (_, false) => self.next_input(stage)?,
        };
        if input < inputs {
            let link = self.stages[stage].inputs[input];
            return self.take_from_link(stage, link, thread);
        }
        self.source_has_item(stage).then(|| {
            let state = &mut self.stages[stage];
            state.given += 1;
            state.backlog = state.backlog.saturating_sub(1);
            let position = state.given;
            TakenItem {
                item: self.next_number(stage, position),
                memory_bytes: 0.0,
                transfer_s: 0.0,
            }
        })
    }

    fn next_number(&mut self, stage: usize, position: u64) -> Item {
        let progress = self.progress(stage);
        let state = &mut self.stages[stage];
        state.taken += 1;
        Item {
            number: state.taken - 1,
            position,
            progress,
            core: 0,
        }
    }

    /// The stage waits for it; None if all have ended.
    fn lagging_input(&self, stage: usize) -> Option<usize> {
        let state = &self.stages[stage];
        let links = state.inputs.iter().enumerate().filter_map(|(at, &link)| {
            let link = &self.links[link];
            let has_more = !link.is_empty() || link.ended.is_none();
            has_more.then_some((link.position, at))
        });
        let source = (!self.has_ended_source(stage)).then_some((state.given, state.inputs.len()));
        links.chain(source).min().map(|(_, at)| at)
    }

    fn next_input(&mut self, stage: usize) -> Option<usize> {
        let state = &self.stages[stage];
        let count = state.inputs.len();
        let has_item = |&input: &usize| match state.inputs.get(input) {
            Some(&link) => !self.links[link].is_empty(),
            None => self.source_has_item(stage),
        };
        let in_turn = (1..=count + 1).map(|step| (state.last_input + step) % (count + 1));
        let input = in_turn.into_iter().find(has_item)?;
        self.stages[stage].last_input = input;
        Some(input)
    }

    fn take_from_link(&mut self, stage: usize, link: usize, thread: usize) -> Option<TakenItem> {
        let received = self.links[link].receive(self.now)?;
        let item = self.next_number(stage, received.position);
        if self.links[link].has_room() {
            self.notify_stage(self.links[link].link.from, Notice::Room);
        }
        let bytes = self.links[link].link.item_bytes as f64;
        let (from, to) = (received.core as usize, self.threads[thread].core_use.core);
        let machine = &self.machine;
        let is_far = machine.node(from) != machine.node(to);
        let distance = match is_far && machine.numa_factor > 0.0 {
            true => machine.numa_factor,
            false => 1.0,
        };
        let transfers = (received.evicted || from != to) && machine.transfer_bytes_per_s > 0.0;
        Some(TakenItem {
            item,
            // Written to memory, and read from there.
            memory_bytes: if received.evicted {
                bytes * (1.0 + distance)
            } else {
                0.0
            },
            transfer_s: match transfers {
                true => bytes * distance / machine.transfer_bytes_per_s,
                false => 0.0,
            },
        })
    }

    fn send_completed(&mut self, stage: usize) {
        let mut sent = false;
        while self.has_room(stage)
            && let Some(item) = self.stages[stage].reorder.pop()
        {
            self.send(stage, item);
            sent = true;
        }
        if sent {
            self.notify_stage(stage, Notice::Room);
        }
    }

    fn send(&mut self, stage: usize, item: Item) {
        if stage + 1 == self.stages.len() {
            self.deliver(item.progress);
        }
        for at in 0..self.stages[stage].outputs.len() {
            let link = self.stages[stage].outputs[at];
            let state = &mut self.links[link];
            let gain = state.link.gain;
            let count = items_after(gain, item.number + 1) - items_after(gain, item.number);
            for _ in 0..count {
                self.links[link].send(
                    item.position,
                    item.progress,
                    item.core,
                    self.machine.cache_bytes,
                    self.now,
                );
                self.notify_readers(link);
            }
        }
    }
}
