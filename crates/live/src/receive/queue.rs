//! Bytes that arrived and wait for the run, bounded, and memory that is used again.
//!
//! One lock a packet, held for a copy of pointers: packets come some hundred thousand times a second at most, and
//! neither side does anything long under it.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// Memory that is kept for later packets: of none that is larger than a datagram.
const LARGEST: usize = 64 << 10;
/// Memory of packets that is kept for later ones.
const SPARE: usize = 64;

/// When something arrived.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct When {
    /// Since the feed began, by a clock that is never set.
    pub(crate) came: Duration,
    /// In civil time, ns since 1970.
    pub(crate) civil: i64,
    /// When the first sample was taken, in civil time, where that is known better than by the arrival.
    pub(crate) taken: Option<i64>,
}

/// What arrived at once.
#[derive(Debug, Default)]
pub(crate) struct Packet {
    pub(crate) bytes: Vec<u8>,
    pub(crate) when: When,
    /// First of a connection; of what is pushed, any: another session is believed at once.
    pub(crate) fresh: bool,
    /// Bytes that were dropped before it for want of room.
    pub(crate) dropped: u64,
}

#[derive(Debug, Default)]
struct State {
    packets: VecDeque<Packet>,
    bytes: usize,
    spare: Vec<Vec<u8>>,
    dropped: u64,
    /// Nothing follows.
    ended: bool,
    /// Nobody listens any more.
    stopped: bool,
    listener: Option<Thread>,
}

/// A bounded queue of packets.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    room: Condvar,
    limit: usize,
}

impl Queue {
    /// One that holds so many bytes, or one packet.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            state: Mutex::default(),
            room: Condvar::new(),
            limit,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, state: &mut State, bytes: &[u8], when: When, fresh: bool) {
        let mut memory = state.spare.pop().unwrap_or_default();
        memory.clear();
        memory.extend_from_slice(bytes);
        state.bytes += bytes.len();
        let dropped = std::mem::take(&mut state.dropped);
        state.packets.push_back(Packet {
            bytes: memory,
            when,
            fresh,
            dropped,
        });
        if let Some(listener) = &state.listener {
            listener.unpark();
        }
    }

    /// Queues a packet if there is room; says whether there was.
    pub(crate) fn offer(&self, bytes: &[u8], when: When, fresh: bool) -> bool {
        let mut state = self.lock();
        if state.bytes + bytes.len() > self.limit && !state.packets.is_empty() {
            state.dropped += bytes.len() as u64;
            return false;
        }
        self.push(&mut state, bytes, when, fresh);
        true
    }

    /// Queues a packet when there is room; false if nobody listens any more.
    pub(crate) fn put(&self, bytes: &[u8], when: When, fresh: bool) -> bool {
        let mut state = self.lock();
        while !state.stopped && state.bytes + bytes.len() > self.limit && !state.packets.is_empty()
        {
            state = self
                .room
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if !state.stopped {
            self.push(&mut state, bytes, when, fresh);
        }
        !state.stopped
    }

    /// The next packet, and whether nothing follows if there is none.
    pub(crate) fn take(&self) -> Result<Packet, bool> {
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
        if state.spare.len() < SPARE && bytes.capacity() <= LARGEST {
            state.spare.push(bytes);
        }
    }

    /// Whom to wake when something arrives.
    pub(crate) fn wakes(&self, thread: Thread) {
        self.lock().listener = Some(thread);
    }

    /// Nothing follows.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        if let Some(listener) = &state.listener {
            listener.unpark();
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

    const WHEN: When = When {
        came: Duration::ZERO,
        civil: 0,
        taken: None,
    };

    #[test]
    fn what_finds_no_room_is_counted_at_the_next_packet() {
        let queue = Queue::new(10);
        assert!(queue.offer(&[1; 6], WHEN, false));
        assert!(!queue.offer(&[2; 6], WHEN, false));
        assert!(queue.offer(&[3; 4], WHEN, false));
        assert_eq!(queue.take().unwrap().dropped, 0);
        let second = queue.take().unwrap();
        assert_eq!((second.dropped, second.bytes), (6, vec![3; 4]));
        assert!(!queue.take().unwrap_err());
        // One packet always finds room.
        assert!(queue.offer(&[4; 60], WHEN, false));
        queue.end();
        assert_eq!(queue.take().unwrap().bytes.len(), 60);
        assert!(queue.take().unwrap_err());
    }

    #[test]
    fn who_can_wait_waits_until_there_is_room_or_nobody_listens() {
        let queue = Arc::new(Queue::new(8));
        let other = queue.clone();
        let writer = std::thread::spawn(move || {
            (0..1000u32).all(|k| other.put(&k.to_le_bytes(), WHEN, false))
        });
        for k in 0..1000u32 {
            let packet = loop {
                if let Ok(packet) = queue.take() {
                    break packet;
                }
                std::thread::yield_now();
            };
            assert_eq!(packet.bytes, k.to_le_bytes());
            queue.recycle(packet.bytes);
        }
        assert!(writer.join().unwrap());
        let other = queue.clone();
        let writer = std::thread::spawn(move || (0..10).all(|_| other.put(&[0; 8], WHEN, false)));
        queue.stop();
        assert!(!writer.join().unwrap());
    }
}
