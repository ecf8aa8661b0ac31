//! Model of stages that pass numbers, run by the real links, stage queue and block scheduler, for model checkers.
//! Follows `pool.rs`, `link_writer.rs` and `link_reader.rs`.
//!
//! The including test provides `sync` and `thread`.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::block_scheduler::{Assignment, BlockScheduler, NextInput, StageIo};
use super::link::{Batch, Link, ReceiveOutcome};
use super::stage_queue::{Notice, StageOutcome, StageQueue, StageSet, ThreadRole};
use super::thread;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    /// Links in which it was merged: order is kept within a lane.
    lane: u64,
    time: u32,
    value: Option<u64>,
}

#[derive(Debug, Clone)]
pub(crate) struct Input {
    pub(crate) from: usize,
    pub(crate) capacity: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Replicas {
    pub(crate) count: usize,
    pub(crate) block: usize,
    /// One replica computes all parts of so many events.
    pub(crate) cell: Option<usize>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct StageSpec {
    pub(crate) inputs: Vec<Input>,
    pub(crate) items: u32,
    pub(crate) step: u32,
    pub(crate) burst: usize,
    pub(crate) batch: usize,
    /// An item has its value modulo this number results, or 1 if that is 0.
    pub(crate) results: u64,
    pub(crate) limit: Option<u64>,
    pub(crate) fails_at: Option<u64>,
    pub(crate) pauses_at: Option<u64>,
    pub(crate) replicas: Option<Replicas>,
}

/// By the caller's thread, after one of its bursts.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Replicas { stage: usize, count: usize },
    Capacity { link: usize, bytes: u64 },
}

#[derive(Debug, Clone)]
pub(crate) struct GraphSpec {
    pub(crate) stages: Vec<StageSpec>,
    pub(crate) threads: usize,
    pub(crate) caller_source: bool,
    pub(crate) changes: Vec<(u64, Change)>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrivals {
    pub(crate) lanes: BTreeMap<u64, Vec<u64>>,
    pub(crate) failed: bool,
}

type MergeKey = (Option<u32>, usize, usize);

impl StageSpec {
    fn results(&self, stage: usize, event: Event) -> Vec<Event> {
        let Some(value) = event.value else {
            return vec![event];
        };
        let count = match self.results {
            0 => 1,
            results => value % results,
        };
        let result = |nth| {
            let value = value.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (stage as u64) << 8 ^ nth;
            Event {
                value: Some(value >> 1),
                ..event
            }
        };
        match count {
            0 => vec![Event {
                value: None,
                ..event
            }],
            count => (0..count).map(result).collect(),
        }
    }

    /// At a fan-in the progress of all inputs.
    fn time_of(&self, event: u32, before: Option<u32>) -> u32 {
        match self.inputs.len() {
            1 => event,
            _ => before.unwrap_or(0),
        }
    }

    fn lane_of(&self, lane: u64, port: usize) -> u64 {
        match self.inputs.len() {
            1 => lane,
            _ => lane * 32 + port as u64 + 1,
        }
    }

    fn source_event(&self, stage: usize, nth: u32) -> Event {
        Event {
            lane: 0,
            time: nth * self.step,
            value: Some((u64::from(nth) + 1) << 4 | stage as u64),
        }
    }
}

impl GraphSpec {
    fn roots(&self) -> Vec<u64> {
        let mut roots: Vec<u64> = Vec::new();
        for (number, stage) in self.stages.iter().enumerate() {
            let inputs = stage.inputs.iter().map(|input| roots[input.from]);
            let own = inputs.fold(0, |all, one| all | one);
            roots.push(if stage.inputs.is_empty() {
                1 << number
            } else {
                own
            });
        }
        roots
    }

