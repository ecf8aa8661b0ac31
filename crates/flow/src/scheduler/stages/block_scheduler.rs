//! Hands out the blocks of a replicated stage to its replicas, and sends what they give in the order of the input.
//!
//! ```text
//!            take    +-----------+   complete
//!         ---------> | replica 0 | -----------+
//!  input             +-----------+            +--> slots: Done 7, InFlight 8, Done 9 --> send 7; 9 waits for 8
//!         ---------> | replica 1 | -----------+           ^ oldest
//!                    +-----------+
//! ```
//!
//! Each block has a slot, in input order, and so has what needs no replica. Whoever fills the oldest slot sends all
//! that is complete, once there is room. At most [`BLOCKS_PER_REPLICA`] slots per replica are in use. No replica waits
//! for another under the lock.
//!
//! Does not know what a block is, so that model checkers can test it (`tests/loom_models/replicas.rs`,
//! `tests/shuttle_stages.rs`).

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::stage_queue::{Notice, StageOutcome, StageQueue};
use super::sync::{AtomicUsize, Mutex, MutexGuard, PoisonError};

const BLOCKS_PER_REPLICA: usize = 3;

/// Called under the scheduler's lock.
pub(crate) trait StageIo {
    type Block;
    type Result;

    /// The replica that must compute the next block, if not any can.
    fn owner(&self) -> Option<usize>;

    fn next(&mut self, replica: usize) -> NextInput<Self::Block, Self::Result>;

    fn has_more(&self) -> bool;

    fn has_room(&self) -> bool;

    /// Sends the oldest result. True if the stage ends with it.
    fn send(&mut self, result: Self::Result) -> bool;

    fn close_input(&mut self);
}

pub(crate) enum NextInput<B, R> {
    Block(B),
    /// It needs no replica.
    Pass(R),
    /// Nothing follows.
    Last(R),
    Nothing,
}

pub(crate) enum Assignment<B> {
    /// Passed to [`BlockScheduler::complete`] with its number.
    Block { number: u64, block: B },
    /// The outcome of its burst.
    None(StageOutcome),
}

enum BlockSlot<R> {
    InFlight,
    Done(R),
}

pub(crate) struct BlockOrder<S: StageIo> {
    pub(crate) io: S,
    first: u64,
    slots: VecDeque<BlockSlot<S::Result>>,
    ended: bool,
}

impl<S: StageIo> BlockOrder<S> {
    pub(crate) fn buffered(&self) -> impl Iterator<Item = &S::Result> {
        self.slots.iter().filter_map(|slot| match slot {
            BlockSlot::Done(result) => Some(result),
            BlockSlot::InFlight => None,
        })
    }
}

pub(crate) struct BlockScheduler<S: StageIo> {
    order: Mutex<BlockOrder<S>>,
    queue: Arc<StageQueue>,
    entries: Range<usize>,
    /// How many replicas take blocks, at least 1.
    replicas: AtomicUsize,
    slots: AtomicUsize,
}

