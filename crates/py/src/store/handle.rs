//! Open stores, and signals that follow them.
//!
//! A Rust `Signal` is a snapshot; a Python signal follows its store. This process's appends are visible at once,
//! others' commits after `refresh`. At each access, [`Follower`] checks for a newer state in some ten nanoseconds.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use isochrony_store::Signal;
use pyo3::prelude::*;

use super::uncommitted;
use crate::errors::Result;
use crate::store::snapshot_cache::SnapshotCache;

pub(crate) struct OpenStore {
    pub(crate) store: isochrony_store::Store,
    epoch: AtomicU64,
    shown: AtomicU64,
    number: u64,
    pub(crate) snapshots: SnapshotCache,
    /// The opening process: a forked child cannot change it, so has nothing to lose.
    process: u32,
    warned: AtomicBool,
}

/// Open stores by number. A signal unpickled in the same process (as by Dask) shows uncommitted changes.
static OPENINGS: Mutex<Option<HashMap<u64, Weak<OpenStore>>>> = Mutex::new(None);
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

impl OpenStore {
    pub(crate) fn new(store: isochrony_store::Store) -> Arc<Self> {
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let shown = store.sequence().unwrap_or_default();
        let shared = Arc::new(Self {
            store,
            epoch: AtomicU64::new(0),
            shown: AtomicU64::new(shown),
            number,
            snapshots: SnapshotCache::default(),
            process: std::process::id(),
            warned: AtomicBool::new(false),
        });
        openings(|all| all.insert(number, Arc::downgrade(&shared)));
        shared
    }

    pub(crate) fn find(number: u64) -> Option<Arc<Self>> {
        let found = openings(|all| all.get(&number).and_then(Weak::upgrade));
        found.filter(|shared| !shared.store.is_closed())
    }

    pub(crate) fn all() -> Vec<Arc<Self>> {
        // The caller drops them: the last reference removes its entry.
        openings(|all| all.values().filter_map(Weak::upgrade).collect())
    }

    pub(crate) fn showing(signal: &Signal) -> Option<Arc<Self>> {
        let mut all = Self::all().into_iter();
        all.find(|shared| shared.store.shows(signal))
    }

    /// Once.
    pub(crate) fn warn_of_uncommitted(&self, py: Python<'_>) {
        if self.process == std::process::id()
            && let Some(message) = uncommitted::message(&self.store)
            && !self.warned.swap(true, Ordering::Relaxed)
        {
            uncommitted::warn(py, &message);
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn refresh(&self) -> Result<bool> {
        let mut changed = self.store.refresh()?;
        if !self.store.is_writable() {
            // Plans refresh the shared reader without updating this.
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
        // Reported at exit.
        if self.store.has_pending() && !crate::interpreter::is_closing() {
            crate::interpreter::attach(|py| self.warn_of_uncommitted(py));
        }
        openings(|all| all.remove(&self.number));
    }
}

fn openings<T>(with: impl FnOnce(&mut HashMap<u64, Weak<OpenStore>>) -> T) -> T {
    let mut all = OPENINGS.lock().unwrap_or_else(PoisonError::into_inner);
    with(all.get_or_insert_default())
}

/// At exit, while Python code can still run: warns of stores that are still open.
#[pyfunction]
fn warn_at_exit(py: Python<'_>) {
    for store in OpenStore::all() {
        store.warn_of_uncommitted(py);
    }
}

/// After `interpreter`'s function, since the last registered runs first.
pub(crate) fn warn_before_exit(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let warn = pyo3::wrap_pyfunction!(warn_at_exit, module)?;
    let register = module.py().import("atexit")?.getattr("register")?;
    register.call1((warn,)).map(drop)
}

struct CachedSignal {
    signal: Signal,
    epoch: u64,
}

pub(crate) struct Follower {
    pub(crate) shared: Arc<OpenStore>,
    seen: Mutex<CachedSignal>,
    /// This process may change it, so each access checks.
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

    pub(crate) fn refresh(&self) -> Result<bool> {
        let is_new = self.shared.refresh()?;
        if self.live {
            return Ok(is_new);
        }
        // An unpickled one may be older than a store without new commits.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(seen.signal.refresh()? || is_new)
    }

    /// The newest state; of a closed store, the last one seen.
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
        // A reader may load tables. The lock is released before the thread attaches again, so lock and interpreter
        // cannot deadlock.
        if stale {
            crate::interpreter::detach(py, update)
        } else {
            update()
        }
    }
}