    /// By stage: inputs are taken in the order of one thread. If two share a source or are unordered, it takes what
    /// comes, and order is kept within a lane.
    fn ordered(&self) -> Vec<bool> {
        let roots = self.roots();
        let mut ordered: Vec<bool> = Vec::new();
        for stage in &self.stages {
            let bits = stage
                .inputs
                .iter()
                .map(|input| roots[input.from].count_ones());
            let all = stage
                .inputs
                .iter()
                .fold(0, |all, input| all | roots[input.from]);
            let alone = bits.sum::<u32>() == all.count_ones();
            ordered.push(alone && stage.inputs.iter().all(|input| ordered[input.from]));
        }
        ordered
    }

    pub(crate) fn may_count(&self, stage: usize) -> bool {
        self.ordered()[stage]
    }

    pub(crate) fn waits_in_a_cycle(&self) -> bool {
        let (roots, ordered) = (self.roots(), self.ordered());
        let mut connected: Vec<u64> = (0..self.stages.len()).map(|bit| 1 << bit).collect();
        let (mut is_cyclic, mut read) = (false, Vec::new());
        for (number, stage) in self.stages.iter().enumerate() {
            if stage.inputs.len() < 2 || !ordered[number] {
                continue;
            }
            let mut own = 0;
            for input in &stage.inputs {
                let mut one = roots[input.from];
                let touched = connected.iter().filter(|&&other| other & one != 0);
                one = touched.fold(one, |all, other| all | other);
                is_cyclic |= own & one != 0;
                own |= one;
                read.push(input.from);
            }
            connected
                .iter_mut()
                .filter(|one| **one & own != 0)
                .for_each(|one| *one = own);
        }
        let disagree = |&one: &usize| {
            read.iter()
                .any(|&other| one != other && roots[one] & roots[other] != 0)
        };
        is_cyclic && read.iter().any(disagree)
    }

