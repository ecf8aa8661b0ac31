//! State shared by all parts of the writer.
//!
//! Lock order: `core`, `names`, a slot (several by id), `active` and the caches. Only `core` and slots are held for
//! long, by a commit.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::thread::Thread;

use uuid::Uuid;

use super::log::{AppendError, Log};
use super::samples::Handles;
use super::slot::Slot;
use super::source::Sources;
use crate::error::StoreError;
use crate::media::{Media, MediaLock, Volume};
use crate::names::check_name;
use crate::op::{Op, SignalId};

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

#[derive(Debug)]
pub(crate) struct CatalogueChange {
    pub(crate) op: Op,
    pub(crate) old_name: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) log: Log,
    pub(crate) generation: u64,
    pub(crate) sequence: u64,
    pub(crate) structural: Vec<CatalogueChange>,
    pub(crate) record: Vec<u8>,
    pub(crate) dirty: BTreeSet<SignalId>,
    /// Signals with an outdated `zarr.json`.
    pub(crate) unpublished: BTreeSet<SignalId>,
    /// Paths to remove once no log names them.
    pub(crate) trash: Vec<PathBuf>,
    pub(crate) emptied: BTreeSet<PathBuf>,
    /// To sync at the next checkpoint; outside signals.
    pub(crate) folders: BTreeSet<PathBuf>,
    pub(crate) lock: Box<dyn MediaLock>,
    /// Reserves space for the new log until the next checkpoint.
    pub(crate) reserve: Option<PathBuf>,
}

#[derive(Debug)]
pub(crate) struct EngineState {
    pub(crate) root: PathBuf,
    pub(crate) media: Arc<dyn Media>,
    /// Synced as a whole if cheaper.
    pub(crate) volume: Option<Box<dyn Volume>>,
    pub(crate) uuid: Uuid,
    pub(crate) owner: u32,
    pub(crate) slots: RwLock<HashMap<SignalId, Arc<Slot>>>,
    pub(crate) names: RwLock<Names>,
    pub(crate) core: Mutex<Core>,
    pub(crate) active: Mutex<BTreeSet<SignalId>>,
    pub(crate) next_id: AtomicU64,
    pub(crate) handles: Handles,
    pub(crate) sources: Sources,
    poison: Mutex<Option<String>>,
    pub(crate) closed: AtomicBool,
    /// Closing wakes it to end.
    pub(crate) publisher: OnceLock<Thread>,
    pub(crate) recovered: AtomicBool,
    /// The next opening must recover.
    pub(crate) unfinished: AtomicBool,
}

impl EngineState {
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

    pub(crate) fn poison(&self, error: &StoreError) {
        let mut poison = self.poison.lock().unwrap_or_else(PoisonError::into_inner);
        poison.get_or_insert_with(|| error.to_string());
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        let poison = self.poison.lock().unwrap_or_else(PoisonError::into_inner);
        poison.is_some()
    }

    pub(crate) fn log_failure(&self, failure: AppendError) -> StoreError {
        match failure {
            AppendError::NotAppended(error) => error,
            AppendError::Unknown(error) => {
                self.poison(&error);
                error
            }
        }
    }

    /// Poisons on any error: for syncs, and after the commit point.
    pub(crate) fn must<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        result.inspect_err(|error| self.poison(error))
    }

    /// Other failures before the commit point are harmless.
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
