//! When parameter changes take effect: at an index of the operator's input.
//!
//! ```text
//!  instance 0  |=======|  |====                   an instance admits an item before it computes it
//!  instance 1          |=======|
//!                              ^ a change that is requested now takes effect here, in both
//! ```
//!
//! What begins before a change's index is computed with the old parameters, all else with the new ones, by any instance
//! and for any cuts of the input.
//!
//! Admission and request are each announced before the other is looked for, with a fence between. So whoever decides a
//! request's index sees every instance that admitted an item without seeing the request
//! (`tests/loom_models/parameters.rs`).

use std::sync::atomic::Ordering;

use serde_json::{Map, Value};

use super::sync::{AtomicI64, AtomicUsize, Mutex, MutexGuard, PoisonError, fence};

#[derive(Debug)]
pub(crate) struct ParameterChanges {
    requested: AtomicUsize,
    /// Instances may have received what begins before this index.
    admitted: AtomicI64,
    changes: Mutex<Vec<ParameterChange>>,
}

#[derive(Debug)]
struct ParameterChange {
    params: Map<String, Value>,
    /// Not before this index.
    at: i64,
    /// Decided index; `i64::MIN`: items have no indices.
    from: Option<i64>,
}

pub(crate) type ParameterVersion = (i64, Map<String, Value>);

impl Default for ParameterChanges {
    fn default() -> Self {
        Self {
            requested: AtomicUsize::new(0),
            admitted: AtomicI64::new(i64::MIN),
            changes: Mutex::new(Vec::new()),
        }
    }
}

impl ParameterChanges {
    fn lock(&self) -> MutexGuard<'_, Vec<ParameterChange>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests a change, not before index `at`, admitted items or earlier changes. Returns its number.
    pub(crate) fn request(&self, params: Map<String, Value>, at: i64) -> usize {
        let mut changes = self.lock();
        let from = None;
        changes.push(ParameterChange { params, at, from });
        self.requested.store(changes.len(), Ordering::Release);
        changes.len() - 1
    }

    pub(crate) fn requested(&self) -> usize {
        self.requested.load(Ordering::Acquire)
    }

    /// Announces that what begins before `end` will be computed.
    pub(crate) fn admit(&self, end: i64) {
        self.admitted.fetch_max(end, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// Changes after the first `known`, whose indices are decided now if not before. `next`: start of the item to
    /// compute, if it has indices and nothing was admitted yet.
    pub(crate) fn versions_after(&self, known: usize, next: Option<i64>) -> Vec<ParameterVersion> {
        let mut changes = self.lock();
        fence(Ordering::SeqCst);
        let admitted = self.admitted.load(Ordering::Acquire);
        let mut earlier = i64::MIN;
        for change in changes.iter_mut() {
            let from = change.from.get_or_insert_with(|| {
                match change.at.max(admitted).max(earlier) {
                    // Nothing was admitted, and no index requested.
                    i64::MIN => next.unwrap_or(i64::MIN),
                    from => from,
                }
            });
            earlier = *from;
        }
        let new = changes.iter().skip(known);
        new.filter_map(|change| Some((change.from?, change.params.clone())))
            .collect()
    }

    pub(crate) fn effective_from(&self, change: usize) -> Option<i64> {
        let from = self.lock().get(change)?.from;
        from.filter(|&from| from > i64::MIN)
    }
}
