//! Bounded queue of packets, which reuses their memory.
//!
//! One lock is enough: it is held for a short copy.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

const MAX_SPARE_BYTES: usize = 64 << 10;
const MAX_SPARE_BUFFERS: usize = 64;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ArrivalTime {
    /// Monotonic, since the run started.
    pub(crate) since_start: Duration,
    pub(crate) civil_ns: i64,
    /// From a driver: civil time of the first sample.
    pub(crate) sampled_ns: Option<i64>,
}

#[derive(Debug, Default)]
pub(crate) struct Packet {
    pub(crate) bytes: Vec<u8>,
    pub(crate) arrival: ArrivalTime,
    /// First of a connection, or pushed: trusted at once.
    pub(crate) is_first: bool,
    /// Bytes dropped right before it.
    pub(crate) dropped: u64,
}

#[derive(Debug, Default)]
struct QueueState {
    packets: VecDeque<Packet>,
    bytes: usize,
    spare: Vec<Vec<u8>>,
    dropped: u64,
    ended: bool,
    stopped: bool,
    waker: Option<Waker>,
    /// When it was last found empty: later packets have arrived no earlier.
    empty_at: Duration,
}

#[derive(Debug)]
pub(crate) struct PacketQueue {
    state: Mutex<QueueState>,
    room: Condvar,
    limit: usize,
}

impl PacketQueue {
    /// Capacity in bytes; a single packet may be larger.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            state: Mutex::default(),
            room: Condvar::new(),
            limit,
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(
        &self,
        state: &mut QueueState,
        bytes: &[u8],
        mut arrival: ArrivalTime,
        is_first: bool,
    ) {
        arrival.since_start = arrival.since_start.max(state.empty_at);
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
        if let Some(waker) = &state.waker {
            waker.wake_by_ref();
        }
    }

    pub(crate) fn try_push(&self, bytes: &[u8], arrival: ArrivalTime, is_first: bool) -> bool {
        let mut state = self.lock();
        if state.bytes + bytes.len() > self.limit && !state.packets.is_empty() {
            state.dropped += bytes.len() as u64;
            return false;
        }
        self.append(&mut state, bytes, arrival, is_first);
        true
    }

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

    /// The next packet; `Err`: whether nothing follows.
    pub(crate) fn pop(&self, now: Duration) -> Result<Packet, bool> {
        let mut state = self.lock();
        let Some(packet) = state.packets.pop_front() else {
            state.empty_at = state.empty_at.max(now);
            return Err(state.ended);
        };
        state.bytes -= packet.bytes.len();
        self.room.notify_one();
        Ok(packet)
    }

    pub(crate) fn recycle(&self, bytes: Vec<u8>) {
        let mut state = self.lock();
        if state.spare.len() < MAX_SPARE_BUFFERS && bytes.capacity() <= MAX_SPARE_BYTES {
            state.spare.push(bytes);
        }
    }

    pub(crate) fn set_waker(&self, waker: Waker) {
        self.lock().waker = Some(waker);
    }

    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        if let Some(waker) = &state.waker {
            waker.wake_by_ref();
        }
    }

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
    fn dropped_packets_are_counted_at_the_next_packet() {
        let queue = PacketQueue::new(10);
        assert!(queue.try_push(&[1; 6], ARRIVAL, false));
        assert!(!queue.try_push(&[2; 6], ARRIVAL, false));
        assert!(queue.try_push(&[3; 4], ARRIVAL, false));
        assert_eq!(queue.pop(Duration::ZERO).unwrap().dropped, 0);
        let second = queue.pop(Duration::ZERO).unwrap();
        assert_eq!((second.dropped, second.bytes), (6, vec![3; 4]));
        assert!(!queue.pop(Duration::ZERO).unwrap_err());
        assert!(queue.try_push(&[4; 60], ARRIVAL, false));
        queue.end();
        assert_eq!(queue.pop(Duration::ZERO).unwrap().bytes.len(), 60);
        assert!(queue.pop(Duration::ZERO).unwrap_err());
    }

    #[test]
    fn a_waiting_writer_continues_with_room_or_without_a_reader() {
        let queue = Arc::new(PacketQueue::new(8));
        let other = queue.clone();
        let writer = std::thread::spawn(move || {
            (0..1000u32).all(|k| other.push(&k.to_le_bytes(), ARRIVAL, false))
        });
        for k in 0..1000u32 {
            let packet = loop {
                if let Ok(packet) = queue.pop(Duration::ZERO) {
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
