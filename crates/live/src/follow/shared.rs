//! State shared by a followed signal and its runs.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError, RwLock};

use isochrony_flow::{Cause, Clock, OpError, OpErrorKind, Recording as _, StoredRecording};
use isochrony_store::{Signal, Store, StoreError};
use isochrony_time::Stamp;

use super::options::FollowOptions;
use super::run_starts::PassStarts;

pub(super) struct FollowedInner {
    pub(super) store: Store,
    pub(super) signal: Signal,
    pub(super) options: FollowOptions,
    pub(super) counters: FollowCounters,
    /// None if samples have no times.
    pub(super) clock: Option<Arc<FollowedClock>>,
}

#[derive(Debug, Default)]
pub(super) struct FollowCounters {
    pub(super) samples: AtomicU64,
    pub(super) commits: AtomicU64,
    pub(super) backfilled: AtomicU64,
}

/// As of the latest poll; exists before there are times, for operators that write them.
#[derive(Debug)]
pub(super) struct FollowedClock {
    stored: RwLock<StoredRecording>,
    pub(super) starts: PassStarts,
}

impl FollowedClock {
    pub(super) fn new(stored: StoredRecording) -> Self {
        Self {
            stored: RwLock::new(stored),
            starts: PassStarts::default(),
        }
    }

    /// With a clock if the signal has times.
    pub(super) fn stored(&self, store: &Store, signal: &Signal) -> StoredRecording {
        let known = self.stored.read().unwrap_or_else(PoisonError::into_inner);
        if known.clock().is_some() {
            return known.clone();
        }
        drop(known);
        let stored = StoredRecording::new(store.path(), signal.clone());
        *self.stored.write().unwrap_or_else(PoisonError::into_inner) = stored.clone();
        stored
    }

    pub(super) fn clock(&self) -> Option<Arc<dyn Clock>> {
        let stored = self.stored.read().unwrap_or_else(PoisonError::into_inner);
        stored.clock()
    }
}

impl Clock for FollowedClock {
    fn times(&self, indices: &[i64], out: &mut [i64]) -> Result<(), Cause> {
        match self.clock() {
            Some(clock) => clock.times(indices, out),
            None => {
                out.fill(i64::MIN);
                Ok(())
            }
        }
    }

    fn stamp(&self, index: i64) -> Option<Stamp> {
        self.clock()?.stamp(index)
    }

    fn first_at(&self, near: i64, time: i64) -> Option<i64> {
        self.clock()?.first_at(near, time)
    }

    fn announced_before(&self, index: i64) -> Option<i64> {
        self.starts.announced_before(index)
    }
}

pub(super) fn failed(error: StoreError) -> OpError {
    OpErrorKind::Failed(Cause::from(error)).into()
}