impl<S: StageIo> BlockScheduler<S> {
    pub(crate) fn new(io: S, queue: &Arc<StageQueue>, entries: &Range<usize>) -> Self {
        Self {
            order: Mutex::new(BlockOrder {
                io,
                first: 0,
                slots: VecDeque::new(),
                ended: false,
            }),
            queue: Arc::clone(queue),
            entries: entries.clone(),
            replicas: AtomicUsize::new(entries.len()),
            slots: AtomicUsize::new(0),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, BlockOrder<S>> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn replicas(&self) -> usize {
        self.replicas.load(Ordering::Relaxed)
    }

    pub(crate) fn max_replicas(&self) -> usize {
        self.entries.len()
    }

    /// A retired replica completes its block.
    pub(crate) fn set_replicas(&self, replicas: usize) {
        let replicas = replicas.clamp(1, self.entries.len());
        self.replicas.store(replicas, Ordering::Relaxed);
        self.notify_all(Notice::Recall);
    }

    /// A slot of a cluster has as many blocks as a replica.
    pub(crate) fn set_slots(&self, slots: usize) {
        self.slots.store(slots, Ordering::Relaxed);
    }

    pub(crate) fn notify_waiting(&self) {
        for notice in [Notice::Room, Notice::Input, Notice::Recall] {
            self.notify_all(notice);
        }
    }

    /// For a replica that can take nothing now.
    pub(crate) fn send_ready(&self) -> StageOutcome {
        let mut order = self.lock();
        self.send_complete(&mut order);
        match order.ended {
            true => StageOutcome::Ended,
            false => StageOutcome::Full,
        }
    }

    fn notify_all(&self, notice: Notice) {
        for entry in self.entries.clone() {
            self.queue.notify(entry, notice);
        }
    }

    pub(crate) fn take(&self, replica: usize) -> Assignment<S::Block> {
        let mut order = self.lock();
        if order.ended {
            return Assignment::None(StageOutcome::Ended);
        }
        self.send_complete(&mut order);
        if order.ended {
            return Assignment::None(StageOutcome::Ended);
        }
        let is_retired =
            replica >= self.replicas.load(Ordering::Relaxed) && order.io.owner() != Some(replica);
        if is_retired {
            // Another one takes what this one was woken for.
            let own = self.entries.start + replica;
            for entry in self.entries.clone().filter(|&entry| entry != own) {
                self.queue.notify(entry, Notice::Input);
            }
            return Assignment::None(StageOutcome::Retired);
        }
        let slots = self.slots.load(Ordering::Relaxed);
        let window = BLOCKS_PER_REPLICA * (self.entries.len() + slots);
        if !order.io.has_room() || order.slots.len() >= window {
            return Assignment::None(StageOutcome::Full);
        }
        let next = self.next_block(&mut order, replica);
        self.send_complete(&mut order);
        let Some((number, block)) = next else {
            return Assignment::None(match order.slots.front() {
                _ if order.ended => StageOutcome::Ended,
                // What needs no replica filled the link: nobody else would send the rest.
                Some(BlockSlot::Done(_)) => StageOutcome::Full,
                _ => StageOutcome::Idle,
            });
        };
        // There may be a block for another replica.
        let more = order.io.has_more();
        drop(order);
        if more {
            self.notify_all(Notice::Input);
        }
        Assignment::Block { number, block }
    }

    /// What needs no replica takes its place among the blocks.
    fn next_block(&self, order: &mut BlockOrder<S>, replica: usize) -> Option<(u64, S::Block)> {
        loop {
            if let Some(owner) = order.io.owner().filter(|&owner| owner != replica) {
                for notice in [Notice::Input, Notice::Recall] {
                    self.queue.notify(self.entries.start + owner, notice);
                }
                return None;
            }
            let number = order.first + order.slots.len() as u64;
            match order.io.next(replica) {
                NextInput::Block(block) => {
                    order.slots.push_back(BlockSlot::InFlight);
                    return Some((number, block));
                }
                NextInput::Pass(result) => order.slots.push_back(BlockSlot::Done(result)),
                NextInput::Last(result) => {
                    order.slots.push_back(BlockSlot::Done(result));
                    return None;
                }
                NextInput::Nothing => return None,
            }
        }
    }

    pub(crate) fn complete(&self, number: u64, result: S::Result) -> StageOutcome {
        let mut order = self.lock();
        // None if the stage has ended.
        let at = number.checked_sub(order.first).map(|at| at as usize);
        if let Some(slot) = at.and_then(|at| order.slots.get_mut(at)) {
            *slot = BlockSlot::Done(result);
        }
        self.send_complete(&mut order);
        match order.ended {
            true => StageOutcome::Ended,
            false => StageOutcome::Ran,
        }
    }

    fn send_complete(&self, order: &mut BlockOrder<S>) {
        let mut sent = false;
        while !order.ended
            && order.io.has_room()
            && let Some(BlockSlot::Done(_)) = order.slots.front()
            && let Some(BlockSlot::Done(result)) = order.slots.pop_front()
        {
            (order.first, sent) = (order.first + 1, true);
            order.ended = order.io.send(result);
        }
        if !sent {
            return;
        }
        if order.ended {
            order.slots.clear();
            order.io.close_input();
            self.notify_all(Notice::Recall);
        }
        self.notify_all(Notice::Room);
    }
}
