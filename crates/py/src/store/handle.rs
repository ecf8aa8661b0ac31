//! What Python objects of one open store share, and signals that follow it.
//!
//! A Rust `Signal` is a snapshot. In Python a signal follows its store: what this process appends shows at once,
//! what another process commits shows after `refresh`. [`Follower`] looks for a newer state at each access; that
//! costs a few tens of nanoseconds and touches no file.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use isochrony_store::Signal;
use pyo3::prelude::*;

use crate::errors::Result;

/// An open store.
pub(crate) struct OpenStore {
    pub(crate) store: isochrony_store::Store,
    /// Counts refreshes that brought something new.
    epoch: AtomicU64,
    /// The commit that signals show: that of the last refresh.
    shown: AtomicU64,
    /// Finds this opening again in [`OPENINGS`].
    number: u64,
}

/// Stores that are open in this process, by number: a signal that is pickled and read back in the process that pickled
/// it (as Dask does) is one of the same opening, which shows what is not committed, too.
static OPENINGS: Mutex<Option<HashMap<u64, Weak<OpenStore>>>> = Mutex::new(None);
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

impl OpenStore {
    pub(crate) fn new(store: isochrony_store::Store) -> Arc<Self> {
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let shown = store.sequence().unwrap_or_default();
        let shared = Arc::new(Self {
            store,
            epoch: AtomicU64::new(0),
            shown: AtomicU64::new(shown),
            number,
        });
        openings(|all| all.insert(number, Arc::downgrade(&shared)));
        shared
    }

    /// The opening of this number, if it is still open.
    pub(crate) fn find(number: u64) -> Option<Arc<Self>> {
        let found = openings(|all| all.get(&number).and_then(Weak::upgrade));
        found.filter(|shared| !shared.store.is_closed())
    }

    /// What finds this opening again within the process.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Takes in what another process committed; whether there is anything that signals did not show yet.
    pub(crate) fn refresh(&self) -> Result<bool> {
        let mut changed = self.store.refresh()?;
        if !self.store.is_writable() {
            // A plan over one of the signals refreshes the reader that all of them share, and shows nothing here.
            let sequence = self.store.sequence()?;
            changed |= self.shown.swap(sequence, Ordering::AcqRel) != sequence;
        }
        if changed {
            self.epoch.fetch_add(1, Ordering::AcqRel);
        }
        Ok(changed)
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        openings(|all| all.remove(&self.number));
    }
}

fn openings<T>(with: impl FnOnce(&mut HashMap<u64, Weak<OpenStore>>) -> T) -> T {
    let mut all = OPENINGS.lock().unwrap_or_else(PoisonError::into_inner);
    with(all.get_or_insert_default())
}

struct CachedSignal {
    signal: Signal,
    epoch: u64,
}

/// A signal as it is now.
pub(crate) struct Follower {
    pub(crate) shared: Arc<OpenStore>,
    seen: Mutex<CachedSignal>,
    /// Our own store may change it, so look each time; a reader looks after a refresh only.
    live: bool,
}

impl Follower {
    pub(crate) fn new(shared: &Arc<OpenStore>, signal: Signal, live: bool) -> Self {
        let epoch = shared.epoch.load(Ordering::Acquire);
        Self {
            shared: Arc::clone(shared),
            seen: Mutex::new(CachedSignal { signal, epoch }),
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
        if stale {
            crate::interpreter::detach(py, update)
        } else {
            update()
        }
    }
}