    pub(crate) fn expected(&self) -> Arrivals {
        let ordered = self.ordered();
        let mut streams: Vec<(BTreeMap<u64, Vec<Event>>, bool)> = Vec::new();
        for (number, stage) in self.stages.iter().enumerate() {
            let mut failed = false;
            let mut taken: BTreeMap<u64, Vec<Event>> = BTreeMap::new();
            if stage.inputs.is_empty() {
                let made = (0..stage.items).map(|nth| stage.source_event(number, nth));
                taken.insert(0, made.collect());
            } else if ordered[number] {
                // An event is taken when the one before it in its link is the earliest of all.
                let mut keyed: Vec<(MergeKey, Option<Event>)> = Vec::new();
                for (port, input) in stage.inputs.iter().enumerate() {
                    let (lanes, failure) = &streams[input.from];
                    let events = lanes.values().flatten();
                    let (mut before, mut count) = (None, 0);
                    for (nth, &event) in events.enumerate() {
                        let taken = Event {
                            time: stage.time_of(event.time, before),
                            ..event
                        };
                        keyed.push(((before, port, nth), Some(taken)));
                        (before, count) = (Some(event.time), nth + 1);
                    }
                    if *failure {
                        keyed.push(((before, port, count), None));
                    }
                }
                keyed.sort_by_key(|&(key, _)| key);
                let events = keyed.into_iter().map(|(_, event)| event);
                let until = events.map_while(|event| {
                    failed |= event.is_none();
                    event
                });
                taken.insert(0, until.collect());
            } else {
                for (port, input) in stage.inputs.iter().enumerate() {
                    let (lanes, failure) = &streams[input.from];
                    failed |= failure;
                    for (lane, events) in lanes {
                        let lane = stage.lane_of(*lane, port);
                        let events = events.iter().map(|&event| Event { lane, ..event });
                        taken.insert(lane, events.collect());
                    }
                }
            }
            let mut gave = BTreeMap::new();
            for (lane, mut events) in taken {
                for (end, fails) in [(stage.fails_at, true), (stage.limit, false)] {
                    if let Some(end) = end.filter(|&end| (end as usize) < events.len()) {
                        events.truncate(end as usize);
                        failed = fails;
                    }
                    if !fails && end == Some(events.len() as u64) {
                        failed = false;
                    }
                }
                let results = events.into_iter();
                let results = results.flat_map(|event| stage.results(number, event));
                gave.insert(lane, results.collect::<Vec<_>>());
            }
            streams.push((gave, failed));
        }
        let (lanes, failed) = streams.pop().unwrap();
        let mut arrived = Arrivals {
            lanes: BTreeMap::new(),
            failed,
        };
        for (lane, events) in lanes {
            arrived.record(lane, events.iter().filter_map(|event| event.value));
        }
        arrived
    }
}

impl Arrivals {
    fn record(&mut self, lane: u64, values: impl Iterator<Item = u64>) {
        for value in values {
            self.lanes.entry(lane).or_default().push(value);
        }
    }
}

struct ModelLink {
    link: Link<Event>,
    writers: Range<usize>,
    readers: Range<usize>,
    failed: Mutex<bool>,
}

struct Writer {
    link: usize,
    events: Vec<Event>,
}

struct Reader {
    link: usize,
    events: VecDeque<Event>,
    last: Option<u32>,
    ended: bool,
}

struct WholeStage {
    number: usize,
    readers: Vec<Reader>,
    writers: Vec<Writer>,
    made: u32,
    taken: u64,
}

enum Work {
    Whole(WholeStage),
    Replica(Arc<BlockScheduler<ModelIo>>, usize),
}

pub(crate) struct Model {
    shared: Arc<ModelGraph>,
    stages: Vec<(Mutex<Work>, AtomicUsize)>,
    ancestors: Vec<StageSet>,
    replicated: Vec<(usize, Arc<BlockScheduler<ModelIo>>)>,
    arrived: Mutex<Arrivals>,
    computing: AtomicUsize,
}

struct ModelGraph {
    spec: GraphSpec,
    ordered: Vec<bool>,
    queue: Arc<StageQueue>,
    links: Vec<ModelLink>,
}

impl ModelGraph {
    fn notify_writers(&self, link: usize) {
        for entry in self.links[link].writers.clone() {
            self.queue.notify(entry, Notice::Room);
        }
    }

    fn notify_readers(&self, link: usize) {
        let mut readers = self.links[link].readers.clone();
        readers.any(|entry| self.queue.notify(entry, Notice::Input));
    }

    fn receive(&self, link: usize) -> ReceiveOutcome<Event> {
        let own = &self.links[link].link;
        let received = own.receive();
        if matches!(received, ReceiveOutcome::Batch(_)) && own.has_room() {
            self.notify_writers(link);
        }
        received
    }

    fn send(&self, writer: &mut Writer) {
        if !writer.events.is_empty() {
            let events = std::mem::take(&mut writer.events);
            self.links[writer.link].link.send(Batch {
                bytes: events.len() as u64,
                events,
                delivered: 0,
                arrived: None,
            });
            self.notify_readers(writer.link);
        }
    }

    fn end(&self, writer: &mut Writer, failed: bool) {
        self.send(writer);
        *self.links[writer.link].failed.try_lock().unwrap() = failed;
        self.links[writer.link].link.end();
        self.notify_readers(writer.link);
    }

    fn close(&self, link: usize) {
        self.links[link].link.close();
        self.notify_writers(link);
    }

    fn has_failed(&self, link: usize) -> bool {
        *self.links[link].failed.try_lock().unwrap()
    }

    fn has_room(&self, writers: &[Writer]) -> bool {
        let mut writers = writers.iter();
        writers.all(|writer| !self.links[writer.link].link.is_full())
    }

    fn is_unread(&self, writers: &[Writer]) -> bool {
        let mut links = writers.iter();
        !writers.is_empty() && links.all(|writer| self.links[writer.link].link.is_closed())
    }

