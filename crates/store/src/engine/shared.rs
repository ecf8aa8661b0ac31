//! What the writer's parts share: the store's place, its signals, its log.
//!
//! Locks are taken in this order, each held briefly but for `core` and slots during a commit: `core`, `names`, a slot
//! (several in the order of their ids), `active` and the caches.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::thread::Thread;

use uuid::Uuid;

use super::log::{Failure, Log};
use super::samples::Handles;
use super::slot::Slot;
use super::source::Sources;
use crate::error::StoreError;
use crate::media::{Media, MediaLock, Volume};
use crate::names::check_name;
use crate::op::{Op, SignalId};

/// Names of signals, pending changes included.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) by_name: BTreeMap<String, SignalId>,
    pub(crate) by_id: HashMap<SignalId, String>,
}

impl Names {
    pub(crate) fn insert(&mut self, id: SignalId, name: &str) {
        if let Some(old) = self.by_id.insert(id, name.to_owned()) {
            self.by_name.remove(&old);
        }
        self.by_name.insert(name.to_owned(), id);
    }

    pub(crate) fn remove(&mut self, id: SignalId) -> Option<String> {
        let name = self.by_id.remove(&id)?;
        self.by_name.remove(&name);
        Some(name)
    }

    /// Refuses a name that is taken, no name, or inside another signal (or around one).
    pub(crate) fn check_free(&self, name: &str) -> Result<(), StoreError> {
        check_name(name)?;
        if self.by_name.contains_key(name) {
            return Err(StoreError::SignalExists { name: name.into() });
        }
        let mut outer = name;
        while let Some((shorter, _)) = outer.rsplit_once('/') {
            outer = shorter;
            if self.by_name.contains_key(outer) {
                return Err(StoreError::SignalInsideSignal {
                    name: name.into(),
                    other: outer.into(),
                });
            }
        }
        let inside = format!("{name}/");
        let first = self.by_name.range(inside.clone()..).next();
        if let Some((other, _)) = first.filter(|(other, _)| other.starts_with(&inside)) {
            return Err(StoreError::SignalInsideSignal {
                name: name.into(),
                other: other.clone(),
            });
        }
        Ok(())
    }
}

/// A pending change of the catalogue, and the name that it took away.
#[derive(Debug)]
pub(crate) struct Structural {
    pub(crate) op: Op,
    pub(crate) old_name: Option<String>,
}

/// What only one thread at a time may touch: the log and all that goes with commits.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) log: Log,
    pub(crate) generation: u64,
    pub(crate) sequence: u64,
    pub(crate) structural: Vec<Structural>,
    /// The record under construction, kept for its memory.
    pub(crate) record: Vec<u8>,
    /// Signals that changed since the last checkpoint.
    pub(crate) dirty: BTreeSet<SignalId>,
    /// Signals whose `zarr.json` is behind.
    pub(crate) unpublished: BTreeSet<SignalId>,
    /// Folders and files to remove once no log speaks of them.
    pub(crate) trash: Vec<PathBuf>,
    /// Folders that signals were moved out of, to remove if nothing else is in them.
    pub(crate) emptied: BTreeSet<PathBuf>,
    /// Folders, not of a signal, to sync at the next checkpoint.
    pub(crate) folders: BTreeSet<PathBuf>,
    pub(crate) lock: Box<dyn MediaLock>,
    /// A file that keeps room for the new log of the next checkpoint, which removes it.
    pub(crate) reserve: Option<PathBuf>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) root: PathBuf,
    pub(crate) media: Arc<dyn Media>,
    /// The volume under the store, to sync as a whole where that is cheaper.
    pub(crate) volume: Option<Box<dyn Volume>>,
    pub(crate) uuid: Uuid,
    pub(crate) owner: u32,
    pub(crate) slots: RwLock<HashMap<SignalId, Arc<Slot>>>,
    pub(crate) names: RwLock<Names>,
    pub(crate) core: Mutex<Core>,
    /// Signals with pending changes.
    pub(crate) active: Mutex<BTreeSet<SignalId>>,
    pub(crate) next_id: AtomicU64,
    pub(crate) handles: Handles,
    pub(crate) sources: Sources,
    poison: Mutex<Option<String>>,
    pub(crate) closed: AtomicBool,
    /// The thread that publishes: closing wakes it, so that it ends.
    pub(crate) publisher: OnceLock<Thread>,
    /// Whether opening the store recovered it.
    pub(crate) recovered: AtomicBool,
    /// Whether closing leaves something for the next opening to bring up to date, as if the writer had been killed.
    pub(crate) unfinished: AtomicBool,
}

