//! Creates, removes and renames signals.

use std::sync::{Arc, PoisonError};

use super::Engine;
use super::engine_state::CatalogueChange;
use super::io::IoContext;
use super::slot::Slot;
use crate::error::StoreError;
use crate::layout;
use crate::op::{Op, SignalId};

impl Engine {
    pub(super) fn queue_structural(&self, op: Op) -> Result<(), StoreError> {
        let shared = &*self.shared;
        let media = &*shared.media;
        let id = op.signal();
        let mut core = shared.core();
        let mut names = shared.names.write().unwrap_or_else(PoisonError::into_inner);
        let old_name = names.by_id.get(&id).cloned();
        match &op {
            Op::Create { name, meta, .. } => {
                names.check_free(name)?;
                self.refuse_in_the_way(name)?;
                let slot = Slot::created(&shared.root, id, name, meta);
                // At once: on a full disk this call fails, not the commit.
                if let Err(error) = slot.lock().ensure_folder(media) {
                    let _ = media.remove_all(&layout::staged(&shared.root, id));
                    return Err(error);
                }
                let mut slots = shared.slots.write().unwrap_or_else(PoisonError::into_inner);
                slots.insert(id, Arc::new(slot));
                names.insert(id, name);
            }
            Op::Rename { to, .. } => {
                let slot = shared.existing(id)?;
                let mut slot = slot.lock();
                slot.refuse_removed()?;
                let old = names.remove(id);
                if let Err(error) = names.check_free(to) {
                    old.iter().for_each(|old| names.insert(id, old));
                    return Err(error);
                }
                if let Err(error) = slot.show(media, &op) {
                    old.iter().for_each(|old| names.insert(id, old));
                    return Err(error);
                }
                names.insert(id, to);
            }
            _ => {
                let slot = shared.existing(id)?;
                let mut slot = slot.lock();
                slot.refuse_removed()?;
                slot.removed = true;
                names.remove(id);
            }
        }
        core.structural.push(CatalogueChange { op, old_name });
        Ok(())
    }

    /// Undoes a signal's latest pending creation or removal.
    pub(crate) fn take_back(&self, id: SignalId) {
        let shared = &*self.shared;
        let mut core = shared.core();
        let mut names = shared.names.write().unwrap_or_else(PoisonError::into_inner);
        let of_signal = |change: &CatalogueChange| change.op.signal() == id;
        let Some(at) = core.structural.iter().rposition(of_signal) else {
            return;
        };
        let change = core.structural.remove(at);
        let slot = shared.slot(id);
        match change.op {
            Op::Create { .. } => {
                names.remove(id);
                if let Some(slot) = slot {
                    let mut slot = slot.lock();
                    slot.rollback();
                    slot.removed = true;
                    let _ = shared.media.remove_all(&slot.folder);
                }
                let mut slots = shared.slots.write().unwrap_or_else(PoisonError::into_inner);
                slots.remove(&id);
                shared.handles.remove_signal(id);
                shared.sources.remove_signal(id);
            }
            Op::Remove { .. } => {
                if let Some(slot) = slot {
                    slot.lock().removed = false;
                }
                change.old_name.iter().for_each(|old| names.insert(id, old));
            }
            _ => core.structural.insert(at, change),
        }
    }

    /// Fails if something foreign is in the name's folder.
    pub(super) fn refuse_in_the_way(&self, name: &str) -> Result<(), StoreError> {
        let shared = &*self.shared;
        let path = layout::signal_folder(&shared.root, name);
        if shared.media.stat(&path).at("look at", &path)?.is_none() {
            return Ok(());
        }
        // Except groups without signals, and signals to be removed or renamed.
        let ours = shared
            .all_slots()
            .iter()
            .any(|(_, slot)| slot.lock().folder == path);
        let names = shared.media.list(&path).unwrap_or_default();
        if ours || (!names.is_empty() && names.iter().all(|name| name == "zarr.json")) {
            return Ok(());
        }
        Err(StoreError::InTheWay {
            signal: name.into(),
            path,
        })
    }
}
