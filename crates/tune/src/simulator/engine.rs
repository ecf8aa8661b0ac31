//! Event loop.

use std::collections::VecDeque;
use std::ops::Range;

use fastrand::Rng;

use super::cores::Cores;
use super::events::{Event, EventQueue};
use super::link::{LinkState, MAX_SOURCES, Progress};
use super::reorder::ReorderBuffer;
use super::schedule::NOBODY;
use super::stage_queue::{BurstOutcome, Notice, StageQueue};
use super::thread::{SimulatedThread, ThreadState};
use super::{SimulatedMachine, SimulatedPlan, SimulatedSource, StageSchedule};
use crate::{Configuration, TuneError};

/// Reorder buffer slots per possible replica.
pub(super) const BLOCKS_PER_REPLICA: usize = 3;

pub(super) struct StageState {
    pub(super) inputs: Vec<usize>,
    pub(super) outputs: Vec<usize>,
    pub(super) entries: Range<usize>,
    /// Whether it takes from the lagging input only.
    pub(super) in_step: bool,
    pub(super) last_input: usize,
    pub(super) replicas: usize,
    pub(super) ended: bool,
    pub(super) taken: u64,
    pub(super) done: u64,
    pub(super) given: u64,
    pub(super) backlog: u64,
    pub(super) arrived: u64,
    pub(super) source: Option<usize>,
    pub(super) factor: f64,
    pub(super) next_change: usize,
    pub(super) reorder: ReorderBuffer,
    pub(super) random: Rng,
    pub(super) arrivals: Rng,
}

pub(super) struct Engine {
    pub(super) plan: SimulatedPlan,
    pub(super) machine: SimulatedMachine,
    pub(super) configuration: Configuration,
    pub(super) now: f64,
    pub(super) events: EventQueue,
    pub(super) handled: u64,
    pub(super) queue: StageQueue,
    pub(super) stages: Vec<StageState>,
    pub(super) links: Vec<LinkState>,
    pub(super) threads: Vec<SimulatedThread>,
    pub(super) looking: VecDeque<usize>,
    /// Idle threads without the caller's; the last was busy last.
    pub(super) idle: Vec<usize>,
    pub(super) helpers_began: bool,
    pub(super) cores: Cores,
    /// When memory has served all requests.
    pub(super) memory_free_s: f64,
    pub(super) cpu_s: f64,
    pub(super) delivered: Progress,
    pub(super) is_over: bool,
    pub(super) owners: Vec<usize>,
    pub(super) owned_ready: Vec<usize>,
}

