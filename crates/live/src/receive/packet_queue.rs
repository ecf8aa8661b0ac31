//! Bytes that arrived and wait for the run, bounded, and memory that is used again.
//!
//! One lock a packet, held for a copy of pointers: packets come some hundred thousand times a second at most, and
//! neither side does anything long under it.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// Memory that is kept for later packets: of none that is larger than a datagram.
const MAX_SPARE_BYTES: usize = 64 << 10;
/// Memory of packets that is kept for later ones.
const MAX_SPARE_BUFFERS: usize = 64;

/// When something arrived.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ArrivalTime {
    /// Since the feed began, by a clock that is never set.
    pub(crate) since_start: Duration,
    /// In civil time, ns since 1970.
    pub(crate) civil_ns: i64,
    /// When the first sample was taken, in civil time, where that is known better than by the arrival.
    pub(crate) sampled_ns: Option<i64>,
}

/// What arrived at once.
#[derive(Debug, Default)]
pub(crate) struct Packet {
    pub(crate) bytes: Vec<u8>,
    pub(crate) arrival: ArrivalTime,
    /// First of a connection; of what is pushed, any: another session is believed at once.
    pub(crate) is_first: bool,
    /// Bytes that were dropped before it for want of room.
    pub(crate) dropped: u64,
}

#[derive(Debug, Default)]
struct QueueState {
    packets: VecDeque<Packet>,
    bytes: usize,
    spare: Vec<Vec<u8>>,
    dropped: u64,
    /// Nothing follows.
    ended: bool,
    /// Nobody listens any more.
    stopped: bool,
    waiter: Option<Thread>,
}

/// A bounded queue of packets.
#[derive(Debug)]
pub(crate) struct PacketQueue {
    state: Mutex<QueueState>,
    room: Condvar,
    limit: usize,
}

impl PacketQueue {
    /// One that holds so many bytes, or one packet.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            state: Mutex::default(),
            room: Condvar::new(),
            limit,
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, state: &mut QueueState, bytes: &[u8], arrival: ArrivalTime, is_first: bool) {
        let mut memory = state.spare.pop().unwrap_or_default();
        memory.clear();
        memory.extend_from_slice(bytes);
        state.bytes += bytes.len();
        let dropped = std::mem::take(&mut state.dropped);
        state.packets.push_back(Packet {
            bytes: memory,
            arrival,
            is_first,
            dropped,
        });
        if let Some(waiter) = &state.waiter {
            waiter.unpark();
        }
    }

    /// Queues a packet if there is room; says whether there was.
    pub(crate) fn try_push(&self, bytes: &[u8], arrival: ArrivalTime, is_first: bool) -> bool {
        let mut state = self.lock();
        if state.bytes + bytes.len() > self.limit && !state.packets.is_empty() {
            state.dropped += bytes.len() as u64;
            return false;
        }
        self.append(&mut state, bytes, arrival, is_first);
        true
    }

    /// Queues a packet when there is room; false if nobody listens any more.
    pub(crate) fn push(&self, bytes: &[u8], arrival: ArrivalTime, is_first: bool) -> bool {
        let mut state = self.lock();
        while !state.stopped && state.bytes + bytes.len() > self.limit && !state.packets.is_empty()
        {
            state = self
                .room
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if !state.stopped {
            self.append(&mut state, bytes, arrival, is_first);
        }
        !state.stopped
    }

    /// The next packet, and whether nothing follows if there is none.
    pub(crate) fn pop(&self) -> Result<Packet, bool> {
        let mut state = self.lock();
        let Some(packet) = state.packets.pop_front() else {
            return Err(state.ended);
        };
        state.bytes -= packet.bytes.len();
        self.room.notify_one();
        Ok(packet)
    }

    /// Takes a packet's memory back.
    pub(crate) fn recycle(&self, bytes: Vec<u8>) {
        let mut state = self.lock();
        if state.spare.len() < MAX_SPARE_BUFFERS && bytes.capacity() <= MAX_SPARE_BYTES {
            state.spare.push(bytes);
        }
    }

    /// Whom to wake when something arrives.
    pub(crate) fn set_waiter(&self, thread: Thread) {
        self.lock().waiter = Some(thread);
    }

    /// Nothing follows.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        if let Some(waiter) = &state.waiter {
            waiter.unpark();
        }
    }

    /// Nobody listens any more.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.room.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const ARRIVAL: ArrivalTime = ArrivalTime {
        since_start: Duration::ZERO,
        civil_ns: 0,
        sampled_ns: None,
    };

    #[test]
    fn what_finds_no_room_is_counted_at_the_next_packet() {
        let queue = PacketQueue::new(10);
        assert!(queue.try_push(&[1; 6], ARRIVAL, false));
        assert!(!queue.try_push(&[2; 6], ARRIVAL, false));
        assert!(queue.try_push(&[3; 4], ARRIVAL, false));
        assert_eq!(queue.pop().unwrap().dropped, 0);
        let second = queue.pop().unwrap();
        assert_eq!((second.dropped, second.bytes), (6, vec![3; 4]));
        assert!(!queue.pop().unwrap_err());
        // One packet always finds room.
        assert!(queue.try_push(&[4; 60], ARRIVAL, false));
        queue.end();
        assert_eq!(queue.pop().unwrap().bytes.len(), 60);
        assert!(queue.pop().unwrap_err());
    }

    #[test]
    fn who_can_wait_waits_until_there_is_room_or_nobody_listens() {
        let queue = Arc::new(PacketQueue::new(8));
        let other = queue.clone();
        let writer = std::thread::spawn(move || {
            (0..1000u32).all(|k| other.push(&k.to_le_bytes(), ARRIVAL, false))
        });
        for k in 0..1000u32 {
            let packet = loop {
                if let Ok(packet) = queue.pop() {
                    break packet;
                }
                std::thread::yield_now();
            };
            assert_eq!(packet.bytes, k.to_le_bytes());
            queue.recycle(packet.bytes);
        }
        assert!(writer.join().unwrap());
        let other = queue.clone();
        let writer =
            std::thread::spawn(move || (0..10).all(|_| other.push(&[0; 8], ARRIVAL, false)));
        queue.stop();
        assert!(!writer.join().unwrap());
    }
}
