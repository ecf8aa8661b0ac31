use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use isochrony_flow::{Clock, LatencyHistogram};
use isochrony_segment::StreamId;
use isochrony_time::Rate;

use super::descriptions::SessionDescriptions;
use super::index_axis::IndexAxis;
use super::late_samples::LateBuffer;
use super::options::ListenOptions;
use crate::address::Address;
use crate::feed_counts::{FeedCounters, add};
use crate::receive::FeedInput;
use crate::timing::FeedClock;

#[derive(Debug)]
pub(super) struct ListenerInner {
    pub(super) address: Address,
    pub(super) feed: FeedInput,
    pub(super) options: ListenOptions,
    pub(super) stream: StreamId,
    pub(super) axis: Arc<IndexAxis>,
    pub(super) counters: Arc<FeedCounters>,
    pub(super) latency: LatencyHistogram,
    pub(super) late: LateBuffer,
    pub(super) is_late_read: AtomicBool,
    pub(super) is_scanned: AtomicBool,
    /// Above 32 bits: none.
    pub(super) ended_session: AtomicU64,
    pub(super) clock: Arc<ListenerClock>,
    pub(super) position: FeedPosition,
    pub(super) descriptions: SessionDescriptions,
}

impl ListenerInner {
    /// For errors.
    pub(super) fn shown_address(&self) -> String {
        match self.address {
            Address::Driven => self.options.name.clone(),
            address => address.to_string(),
        }
    }

    pub(super) fn count_dropped(&self, late_bytes: usize) {
        let samples = late_bytes / self.options.dtype.size();
        add(&self.counters.dropped_late_samples, samples as u64);
    }

    pub(super) fn copies_to_trust(&self) -> u32 {
        let feed = match &self.feed {
            FeedInput::Unbound(bound) => bound.get().map(|feed| &**feed),
            feed => Some(feed),
        };
        match feed {
            Some(FeedInput::Udp(_)) => 3,
            _ => 1,
        }
    }
}

/// Next index and run number of the current scan.
#[derive(Debug, Default)]
pub(super) struct FeedPosition(Mutex<(i64, u32)>);

impl FeedPosition {
    pub(super) fn set(&self, index: i64, run: u32) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (index, run);
    }

    pub(super) fn get(&self) -> (i64, u32) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Exists before any run, for operators that write times.
#[derive(Debug)]
pub(super) struct ListenerClock {
    rate: Rate,
    clock: Mutex<Option<Arc<FeedClock>>>,
}

impl ListenerClock {
    pub(super) fn new(rate: Rate) -> Self {
        Self {
            rate,
            clock: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<FeedClock>>> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, clock: Arc<FeedClock>) {
        *self.lock() = Some(clock);
    }

    fn clock(&self) -> Option<Arc<FeedClock>> {
        self.lock().clone()
    }
}

impl Clock for ListenerClock {
    fn times(&self, indices: &[i64], out: &mut [i64]) -> Result<(), isochrony_flow::Cause> {
        match self.clock() {
            Some(clock) => clock.times(indices, out),
            None => {
                out.fill(i64::MIN);
                Ok(())
            }
        }
    }

    fn stamp(&self, index: i64) -> Option<isochrony_time::Stamp> {
        self.clock()?.stamp(index)
    }

    fn first_at(&self, near: i64, time: i64) -> Option<i64> {
        self.clock()?.first_at(near, time)
    }

    fn announced_before(&self, index: i64) -> Option<i64> {
        self.clock()?.announced_before(index)
    }

    fn changes(&self, after: u64) -> Option<(u64, Vec<u8>)> {
        self.clock()?.changes(after)
    }

    fn apply_changes(&self, changes: &[u8]) -> Result<(), isochrony_flow::Cause> {
        let new = || Arc::new(FeedClock::new(self.rate));
        let clock = Arc::clone(self.lock().get_or_insert_with(new));
        clock.apply_changes(changes)
    }
}

#[derive(Debug)]
pub(super) struct ScanGuard(pub(super) Arc<ListenerInner>);

impl Drop for ScanGuard {
    fn drop(&mut self) {
        self.0.axis.end_scan();
        // Standard input's thread cannot be stopped, and would compete with a second run.
        if !matches!(self.0.feed, FeedInput::Stdin) {
            self.0.is_scanned.store(false, Ordering::Release);
        }
    }
}