impl Engine {
    pub(super) fn new(
        plan: SimulatedPlan,
        machine: SimulatedMachine,
        start: Configuration,
        seed: u64,
    ) -> Result<Self, TuneError> {
        plan.check()?;
        machine.check()?;
        plan.check_configuration(&start)?;
        let queue = StageQueue::new(plan.stages.iter().map(|stage| stage.max_replicas));
        let sources = plan.source_sets();
        let source_stages: Vec<usize> = plan.source_stages().collect();
        let mut first = 0;
        let stage = |(number, stage): (usize, &super::SimulatedStage)| {
            let entries = first..first + stage.max_replicas;
            first = entries.end;
            let links = |end: fn(&super::SimulatedLink) -> usize| {
                let links = plan.links.iter().enumerate();
                let own = links.filter(|(_, link)| end(link) == number);
                own.map(|(link, _)| link).collect()
            };
            // Times do not depend on the order of execution.
            let mut seeds =
                Rng::with_seed(seed ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            StageState {
                inputs: links(|link| link.to),
                outputs: links(|link| link.from),
                in_step: plan.waits_in_step(&sources, number),
                last_input: 0,
                replicas: start.replicas[number],
                ended: false,
                taken: 0,
                done: 0,
                given: 0,
                backlog: 0,
                arrived: 0,
                source: source_stages.iter().position(|&source| source == number),
                factor: 1.0,
                next_change: 0,
                reorder: ReorderBuffer::new(stage.in_order, BLOCKS_PER_REPLICA * entries.len()),
                entries,
                random: Rng::with_seed(seeds.u64(..)),
                arrivals: Rng::with_seed(seeds.u64(..)),
            }
        };
        let stages: Vec<StageState> = plan.stages.iter().enumerate().map(stage).collect();
        let links = plan.links.iter().enumerate().map(|(number, link)| {
            let own = source_stages.iter().enumerate();
            let own = own.filter(|&(_, &source)| sources[link.from][source]);
            let own = own.map(|(number, _)| number).collect();
            LinkState::new(*link, start.link_bytes[number], own)
        });
        let links = links.collect();
        let mut engine = Self {
            cores: Cores::new(&machine),
            configuration: start,
            now: 0.0,
            events: EventQueue::default(),
            handled: 0,
            stages,
            links,
            threads: Vec::new(),
            looking: VecDeque::new(),
            idle: Vec::new(),
            helpers_began: false,
            memory_free_s: 0.0,
            cpu_s: 0.0,
            delivered: Progress::default(),
            is_over: false,
            owners: vec![NOBODY; queue.entries.len()],
            owned_ready: Vec::new(),
            queue,
            plan,
            machine,
        };
        engine.begin();
        Ok(engine)
    }

    fn begin(&mut self) {
        self.retire_replicas();
        for stage in 0..self.stages.len() {
            if matches!(
                self.plan.stages[stage].source,
                Some(SimulatedSource::Arrivals { .. })
            ) {
                self.plan_arrival(stage);
            }
        }
        for (index, competitor) in self.machine.competitors.iter().enumerate() {
            let event = Event::CompetitorChanges {
                index: index as u32,
            };
            self.events.push(competitor.start_s, event);
            if competitor.end_s.is_finite() {
                self.events.push(competitor.end_s, event);
            }
        }
        let is_pooled = self.machine.schedule != StageSchedule::ThreadPerStage;
        if is_pooled && self.machine.helpers_after_s > 0.0 {
            self.events
                .push(self.machine.helpers_after_s, Event::HelpersBegin);
        } else {
            self.helpers_began = true;
        }
        self.assign_threads();
        self.look_all();
    }

    /// Handles events until a time, the end of the run, or a standstill.
    pub(super) fn advance(&mut self, until: f64) {
        while !self.is_over {
            let Some((time, event)) = self.events.pop_until(until) else {
                if until.is_finite() {
                    self.now = until;
                }
                return;
            };
            self.now = time;
            self.handled += 1;
            self.handle(event);
            self.look_all();
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Done { thread, version } => {
                let thread = thread as usize;
                if self.threads[thread].version == version {
                    self.finish(thread);
                }
            }
            Event::Wakes { thread } => {
                let thread = thread as usize;
                if self.threads[thread].state == ThreadState::Waking {
                    self.begin_looking(thread);
                }
            }
            Event::Arrives { stage } => self.arrive(stage as usize),
            Event::SliceEnds => self.end_slices(),
            Event::CompetitorChanges { index } => self.change_competitor(index as usize),
            Event::HelpersBegin => {
                self.helpers_began = true;
                self.assign_threads();
            }
        }
    }

    pub(super) fn look_all(&mut self) {
        while let Some(thread) = self.looking.pop_front() {
            if self.is_over {
                return;
            }
            if !self.may_work(thread) {
                self.retire_thread(thread);
            } else if let Some(entry) = self.take(thread) {
                self.execute(thread, entry);
            } else {
                self.rest(thread);
            }
        }
    }

    fn plan_arrival(&mut self, stage: usize) {
        let Some(SimulatedSource::Arrivals { interval, items }) = &self.plan.stages[stage].source
        else {
            return;
        };
        let state = &mut self.stages[stage];
        if items.is_none_or(|items| state.arrived < items) {
            let time = self.now + interval.draw(&mut state.arrivals);
            let stage = stage as u32;
            self.events.push(time, Event::Arrives { stage });
        }
    }

    fn arrive(&mut self, stage: usize) {
        self.stages[stage].arrived += 1;
        self.stages[stage].backlog += 1;
        self.plan_arrival(stage);
        self.notify(self.stages[stage].entries.start, Notice::Input);
    }

    /// Returns whether the entry waited for that.
    pub(super) fn notify(&mut self, entry: usize, notice: Notice) -> bool {
        let waited = self.queue.notify(entry, notice, self.now);
        if waited {
            self.count_ready(entry);
            self.wake_for(entry);
        }
        waited
    }

    /// Others take what these were woken for.
    pub(super) fn retire_replicas(&mut self) {
        for stage in 0..self.stages.len() {
            let state = &self.stages[stage];
            let unwanted = state.entries.start + state.replicas..state.entries.end;
            let mut retired = false;
            for entry in unwanted {
                if self.queue.is_ready(entry) {
                    self.uncount_ready(entry);
                }
                retired |= self.queue.retire(entry, self.now);
            }
            if retired {
                self.notify_stage(stage, Notice::Input);
                self.notify_stage(stage, Notice::Room);
            }
        }
    }

    pub(super) fn recall(&mut self, entry: usize) {
        if self.queue.recall(entry, self.now) {
            self.count_ready(entry);
            self.wake_for(entry);
        }
    }

    pub(super) fn notify_stage(&mut self, stage: usize, notice: Notice) {
        for entry in self.stages[stage].entries.clone() {
            self.notify(entry, notice);
        }
    }

    /// One is enough: it wakes others if there is more.
    pub(super) fn notify_readers(&mut self, link: usize) {
        let reader = self.links[link].link.to;
        let mut entries = self.stages[reader].entries.clone();
        entries.any(|entry| self.notify(entry, Notice::Input));
    }

    /// The thread looks for its next entry before threads woken now.
    pub(super) fn put_back(&mut self, thread: usize, entry: usize, outcome: BurstOutcome) {
        let outcome = match self.stages[self.queue.entries[entry].stage].ended {
            true => BurstOutcome::Ended,
            false => outcome,
        };
        self.begin_looking_first(thread);
        let others = self.queue.has_ready() || self.is_of_other(thread, entry);
        if self.queue.put_back(entry, outcome, self.now) {
            self.count_ready(entry);
            if others {
                self.wake_for(entry);
            }
        }
    }

    /// Least progress over paths from each source.
    pub(super) fn progress(&self, stage: usize) -> Progress {
        let state = &self.stages[stage];
        let mut progress = [u64::MAX; MAX_SOURCES];
        if let Some(source) = state.source {
            progress[source] = state.given;
        }
        for &link in &state.inputs {
            let link = &self.links[link];
            let of_link = link.progress();
            for &source in &link.sources {
                progress[source] = progress[source].min(of_link[source]);
            }
        }
        progress.map(|items| if items == u64::MAX { 0 } else { items })
    }

    /// Without order, later results may come first.
    pub(super) fn deliver(&mut self, progress: Progress) {
        for (delivered, items) in self.delivered.iter_mut().zip(progress) {
            *delivered = items.max(*delivered);
        }
    }

    pub(super) fn end_stage(&mut self, stage: usize) {
        let progress = self.progress(stage);
        self.stages[stage].ended = true;
        for entry in self.stages[stage].entries.clone() {
            if self.queue.is_ready(entry) {
                self.uncount_ready(entry);
            }
        }
        let entries = self.stages[stage].entries.clone();
        self.queue.end(entries, self.now);
        if stage + 1 == self.stages.len() {
            self.deliver(progress);
            self.is_over = true;
        }
        for at in 0..self.stages[stage].outputs.len() {
            let link = self.stages[stage].outputs[at];
            self.links[link].ended = Some(progress);
            // Every reader must see the end.
            self.notify_stage(self.links[link].link.to, Notice::Input);
        }
    }
}
