//! What a store opened from a snapshot shows until a refresh.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use super::record::{SignalRecord, gone};
use crate::error::StoreError;
use crate::mutex::lock;
use crate::op::SignalId;
use crate::state::SignalState;

/// Each signal is compared with the store's on first use.
pub(crate) struct PinnedStore {
    pub(crate) sequence: u64,
    names: BTreeMap<String, SignalId>,
    shown: HashMap<SignalId, SignalRecord>,
    states: Mutex<HashMap<SignalId, Arc<SignalState>>>,
}

impl PinnedStore {
    pub(super) fn new(sequence: u64, signals: Vec<SignalRecord>) -> Self {
        let names = signals.iter().map(|shown| (shown.name.clone(), shown.id));
        Self {
            sequence,
            names: names.collect(),
            shown: signals.into_iter().map(|shown| (shown.id, shown)).collect(),
            states: Mutex::default(),
        }
    }

    pub(crate) fn catalogue(&self) -> Vec<(SignalId, String)> {
        let names = self.names.iter();
        names.map(|(name, id)| (*id, name.clone())).collect()
    }

    pub(crate) fn find(&self, name: &str) -> Option<SignalId> {
        self.names.get(name).copied()
    }

    pub(crate) fn state(
        &self,
        id: SignalId,
        newest: impl FnOnce() -> Result<Arc<SignalState>, StoreError>,
    ) -> Option<Result<Arc<SignalState>, StoreError>> {
        let shown = self.shown.get(&id)?;
        if let Some(state) = lock(&self.states).get(&id) {
            return Some(Ok(state.clone()));
        }
        let opened = shown.check().and_then(|()| match newest() {
            Err(StoreError::SignalRemoved { .. }) => Err(gone(shown, self.sequence)),
            newest => shown.over(&*newest?, self.sequence).map(Arc::new),
        });
        let kept = |state: Arc<SignalState>| {
            let mut states = lock(&self.states);
            // Handles compare states by address.
            states.entry(id).or_insert(state).clone()
        };
        Some(opened.map(kept))
    }
}