    fn give(&self, writers: &mut [Writer], event: Event) {
        for writer in writers {
            writer.events.push(event);
        }
    }
}

pub(crate) struct Block {
    first: u64,
    events: Vec<Event>,
}

/// `Err` if the stage ends with it: whether by failure.
pub(crate) type BlockResult = (Vec<Event>, Result<(), bool>);

pub(crate) struct ModelIo {
    number: usize,
    shared: Arc<ModelGraph>,
    input: usize,
    arrived: VecDeque<Event>,
    taken: u64,
    input_ended: bool,
    /// Missing events of the open cell, and its replica.
    open_cell: Option<(usize, usize)>,
    writers: Vec<Writer>,
}

impl ModelIo {
    fn replicas(&self) -> &Replicas {
        let replicas = &self.shared.spec.stages[self.number].replicas;
        replicas.as_ref().unwrap()
    }

    fn receive(&mut self) -> bool {
        match self.shared.receive(self.input) {
            ReceiveOutcome::Batch(batch) => {
                self.arrived.extend(batch.events);
                true
            }
            ReceiveOutcome::Nothing => false,
            ReceiveOutcome::End => {
                self.input_ended = true;
                false
            }
        }
    }
}

impl StageIo for ModelIo {
    type Block = Block;
    type Result = BlockResult;

    fn owner(&self) -> Option<usize> {
        self.open_cell.map(|(_, owner)| owner)
    }

    fn next(&mut self, replica: usize) -> NextInput<Block, BlockResult> {
        let Replicas { block, cell, .. } = *self.replicas();
        while self.arrived.len() < block && self.receive() {}
        if let Some(&Event { value: None, .. }) = self.arrived.front() {
            if self.shared.spec.stages[self.number].fails_at == Some(self.taken) {
                return NextInput::Last((Vec::new(), Err(true)));
            }
            self.taken += 1;
            let mark = self.arrived.pop_front();
            return NextInput::Pass((mark.into_iter().collect(), Ok(())));
        }
        let values = self
            .arrived
            .iter()
            .take_while(|event| event.value.is_some());
        let missing = self.open_cell.map_or(cell, |(missing, _)| Some(missing));
        let count = values.count().min(missing.unwrap_or(block)).min(block);
        if count == 0 {
            return match std::mem::take(&mut self.input_ended) {
                true => {
                    let failed = self.shared.has_failed(self.input);
                    NextInput::Last((Vec::new(), Err(failed)))
                }
                false => NextInput::Nothing,
            };
        }
        let missing = missing.map_or(0, |missing| missing - count);
        self.open_cell = (missing > 0).then_some((missing, replica));
        let first = self.taken;
        self.taken += count as u64;
        let events = self.arrived.drain(..count).collect();
        NextInput::Block(Block { first, events })
    }

    fn has_more(&self) -> bool {
        !self.arrived.is_empty() || self.shared.links[self.input].link.bytes() > 0
    }

    fn has_room(&self) -> bool {
        self.shared.has_room(&self.writers)
    }

    fn send(&mut self, (events, end): BlockResult) -> bool {
        let Self {
            shared, writers, ..
        } = self;
        for event in events {
            shared.give(writers, event);
        }
        let end = match end {
            Ok(()) if shared.is_unread(writers) => Err(false),
            end => end,
        };
        for writer in writers {
            match end {
                Ok(()) => shared.send(writer),
                Err(failed) => shared.end(writer, failed),
            }
        }
        end.is_err()
    }

