//! A queue from one stage to another, of batches of events, bounded in bytes.
//!
//! Lock-free. It accepts every batch: the writer ends its burst once the link [`is_full`](Link::is_full), so a link
//! exceeds its capacity by the results of one item. It always takes one batch, whatever its capacity: the writer makes
//! the next while the reader consumes it. Knows neither events nor who wakes whom, for model checkers
//! (`tests/loom_models/stages.rs`).

use std::sync::atomic::Ordering;
use std::time::Instant;

use crossbeam_queue::SegQueue;

use super::sync::{AtomicBool, AtomicU64};

pub(crate) struct Batch<E> {
    pub(crate) events: Vec<E>,
    pub(crate) bytes: u64,
    /// Samples that the writer's sources gave up to here.
    pub(crate) delivered: u64,
    /// When what it was made of arrived; None if unknown or not measured.
    pub(crate) arrived: Option<Instant>,
}

pub(crate) enum ReceiveOutcome<E> {
    Batch(Batch<E>),
    Nothing,
    End,
}

pub(crate) struct Link<E> {
    batches: SegQueue<Batch<E>>,
    bytes: AtomicU64,
    capacity: AtomicU64,
    largest: AtomicU64,
    closed: AtomicBool,
    ended: AtomicBool,
    sent: AtomicU64,
    /// Batches sent when so many eighths of the link were full; the last: when it was full.
    occupancy: [AtomicU64; 9],
}

impl<E> Link<E> {
    pub(crate) fn new(capacity: u64) -> Self {
        Self {
            batches: SegQueue::new(),
            bytes: AtomicU64::new(0),
            capacity: AtomicU64::new(capacity),
            largest: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            occupancy: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Called by the writer; dropped if closed.
    pub(crate) fn send(&self, batch: Batch<E>) {
        // Only the writer changes it.
        if batch.bytes > self.largest.load(Ordering::Relaxed) {
            self.largest.store(batch.bytes, Ordering::Relaxed);
        }
        let before = self.bytes.fetch_add(batch.bytes, Ordering::SeqCst);
        self.sent.fetch_add(batch.bytes, Ordering::Relaxed);
        let eighth = (self.capacity.load(Ordering::Relaxed) / 8).max(1);
        self.occupancy[(before / eighth).min(8) as usize].fetch_add(1, Ordering::Relaxed);
        self.batches.push(batch);
        if self.is_closed() {
            self.clear();
        }
    }

    /// Called by the writer.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    /// Called by the reader.
    pub(crate) fn receive(&self) -> ReceiveOutcome<E> {
        // Read first: what was sent before the end is then found.
        let ended = self.ended.load(Ordering::SeqCst);
        match self.batches.pop() {
            Some(batch) => {
                self.bytes.fetch_sub(batch.bytes, Ordering::SeqCst);
                ReceiveOutcome::Batch(batch)
            }
            None if ended => ReceiveOutcome::End,
            None => ReceiveOutcome::Nothing,
        }
    }

    /// A batch, or the end. Called by the reader.
    pub(crate) fn has_more(&self) -> bool {
        !self.batches.is_empty() || self.ended.load(Ordering::SeqCst)
    }

    /// Called by the reader; drops what is in it.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.clear();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    fn clear(&self) {
        while let Some(batch) = self.batches.pop() {
            self.bytes.fetch_sub(batch.bytes, Ordering::SeqCst);
        }
    }

    pub(crate) fn use_so_far(&self) -> (u64, [u64; 9]) {
        let counts = self.occupancy.each_ref();
        let counts = counts.map(|count| count.load(Ordering::Relaxed));
        (self.sent.load(Ordering::Relaxed), counts)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::SeqCst)
    }

    pub(crate) fn is_full(&self) -> bool {
        !self.is_closed() && self.bytes() >= self.capacity()
    }

    /// The writer waits in the middle of an item: twice its capacity, or two batches where these are larger.
    pub(crate) fn is_overdrawn(&self) -> bool {
        let largest = self.largest.load(Ordering::Relaxed);
        let most = self.capacity().max(largest).saturating_mul(2);
        !self.is_closed() && self.bytes() >= most
    }

    /// Half of it is free, or it holds so few batches that each matters.
    pub(crate) fn has_room(&self) -> bool {
        let (bytes, capacity) = (self.bytes(), self.capacity());
        let holds_few = self.largest.load(Ordering::Relaxed) > capacity / 4;
        bytes <= capacity / 2 || holds_few && bytes < capacity
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Also while in use. A removed bound stays removed.
    pub(crate) fn set_capacity(&self, capacity: u64) {
        let bounded = |now: u64| (now < u64::MAX).then_some(capacity);
        let _ = self
            .capacity
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, bounded);
    }
}
