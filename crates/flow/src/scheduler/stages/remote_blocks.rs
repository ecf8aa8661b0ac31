//! Blocks of replicated stages on their way to slots of a cluster.
//!
//! ```text
//!            admit, offer    +----------------------+   next     +--------+
//!  replicas ---------------> | waiting: 12 13       | ---------> | slot 0 | --+
//!            Full            | in flight: 10 11     | ---------> | slot 1 | --+--> complete
//!         <---------------   +----------------------+   repeat   +--------+
//!                                                   <---------   (lost)
//! ```
//!
//! While there are slots, a replica takes blocks for them and computes none, so that its thread is free for stages that
//! work in order. Without a slot it computes blocks itself: a feed never waits for a worker. All replicated stages
//! share the slots.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::replicated_io::BlockInput;
use crate::scheduler::remote::PlacedBlock;

/// One is computed while the other travels.
pub(super) const BLOCKS_PER_SLOT: usize = 2;

pub(super) struct TakenBlock {
    pub(super) placed: PlacedBlock,
    pub(super) input: BlockInput,
}

#[derive(Default)]
struct BlockQueues {
    /// In the order of taking; those of lost slots first.
    waiting: VecDeque<TakenBlock>,
    local: VecDeque<TakenBlock>,
    in_flight: usize,
    slots: usize,
    ended: bool,
}

pub(super) enum Admission {
    Compute(Option<Box<TakenBlock>>),
    /// Take the next block and call [`RemoteBlocks::offer`]. Several replicas may do so at once: slots then have a few
    /// more than they need.
    Offer,
    /// It is notified when a slot is free.
    Full,
}

#[derive(Default)]
pub(super) struct RemoteBlocks {
    state: Mutex<BlockQueues>,
    changed: Condvar,
}

impl RemoteBlocks {
    fn lock(&self) -> MutexGuard<'_, BlockQueues> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn admit(&self, stage: usize) -> Admission {
        let mut state = self.lock();
        let of_stage = |blocks: &VecDeque<TakenBlock>| {
            let mut blocks = blocks.iter();
            blocks.position(|block| block.placed.stage == stage)
        };
        if let Some(at) = of_stage(&state.local) {
            return Admission::Compute(state.local.remove(at).map(Box::new));
        }
        if state.slots == 0 {
            let at = of_stage(&state.waiting);
            let block = at.and_then(|at| state.waiting.remove(at));
            return Admission::Compute(block.map(Box::new));
        }
        if state.waiting.len() + state.in_flight >= BLOCKS_PER_SLOT * state.slots {
            return Admission::Full;
        }
        Admission::Offer
    }

    pub(super) fn offer(&self, block: TakenBlock) {
        self.lock().waiting.push_back(block);
        self.changed.notify_one();
    }

    /// `waits`: until there is one; None is then the end.
    pub(super) fn next(&self, waits: bool) -> Option<TakenBlock> {
        let mut state = self.lock();
        loop {
            if state.ended {
                return None;
            }
            if let Some(block) = state.waiting.pop_front() {
                state.in_flight += 1;
                return Some(block);
            }
            if !waits {
                return None;
            }
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn complete(&self) {
        self.lock().in_flight -= 1;
    }

    pub(super) fn keep(&self, block: TakenBlock) {
        let mut state = self.lock();
        state.in_flight -= 1;
        state.local.push_back(block);
    }

    /// Returns how many slots there are.
    pub(super) fn join(&self) -> usize {
        let mut state = self.lock();
        state.slots += 1;
        state.slots
    }

    /// Others compute the slot's blocks, the oldest first. Returns how many slots there are.
    pub(super) fn leave(&self, blocks: impl DoubleEndedIterator<Item = TakenBlock>) -> usize {
        let mut state = self.lock();
        for block in blocks.rev() {
            state.in_flight -= 1;
            state.waiting.push_front(block);
        }
        state.slots -= 1;
        let slots = state.slots;
        drop(state);
        self.changed.notify_all();
        slots
    }

    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::replica::TaskPart;
    use crate::scheduler::stages::StreamBlock;

    fn block(stage: usize, number: u64) -> TakenBlock {
        TakenBlock {
            placed: PlacedBlock {
                stage,
                number,
                block: StreamBlock::new(0..1, None, Vec::new(), TaskPart::WHOLE),
            },
            input: BlockInput::default(),
        }
    }

    fn number(block: Option<TakenBlock>) -> Option<u64> {
        block.map(|block| block.placed.number)
    }

    #[test]
    fn blocks_of_a_lost_slot_come_first_in_their_order() {
        let blocks = RemoteBlocks::default();
        assert_eq!((blocks.join(), blocks.join()), (1, 2));
        (0..4).for_each(|number| blocks.offer(block(0, number)));
        assert!(matches!(blocks.admit(0), Admission::Full));
        let sent = [blocks.next(false), blocks.next(false)].map(Option::unwrap);
        assert_eq!(blocks.leave(sent.into_iter()), 1);
        let order: Vec<_> = (0..5).map(|_| number(blocks.next(false))).collect();
        assert_eq!(order, [Some(0), Some(1), Some(2), Some(3), None]);
        (0..3).for_each(|_| blocks.complete());
        assert!(matches!(blocks.admit(0), Admission::Offer));
    }

    #[test]
    fn this_process_computes_blocks_that_no_slot_can() {
        let blocks = RemoteBlocks::default();
        assert!(matches!(blocks.admit(0), Admission::Compute(None)));
        blocks.join();
        blocks.offer(block(0, 0));
        blocks.offer(block(1, 0));
        let kept = blocks.next(false).unwrap();
        blocks.keep(kept);
        assert!(matches!(blocks.admit(1), Admission::Offer));
        assert!(matches!(blocks.admit(0), Admission::Compute(Some(_))));
        assert_eq!(blocks.leave(std::iter::empty()), 0);
        assert!(matches!(blocks.admit(0), Admission::Compute(None)));
        assert!(matches!(blocks.admit(1), Admission::Compute(Some(_))));
        blocks.end();
        assert!(blocks.next(true).is_none());
    }
}