    fn close_input(&mut self) {
        self.shared.close(self.input);
    }
}

impl Model {
    pub(crate) fn new(spec: GraphSpec) -> Self {
        let mut next = 0;
        let entries = spec.stages.iter().map(|stage| {
            let first = next;
            next += stage.replicas.as_ref().map_or(1, |replicas| replicas.count);
            first..next
        });
        let entries: Vec<Range<usize>> = entries.collect();
        let bits = |entries: &Range<usize>| entries.clone().fold(0, |all, entry| all | 1 << entry);
        let mut callers: StageSet = 1 << (next - 1);
        if spec.caller_source {
            callers |= bits(&entries[0]);
        }
        let queue = StageQueue::new(next, callers, Duration::ZERO, Duration::MAX, false);
        let queue = Arc::new(queue);
        let mut links = Vec::new();
        let mut ends = vec![(Vec::new(), Vec::new()); spec.stages.len()];
        let mut before: Vec<StageSet> = entries.iter().map(bits).collect();
        for (to, stage) in spec.stages.iter().enumerate() {
            for input in &stage.inputs {
                before[to] |= before[input.from];
                ends[to].0.push(links.len());
                ends[input.from].1.push(links.len());
                links.push(ModelLink {
                    link: Link::new(input.capacity),
                    writers: entries[input.from].clone(),
                    readers: entries[to].clone(),
                    failed: Mutex::new(false),
                });
            }
        }
        let shared = Arc::new(ModelGraph {
            ordered: spec.ordered(),
            spec,
            queue,
            links,
        });
        let (mut stages, mut ancestors) = (Vec::new(), Vec::new());
        let mut replicated = Vec::new();
        for (number, (inputs, outputs)) in ends.into_iter().enumerate() {
            let writers = outputs.into_iter().map(|link| Writer {
                link,
                events: Vec::new(),
            });
            let writers = writers.collect();
            ancestors.extend(entries[number].clone().map(|_| before[number]));
            let mut add = |work| stages.push((Mutex::new(work), AtomicUsize::new(0)));
            let Some(replicas) = &shared.spec.stages[number].replicas else {
                let readers = inputs.into_iter().map(|link| Reader {
                    link,
                    events: VecDeque::new(),
                    last: None,
                    ended: false,
                });
                add(Work::Whole(WholeStage {
                    number,
                    readers: readers.collect(),
                    writers,
                    made: 0,
                    taken: 0,
                }));
                continue;
            };
            let io = ModelIo {
                number,
                shared: Arc::clone(&shared),
                input: inputs[0],
                arrived: VecDeque::new(),
                taken: 0,
                input_ended: false,
                open_cell: None,
                writers,
            };
            let blocks = BlockScheduler::new(io, &shared.queue, &entries[number]);
            let blocks = Arc::new(blocks);
            for replica in 0..replicas.count {
                add(Work::Replica(Arc::clone(&blocks), replica));
            }
            replicated.push((number, blocks));
        }
        Self {
            shared,
            stages,
            ancestors,
            replicated,
            arrived: Mutex::default(),
            computing: AtomicUsize::new(0),
        }
    }

    pub(crate) fn run(self) -> Arrivals {
        let model = Arc::new(self);
        let helpers = (1..model.shared.spec.threads).map(|_| {
            let model = Arc::clone(&model);
            thread::spawn(move || {
                model.shared.queue.add_helper();
                model.work(ThreadRole::Helper, &mut || ());
                model.shared.queue.remove_helper();
            })
        });
        let helpers: Vec<_> = helpers.collect();
        let (mut bursts, mut changes) = (0, model.shared.spec.changes.iter().peekable());
        model.work(ThreadRole::Caller, &mut || {
            bursts += 1;
            while let Some((_, change)) = changes.next_if(|&&(at, _)| at <= bursts) {
                model.change(change);
            }
        });
        (0..model.shared.links.len()).for_each(|link| model.shared.close(link));
        for helper in helpers {
            helper.join().unwrap();
        }
        let model = Arc::into_inner(model).expect("a thread is left behind");
        model.arrived.into_inner().unwrap()
    }

    fn change(&self, change: &Change) {
        match *change {
            Change::Replicas { stage, count } => {
                let mut replicated = self.replicated.iter();
                let blocks = replicated.find(|&&(number, _)| number == stage);
                blocks.unwrap().1.set_replicas(count);
            }
            Change::Capacity { link, bytes } => {
                self.shared.links[link].link.set_capacity(bytes);
                self.shared.notify_writers(link);
            }
        }
    }

