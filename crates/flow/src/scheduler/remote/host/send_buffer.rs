//! Messages of a host that its client has not read yet.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const INTERRUPT_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Default)]
struct KeptMessages {
    /// The oldest has the number `first`.
    kept: VecDeque<Arc<[u8]>>,
    first: u64,
    bytes: u64,
    ended: bool,
    closed: bool,
}

/// Numbered messages, bounded in bytes, kept until read.
pub struct SendBuffer {
    messages: Mutex<KeptMessages>,
    changed: Condvar,
    capacity: u64,
}

impl SendBuffer {
    /// `first`: number of its first message. Exceeds `capacity` bytes by at most one message.
    #[must_use]
    pub fn new(first: u64, capacity: u64) -> Self {
        Self {
            messages: Mutex::new(KeptMessages {
                first,
                ..KeptMessages::default()
            }),
            changed: Condvar::new(),
            capacity,
        }
    }

    fn lock(&self) -> MutexGuard<'_, KeptMessages> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room. False if closed, or if `is_interrupted`.
    pub(super) fn push(&self, message: Vec<u8>, is_interrupted: impl Fn() -> bool) -> bool {
        let mut messages = self.lock();
        while messages.bytes >= self.capacity && !messages.closed {
            if is_interrupted() {
                return false;
            }
            let waited = self.changed.wait_timeout(messages, INTERRUPT_INTERVAL);
            messages = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if messages.closed {
            return false;
        }
        messages.bytes += message.len() as u64;
        messages.kept.push_back(message.into());
        self.changed.notify_all();
        true
    }

    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    /// Nobody reads any more.
    pub fn close(&self) {
        let mut messages = self.lock();
        messages.closed = true;
        messages.kept.clear();
        messages.bytes = 0;
        self.changed.notify_all();
    }

    /// Waits for the message after `sent`, until it fits into `window` bytes with those in flight, or none is.
    #[must_use]
    pub fn next(&self, sent: u64, window: u64, wait: Duration) -> Option<(u64, Arc<[u8]>)> {
        let until = Instant::now() + wait;
        let mut messages = self.lock();
        loop {
            if messages.closed {
                return None;
            }
            let under_way = (sent + 1).checked_sub(messages.first);
            if let Some(at) = under_way.and_then(|count| usize::try_from(count).ok())
                && let Some(message) = messages.kept.get(at)
            {
                let before: usize = messages.kept.iter().take(at).map(|one| one.len()).sum();
                if at == 0 || (before + message.len()) as u64 <= window {
                    return Some((sent + 1, Arc::clone(message)));
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let waited = self.changed.wait_timeout(messages, left);
            messages = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The client has read all messages up to this one. False if what follows is missing here.
    pub fn acknowledge(&self, number: u64) -> bool {
        let mut messages = self.lock();
        if number + 1 < messages.first || number + 1 > messages.first + messages.kept.len() as u64 {
            return false;
        }
        while messages.first <= number
            && let Some(message) = messages.kept.pop_front()
        {
            messages.first += 1;
            messages.bytes -= message.len() as u64;
        }
        self.changed.notify_all();
        true
    }

    /// Whether everything was read, and nothing follows.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let messages = self.lock();
        messages.closed || messages.ended && messages.kept.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_WAIT: Duration = Duration::ZERO;

    fn never() -> bool {
        false
    }

    #[test]
    fn what_was_not_read_is_sent_again_and_no_more_than_the_window_is_under_way() {
        let buffer = SendBuffer::new(5, 100);
        for length in [10, 20, 30] {
            assert!(buffer.push(vec![0; length], never));
        }
        let next = |sent, window| {
            let next = buffer.next(sent, window, NO_WAIT);
            next.map(|(number, message)| (number, message.len()))
        };
        assert_eq!(next(4, 1), Some((5, 10)), "one is always sent");
        assert_eq!(next(5, 29), None);
        assert_eq!(next(5, 30), Some((6, 20)));
        assert_eq!(next(6, 60), Some((7, 30)));
        assert_eq!(next(7, 60), None);
        assert!(buffer.acknowledge(5) && buffer.acknowledge(5));
        assert_eq!(next(5, 1), Some((6, 20)), "after a new connection");
        assert_eq!(next(4, 60), None, "it is not kept any more");
        assert!(!buffer.acknowledge(3) && !buffer.acknowledge(8));
        buffer.end();
        assert!(!buffer.is_done());
        assert!(buffer.acknowledge(7) && buffer.is_done());
    }

    #[test]
    fn a_sender_waits_for_room_until_it_is_interrupted_or_nobody_reads() {
        let buffer = SendBuffer::new(1, 10);
        assert!(buffer.push(vec![0; 10], never));
        assert!(!buffer.push(vec![0; 1], || true));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| buffer.push(vec![0; 1], never));
            std::thread::sleep(Duration::from_millis(30));
            assert!(!waiting.is_finished());
            assert!(buffer.acknowledge(1));
            assert!(waiting.join().unwrap());
            assert!(buffer.push(vec![0; 9], never));
            let closed = scope.spawn(|| buffer.push(vec![0; 1], never));
            buffer.close();
            assert!(!closed.join().unwrap());
        });
        assert!(buffer.is_done());
    }
}