impl Shared {
    #[allow(clippy::too_many_arguments)] // Made in one place, of parts that only it has.
    pub(crate) fn new(
        root: &Path,
        media: Arc<dyn Media>,
        volume: Option<Box<dyn Volume>>,
        uuid: Uuid,
        core: Core,
        names: Names,
        slots: HashMap<SignalId, Arc<Slot>>,
        next_id: u64,
    ) -> Self {
        Self {
            root: root.to_path_buf(),
            media,
            volume,
            uuid,
            owner: std::process::id(),
            slots: RwLock::new(slots),
            names: RwLock::new(names),
            core: Mutex::new(core),
            active: Mutex::default(),
            next_id: AtomicU64::new(next_id),
            handles: Handles::default(),
            sources: Sources::default(),
            poison: Mutex::new(None),
            closed: AtomicBool::new(false),
            publisher: OnceLock::new(),
            recovered: AtomicBool::new(false),
            unfinished: AtomicBool::new(false),
        }
    }

    /// Refuses to do anything that a closed, forked or poisoned writer must not do.
    pub(crate) fn check(&self, action: &'static str) -> Result<(), StoreError> {
        self.check_process(action)?;
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::Closed {
                path: self.root.clone(),
                action,
            });
        }
        let poison = self.poison.lock().unwrap_or_else(PoisonError::into_inner);
        match &*poison {
            Some(reason) => Err(StoreError::Poisoned {
                path: self.root.clone(),
                action,
                reason: reason.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Refuses what only the process may do that opened the store.
    pub(crate) fn check_process(&self, action: &'static str) -> Result<(), StoreError> {
        if self.owner == std::process::id() {
            return Ok(());
        }
        Err(StoreError::Forked {
            path: self.root.clone(),
            action,
            owner: self.owner,
        })
    }

    /// Takes note that it is unknown what is on disk.
    pub(crate) fn poison(&self, error: &StoreError) {
        let mut poison = self.poison.lock().unwrap_or_else(PoisonError::into_inner);
        poison.get_or_insert_with(|| error.to_string());
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        let poison = self.poison.lock().unwrap_or_else(PoisonError::into_inner);
        poison.is_some()
    }

    /// The error of a failed log write, which poisons where it must.
    pub(crate) fn log_failure(&self, failure: Failure) -> StoreError {
        match failure {
            Failure::Refused(error) => error,
            Failure::Unsure(error) => {
                self.poison(&error);
                error
            }
        }
    }

    /// Poisons if `result` is an error: for syncs, and for steps after the commit point.
    pub(crate) fn must<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        result.inspect_err(|error| self.poison(error))
    }

    /// Poisons if a sync failed. Whatever else fails before the commit point changes nothing that counts.
    pub(crate) fn poison_if_sync(&self, error: &StoreError) {
        if matches!(
            error,
            StoreError::Io { action: "sync", .. } | StoreError::DiskFull { action: "sync", .. }
        ) {
            self.poison(error);
        }
    }

    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn slot(&self, id: SignalId) -> Option<Arc<Slot>> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.get(&id).cloned()
    }

    /// The signal, or an error that names it as best it can.
    pub(crate) fn existing(&self, id: SignalId) -> Result<Arc<Slot>, StoreError> {
        self.slot(id).ok_or_else(|| StoreError::SignalRemoved {
            name: format!("#{}", id.0),
        })
    }

    pub(crate) fn all_slots(&self) -> Vec<(SignalId, Arc<Slot>)> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = slots.iter().map(|(id, slot)| (*id, slot.clone())).collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        all
    }

    pub(crate) fn mark_active(&self, id: SignalId) {
        let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        active.insert(id);
    }

    pub(crate) fn active(&self) -> BTreeSet<SignalId> {
        let active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        active.clone()
    }
}