    fn work(&self, worker: ThreadRole, after_burst: &mut dyn FnMut()) {
        let queue = &self.shared.queue;
        while !queue.is_stopped() {
            match queue.take(worker, 0, 0) {
                Some(entry) => {
                    self.execute(worker, entry, 0);
                    after_burst();
                }
                None => queue.wait(worker),
            }
        }
    }

    fn execute(&self, worker: ThreadRole, entry: usize, excluded: StageSet) {
        self.computing.fetch_add(1, Ordering::SeqCst);
        let (work, own_excluded) = &self.stages[entry];
        own_excluded.store(excluded as usize, Ordering::SeqCst);
        let mut work = work.try_lock().expect("a stage is executed by two threads");
        let outcome = match &mut *work {
            Work::Whole(stage) => self.burst(worker, entry, stage),
            Work::Replica(blocks, replica) => match blocks.take(*replica) {
                Assignment::Block { number, block } => {
                    let result = self.compute(blocks, block);
                    blocks.complete(number, result)
                }
                Assignment::None(outcome) => outcome,
            },
        };
        drop(work);
        if outcome == StageOutcome::Ended && entry + 1 == self.stages.len() {
            self.shared.queue.stop();
        }
        self.computing.fetch_sub(1, Ordering::SeqCst);
        self.shared.queue.put_back(entry, outcome);
    }

    fn compute(&self, blocks: &BlockScheduler<ModelIo>, block: Block) -> BlockResult {
        let number = self.replicated.iter();
        let mut number = number.filter(|(_, one)| std::ptr::eq(&**one, blocks));
        let number = number.next().unwrap().0;
        let spec = &self.shared.spec.stages[number];
        let mut results = Vec::new();
        for (nth, event) in (block.first..).zip(block.events) {
            if spec.pauses_at == Some(nth) {
                self.pause();
            }
            if spec.fails_at == Some(nth) {
                return (results, Err(true));
            }
            results.extend(spec.results(number, event));
        }
        (results, Ok(()))
    }

    fn pause(&self) {
        self.computing.fetch_sub(1, Ordering::SeqCst);
        self.shared.queue.pause();
        let others = self.computing.fetch_add(1, Ordering::SeqCst);
        assert!(
            others == 0 || self.shared.queue.is_stopped(),
            "{others} compute"
        );
        self.shared.queue.end_pause();
    }

    fn make_room(&self, worker: ThreadRole, entry: usize, link: usize) {
        let (shared, link) = (&self.shared, &self.shared.links[link].link);
        let excluded = self.stages[entry].1.load(Ordering::SeqCst) as StageSet;
        let excluded = excluded | self.ancestors[entry];
        let has_room = || !link.is_full();
        self.computing.fetch_sub(1, Ordering::SeqCst);
        shared.queue.suspend(entry);
        while !has_room() && shared.queue.wait_suspended(worker, excluded, has_room) {
            if let Some(next) = shared.queue.take(worker, excluded, 0) {
                self.execute(worker, next, excluded);
            } else if shared.queue.is_stopped() {
                break;
            }
        }
        shared.queue.resume(entry);
        self.computing.fetch_add(1, Ordering::SeqCst);
    }

