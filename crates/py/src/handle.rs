//! What Python objects of one open store share, and signals that follow it.
//!
//! A Rust `Signal` is a snapshot. In Python a signal follows its store: what this process appends shows at once,
//! what another process commits shows after `refresh`. [`Follower`] looks for a newer state at each access; that
//! costs a few tens of nanoseconds and touches no file.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use isochrony_store::Signal;
use pyo3::prelude::*;

use crate::errors::Result;

/// An open store.
pub(crate) struct Shared {
    pub(crate) store: isochrony_store::Store,
    /// Counts refreshes that brought something new.
    epoch: AtomicU64,
}

impl Shared {
    pub(crate) fn new(store: isochrony_store::Store) -> Arc<Self> {
        Arc::new(Self {
            store,
            epoch: AtomicU64::new(0),
        })
    }

    /// Takes in what another process committed; whether there was anything.
    pub(crate) fn refresh(&self) -> Result<bool> {
        let changed = self.store.refresh()?;
        if changed {
            self.epoch.fetch_add(1, Ordering::AcqRel);
        }
        Ok(changed)
    }
}

struct Seen {
    signal: Signal,
    epoch: u64,
}

/// A signal as it is now.
pub(crate) struct Follower {
    pub(crate) shared: Arc<Shared>,
    seen: Mutex<Seen>,
    /// Our own store may change it, so look each time; a reader looks after a refresh only.
    live: bool,
}

impl Follower {
    pub(crate) fn new(shared: &Arc<Shared>, signal: Signal, live: bool) -> Self {
        let epoch = shared.epoch.load(Ordering::Acquire);
        Self {
            shared: Arc::clone(shared),
            seen: Mutex::new(Seen { signal, epoch }),
            live,
        }
    }

    /// The signal's newest state; once the store is closed, the last one seen.
    pub(crate) fn get(&self, py: Python<'_>) -> Result<Signal> {
        let epoch = self.shared.epoch.load(Ordering::Acquire);
        let stale = {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if !self.live && seen.epoch == epoch {
                return Ok(seen.signal.clone());
            }
            seen.epoch != epoch
        };
        let update = || -> Result<Signal> {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if !self.shared.store.is_closed() {
                seen.signal.refresh()?;
            }
            seen.epoch = epoch;
            Ok(seen.signal.clone())
        };
        // A reader may have tables to load. The lock is released before the interpreter is taken again, so the two
        // never wait for one another.
        if stale { py.detach(update) } else { update() }
    }
}
