//! Changes that await the next commit.

use std::sync::Arc;

use super::Engine;
use super::slot::SlotInner;
use crate::error::StoreError;
use crate::op::{Op, PointRow, SignalId};
use crate::state::SignalState;

impl Engine {
    /// Adds a change to the next commit, stamps last: all operations, or none after an error. Readers see the state
    /// before or after.
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`], or I/O errors of replacement files.
    pub(crate) fn queue_change(
        &self,
        id: SignalId,
        ops: Vec<Op>,
        points: Vec<PointRow>,
    ) -> Result<(), StoreError> {
        let shared = &*self.shared;
        shared.check("change a signal")?;
        if ops.is_empty() && points.is_empty() {
            return Ok(());
        }
        let slot = shared.existing(id)?;
        let mut slot = slot.lock();
        slot.refuse_removed()?;
        // All that may fail comes before the first operation.
        slot.state(&*shared.media)?;
        for op in &ops {
            shared.prepare_replacement(&slot, op)?;
        }
        let points = points.into_iter().map(|point| Op::Point { id, point });
        for op in ops.into_iter().chain(points) {
            slot.queue(&*shared.media, op)?;
        }
        drop(slot);
        shared.mark_active(id);
        Ok(())
    }

    /// Whether changes await a commit.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        let shared = &*self.shared;
        !shared.core().structural.is_empty()
            || shared
                .active()
                .iter()
                .filter_map(|id| shared.slot(*id))
                .any(|slot| slot.lock().is_pending())
    }

    /// Signals with uncommitted changes, and by how many samples each has grown.
    #[must_use]
    pub fn pending_signals(&self) -> Vec<(String, i64)> {
        let shared = &*self.shared;
        let active = shared.active();
        let slots = active.iter().filter_map(|id| shared.slot(*id));
        let pending = slots.filter_map(|slot| slot.lock().pending_samples());
        pending.collect()
    }

    /// `None` if created since the last commit.
    pub(crate) fn committed_state(
        &self,
        id: SignalId,
    ) -> Result<Option<Arc<SignalState>>, StoreError> {
        let slot = self.shared.existing(id)?;
        let mut slot = slot.lock();
        let committed = slot.committed_state(&*self.shared.media)?;
        Ok(committed.filter(|_| !slot.created))
    }

    /// Whether changes of a signal await a commit.
    #[must_use]
    pub fn has_pending_in(&self, id: SignalId) -> bool {
        (self.shared.slot(id)).is_some_and(|slot| slot.lock().is_pending())
    }
}

impl SlotInner {
    pub(crate) fn pending_samples(&self) -> Option<(String, i64)> {
        let state = self
            .state
            .as_ref()
            .filter(|_| self.is_pending() && !self.removed)?;
        let samples = |state: &SignalState| state.end - state.gaps.missing_within(0..state.end);
        let before = self
            .committed
            .as_deref()
            .filter(|_| !self.created)
            .map(samples);
        let new = match (before, self.created) {
            (Some(before), _) => samples(state) - before,
            (None, true) => samples(state),
            (None, false) => 0,
        };
        Some((state.name.to_string(), new.max(0)))
    }
}