    fn burst(&self, worker: ThreadRole, entry: usize, stage: &mut WholeStage) -> StageOutcome {
        let shared = &self.shared;
        let spec = &shared.spec.stages[stage.number];
        if !shared.has_room(&stage.writers) {
            return StageOutcome::Full;
        }
        let mut end = None;
        for _ in 0..spec.burst {
            if shared.is_unread(&stage.writers) || spec.limit == Some(stage.taken) {
                end = Some(false);
                break;
            }
            let event = match stage.next(shared) {
                ReceiveOutcome::Batch(event) => event,
                ReceiveOutcome::Nothing => {
                    stage.send_all(shared);
                    return StageOutcome::Idle;
                }
                ReceiveOutcome::End => {
                    let mut links = stage.readers.iter();
                    end = Some(links.any(|reader| shared.has_failed(reader.link)));
                    break;
                }
            };
            let event = event.events[0];
            if spec.pauses_at == Some(stage.taken) {
                self.pause();
            }
            if spec.fails_at == Some(stage.taken) {
                end = Some(true);
                break;
            }
            stage.taken += 1;
            let mut ends_burst = false;
            for result in spec.results(stage.number, event) {
                if stage.writers.is_empty() {
                    let mut arrived = self.arrived.try_lock().unwrap();
                    arrived.record(result.lane, result.value.into_iter());
                }
                for writer in &mut stage.writers {
                    writer.events.push(result);
                    if writer.events.len() >= spec.batch {
                        shared.send(writer);
                        if shared.links[writer.link].link.is_overdrawn() {
                            self.make_room(worker, entry, writer.link);
                        }
                        ends_burst |= shared.links[writer.link].link.is_full();
                    }
                }
            }
            if ends_burst {
                break;
            }
        }
        stage.send_all(shared);
        if let Some(failed) = end {
            for writer in &mut stage.writers {
                shared.end(writer, failed);
            }
            for reader in &stage.readers {
                shared.close(reader.link);
            }
            if stage.writers.is_empty() {
                self.arrived.try_lock().unwrap().failed = failed;
            }
            return StageOutcome::Ended;
        }
        match shared.has_room(&stage.writers) {
            true => StageOutcome::Ran,
            false => StageOutcome::Full,
        }
    }
}

impl WholeStage {
    fn send_all(&mut self, shared: &ModelGraph) {
        for writer in &mut self.writers {
            shared.send(writer);
        }
    }

    /// `End` also after a failed link.
    fn next(&mut self, shared: &ModelGraph) -> ReceiveOutcome<Event> {
        let one = |event| {
            ReceiveOutcome::Batch(Batch {
                events: vec![event],
                bytes: 0,
                delivered: 0,
                arrived: None,
            })
        };
        if self.readers.is_empty() {
            let spec = &shared.spec.stages[self.number];
            if self.made == spec.items {
                return ReceiveOutcome::End;
            }
            self.made += 1;
            return one(spec.source_event(self.number, self.made - 1));
        }
        let is_ordered = shared.ordered[self.number];
        loop {
            let open = self.readers.iter_mut().enumerate();
            let open = open.filter(|(_, reader)| !reader.ended);
            let mut open: Vec<(usize, &mut Reader)> = open.collect();
            if open.is_empty() {
                return ReceiveOutcome::End;
            }
            open.sort_by_key(|(port, reader)| (reader.last, *port));
            if is_ordered {
                open.truncate(1);
            }
            let mut ended = false;
            for (port, reader) in open {
                if reader.events.is_empty() {
                    match shared.receive(reader.link) {
                        ReceiveOutcome::Batch(batch) => reader.events.extend(batch.events),
                        ReceiveOutcome::Nothing => continue,
                        ReceiveOutcome::End => {
                            (reader.ended, ended) = (true, true);
                            if is_ordered && shared.has_failed(reader.link) {
                                return ReceiveOutcome::End;
                            }
                            continue;
                        }
                    }
                }
                if let Some(mut event) = reader.events.pop_front() {
                    let before = reader.last.replace(event.time);
                    let spec = &shared.spec.stages[self.number];
                    match is_ordered {
                        true => event.time = spec.time_of(event.time, before),
                        false => event.lane = spec.lane_of(event.lane, port),
                    }
                    return one(event);
                }
            }
            if !ended {
                return ReceiveOutcome::Nothing;
            }
        }
    }
}
