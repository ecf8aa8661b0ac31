//! Rollback and closing.

use std::path::PathBuf;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::engine_state::EngineState;
use super::io;
use crate::error::StoreError;
use crate::layout;
use crate::op::Op;

impl EngineState {
    pub(super) fn new_tmp(&self) -> (String, PathBuf) {
        let path = io::unique(&layout::tmp_folder(&self.root), "new");
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        (name.unwrap_or_default(), path)
    }

    /// Best effort: recovery empties `tmp/` too.
    pub(super) fn discard_replacements<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let folder = layout::tmp_folder(&self.root);
        for name in names {
            let _ = self.media.remove_all(&folder.join(name));
        }
    }

    pub(super) fn rollback(&self) {
        let mut core = self.core();
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        for change in std::mem::take(&mut core.structural).into_iter().rev() {
            let id = change.op.signal();
            match change.old_name {
                Some(old) => names.insert(id, &old),
                None => _ = names.remove(id),
            }
            if let Some(slot) = self.slot(id) {
                slot.lock().removed = false;
            }
        }
        drop(names);
        let active = {
            let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *active)
        };
        for id in active {
            let Some(slot) = self.slot(id) else { continue };
            let mut slot = slot.lock();
            self.discard_replacements(slot.ops.iter().filter_map(Op::replacement));
            slot.rollback();
            self.handles.remove_signal(id);
            self.sources.remove_signal(id);
            if slot.created {
                let _ = self.media.remove_all(&slot.folder);
                slot.removed = true;
                let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
                slots.remove(&id);
            }
        }
    }

    pub(super) fn close(&self) -> Result<(), StoreError> {
        // A fork shares the lock but must not change the store.
        if self.owner != std::process::id() || self.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        let poisoned = self.check("close");
        if poisoned.is_ok() {
            self.rollback();
        }
        let mut core = self.core();
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        if let Some(publisher) = self.publisher.get() {
            publisher.unpark();
        }
        let done = match poisoned {
            Ok(()) if core.log.has_records || !core.dirty.is_empty() => {
                self.checkpoint_with(&mut core)
            }
            Ok(()) => {
                self.publish(&mut core);
                Ok(())
            }
            // The error was reported before.
            Err(_) => {
                core.lock.release();
                return Ok(());
            }
        };
        let is_finished = core.unpublished.is_empty() && !self.unfinished.load(Ordering::Acquire);
        if done.is_ok() && is_finished {
            // Text in the lock file makes the next opening recover.
            let _ = core.lock.write("");
        }
        core.lock.release();
        done
    }
}
