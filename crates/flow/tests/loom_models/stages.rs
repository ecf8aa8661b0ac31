//! Links and the stage queue, under every interleaving of two threads with at most three preemptions: events come once
//! and in order, no notice is lost, nobody computes during a pause, and all threads end. No wait times out.

use std::sync::Arc;
use std::time::Duration;

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::link::{Batch, Link, ReceiveOutcome};
use crate::stage_queue::{Notice, StageOutcome, StageQueue, StageSet, ThreadRole};

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

fn batch(event: u32) -> Batch<u32> {
    Batch {
        events: vec![event],
        bytes: 1,
        delivered: 0,
        arrived: None,
    }
}

/// Each stage adds 10; the last, of the caller, keeps events.
struct Row {
    queue: StageQueue,
    links: Vec<Link<u32>>,
    events: u32,
    burst: u32,
    /// Taken first by the caller and the helper.
    preferred: [StageSet; 2],
    made: Mutex<u32>,
    got: Mutex<Vec<u32>>,
    /// Threads in a burst.
    computing: AtomicUsize,
}

impl Row {
    fn new(links: usize, events: u32, burst: u32) -> Arc<Self> {
        Self::with_homes(links, events, burst, [0, 0])
    }

    fn with_homes(links: usize, events: u32, burst: u32, preferred: [StageSet; 2]) -> Arc<Self> {
        let last = links;
        let callers: StageSet = 1 << last;
        Arc::new(Self {
            queue: StageQueue::new(links + 1, callers, Duration::ZERO, Duration::MAX, true),
            links: (0..links).map(|_| Link::new(1)).collect(),
            events,
            burst,
            preferred,
            made: Mutex::new(0),
            got: Mutex::new(Vec::new()),
            computing: AtomicUsize::new(0),
        })
    }

    fn send(&self, link: usize, event: u32) {
        self.links[link].send(batch(event));
        self.queue.notify(link + 1, Notice::Input);
    }

    fn end(&self, link: usize) {
        self.links[link].end();
        self.queue.notify(link + 1, Notice::Input);
    }

    /// In the middle of a burst.
    fn make_room(&self, worker: ThreadRole, stage: usize) {
        let has_room = || !self.links[stage].is_full();
        let before: StageSet = (1 << (stage + 1)) - 1;
        self.queue.suspend(stage);
        while !has_room() && self.queue.wait_suspended(worker, before, has_room) {
            if let Some(next) = self.queue.take(worker, before, 0) {
                self.execute(worker, next);
            }
        }
        self.queue.resume(stage);
    }

    fn execute(&self, worker: ThreadRole, stage: usize) {
        let outcome = self.burst(worker, stage);
        self.queue.put_back(stage, outcome);
    }

    fn burst(&self, worker: ThreadRole, stage: usize) -> StageOutcome {
        if self.links.get(stage).is_some_and(Link::is_full) {
            return StageOutcome::Full;
        }
        if stage == 0 {
            for nth in 0..self.burst {
                if nth > 0 && self.links[0].is_full() {
                    self.make_room(worker, 0);
                }
                let mut made = self.made.lock().unwrap();
                let event = *made;
                *made += 1;
                drop(made);
                self.send(0, event);
                if event + 1 == self.events {
                    self.end(0);
                    return StageOutcome::Ended;
                }
            }
            return StageOutcome::Ran;
        }
        let from = &self.links[stage - 1];
        match from.receive() {
            ReceiveOutcome::Batch(batch) => {
                if from.has_room() {
                    self.queue.notify(stage - 1, Notice::Room);
                }
                for event in batch.events {
                    match stage < self.links.len() {
                        true => self.send(stage, event + 10),
                        false => self.got.lock().unwrap().push(event),
                    }
                }
                StageOutcome::Ran
            }
            ReceiveOutcome::Nothing => StageOutcome::Idle,
            ReceiveOutcome::End => {
                match stage < self.links.len() {
                    true => self.end(stage),
                    false => self.queue.stop(),
                }
                StageOutcome::Ended
            }
        }
    }

