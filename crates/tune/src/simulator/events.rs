//! Queue of future events; simultaneous ones in planning order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A thread has finished, unless preempted since this version.
    Done { thread: u32, version: u32 },
    /// A woken thread looks for work.
    Wakes { thread: u32 },
    /// The source of a stage has another item.
    Arrives { stage: u32 },
    /// A task's time slice may be over.
    SliceEnds,
    /// A competitor starts or ends.
    CompetitorChanges { index: u32 },
    /// Threads other than the caller's begin.
    HelpersBegin,
}

#[derive(Default)]
pub(super) struct EventQueue {
    /// Time and sequence number: bits of non-negative floats sort as the floats.
    heap: BinaryHeap<Reverse<(u128, Event)>>,
    planned: u64,
}

impl EventQueue {
    /// `time` is at least 0.
    pub(super) fn push(&mut self, time: f64, event: Event) {
        let key = u128::from(time.to_bits()) << 64 | u128::from(self.planned);
        self.planned += 1;
        self.heap.push(Reverse((key, event)));
    }

    pub(super) fn pop_until(&mut self, until: f64) -> Option<(f64, Event)> {
        let &Reverse((key, event)) = self.heap.peek()?;
        let time = f64::from_bits((key >> 64) as u64);
        if time > until {
            return None;
        }
        self.heap.pop();
        Some((time, event))
    }
}
