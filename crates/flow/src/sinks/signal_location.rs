//! A sink's signal, in an open store or one that each execution opens.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use isochrony_store::{Mode, Store};
use serde_json::{Map, Value, json};

use crate::plan::error::store_error;
use crate::{OpError, PlanError};

/// By path, for executions in progress. A store has one writer, which several sinks share.
static OPEN_STORES: LazyLock<Mutex<HashMap<PathBuf, Weak<Store>>>> = LazyLock::new(Mutex::default);

/// A signal, by name, of a store that is open or opened by each execution.
#[derive(Clone)]
pub struct SignalLocation {
    path: PathBuf,
    open: Option<Store>,
    signal: String,
}

impl SignalLocation {
    /// In a store open for writing. The sink's commits include whatever else is uncommitted there.
    pub fn new(store: &Store, signal: impl Into<String>) -> Self {
        Self {
            path: store.path().to_owned(),
            open: Some(store.clone()),
            signal: signal.into(),
        }
    }

    /// In the store at a path, which each execution opens and closes.
    pub fn at(store: impl AsRef<Path>, signal: impl Into<String>) -> Self {
        let path = store.as_ref();
        Self {
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            open: None,
            signal: signal.into(),
        }
    }

    /// The store's folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The signal's name.
    #[must_use]
    pub fn signal(&self) -> &str {
        &self.signal
    }

    pub(crate) fn open(&self) -> Result<Arc<Store>, OpError> {
        if let Some(store) = &self.open {
            return Ok(Arc::new(store.clone()));
        }
        let mut open = OPEN_STORES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = open.get(&self.path).and_then(Weak::upgrade) {
            return Ok(store);
        }
        let store = Arc::new(Store::open(&self.path, Mode::ReadWrite).map_err(store_error)?);
        open.retain(|_, store| store.strong_count() > 0);
        open.insert(self.path.clone(), Arc::downgrade(&store));
        Ok(store)
    }

    pub(crate) fn saved(&self) -> Map<String, Value> {
        let mut saved = Map::new();
        saved.insert("store".into(), json!(self.path.to_string_lossy()));
        saved.insert("signal".into(), json!(self.signal));
        saved
    }

    pub(crate) fn resolve(
        saved: &Map<String, Value>,
        store: Option<&Store>,
    ) -> Result<Self, PlanError> {
        let text = |key: &str| match saved.get(key) {
            Some(Value::String(text)) => Ok(text.as_str()),
            _ => Err(PlanError::Unreadable {
                why: format!("an operator that writes does not name its {key}"),
            }),
        };
        Ok(match store {
            Some(store) => Self::new(store, text("signal")?),
            None => Self::at(text("store")?, text("signal")?),
        })
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let file = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        self.signal == other.signal && file(&self.path) == file(&other.path)
    }

    pub(crate) fn is_read_by(&self, recording: &Map<String, Value>) -> bool {
        let ours = self.saved();
        recording.get("store") == ours.get("store") && recording.get("signal") == ours.get("signal")
    }
}

impl fmt::Debug for SignalLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.path.display(), self.signal)
    }
}