    fn work(&self, worker: ThreadRole) {
        while !self.queue.is_stopped() {
            match self.queue.take(worker, 0, self.preferred[worker as usize]) {
                Some(stage) => {
                    self.computing.fetch_add(1, Ordering::SeqCst);
                    self.execute(worker, stage);
                    self.computing.fetch_sub(1, Ordering::SeqCst);
                }
                None => self.queue.wait(worker),
            }
        }
    }

    /// In the caller's thread and one other; returns what arrived.
    fn run(self: &Arc<Self>) -> Vec<u32> {
        let row = Arc::clone(self);
        let helper = thread::spawn(move || {
            row.queue.add_helper();
            row.work(ThreadRole::Helper);
            row.queue.remove_helper();
        });
        self.work(ThreadRole::Caller);
        helper.join().unwrap();
        self.got.lock().unwrap().clone()
    }
}

#[test]
fn three_events_come_in_order_through_a_link_for_one() {
    model(|| assert_eq!(Row::new(1, 3, 1).run(), [0, 1, 2]));
}

#[test]
fn events_come_in_order_through_two_links() {
    model(|| assert_eq!(Row::new(2, 2, 1).run(), [10, 11]));
}

#[test]
fn an_event_comes_through_stages_at_home_with_either_thread() {
    // The first stage is the caller's home, the second the helper's.
    model(|| assert_eq!(Row::with_homes(2, 1, 1, [0b001, 0b010]).run(), [10]));
}

#[test]
fn a_burst_that_gives_more_than_a_link_holds_goes_on() {
    model(|| assert_eq!(Row::new(1, 3, 3).run(), [0, 1, 2]));
}

#[test]
fn nobody_waits_for_room_for_ever_where_nobody_else_works() {
    model(|| {
        let row = Row::new(2, 3, 3);
        row.work(ThreadRole::Caller);
        assert_eq!(*row.got.lock().unwrap(), [10, 11, 12]);
    });
}

#[test]
fn a_reader_that_closes_the_link_sets_the_writer_free() {
    model(|| {
        let row = Row::new(1, 3, 1);
        let closes = Arc::clone(&row);
        let helper = thread::spawn(move || {
            let mut bursts = 0;
            while bursts < 3 {
                match closes.queue.take(ThreadRole::Helper, 0, 0) {
                    Some(stage) => {
                        closes.execute(ThreadRole::Helper, stage);
                        bursts = *closes.made.lock().unwrap();
                    }
                    None => closes.queue.wait(ThreadRole::Helper),
                }
            }
        });
        row.links[0].close();
        row.queue.notify(0, Notice::Room);
        helper.join().unwrap();
    });
}

#[test]
fn one_thread_at_a_time_has_all_while_the_others_are_paused() {
    model(|| {
        let queue = Arc::new(StageQueue::new(
            2,
            0b10,
            Duration::ZERO,
            Duration::MAX,
            true,
        ));
        let computing = Arc::new(AtomicUsize::new(0));
        let work = |worker: ThreadRole| {
            let (queue, computing) = (Arc::clone(&queue), Arc::clone(&computing));
            move || {
                let stage = loop {
                    match queue.take(worker, if worker == ThreadRole::Caller { 1 } else { 0 }, 0) {
                        Some(stage) => break stage,
                        None => queue.wait(worker),
                    }
                };
                computing.fetch_add(1, Ordering::SeqCst);
                computing.fetch_sub(1, Ordering::SeqCst);
                queue.pause();
                assert_eq!(computing.load(Ordering::SeqCst), 0);
                queue.end_pause();
                queue.put_back(stage, StageOutcome::Ended);
            }
        };
        let helper = thread::spawn(work(ThreadRole::Helper));
        work(ThreadRole::Caller)();
        helper.join().unwrap();
    });
}
