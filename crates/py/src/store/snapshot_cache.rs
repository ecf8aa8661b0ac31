//! [`SnapshotCache`]: the latest snapshots of an open store.

use std::sync::{Arc, Mutex};

use isochrony_store::Signal as StoreSignal;
use isochrony_store::state::SignalState;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Shared by objects of one signal that are pickled together.
#[derive(Default)]
pub(crate) struct SnapshotCache {
    pub(super) encoded: Mutex<Option<EncodedSnapshot>>,
    pub(super) decoded: Mutex<Option<(Py<PyBytes>, StoreSignal)>>,
}

pub(super) struct EncodedSnapshot {
    pub(super) state: Arc<SignalState>,
    pub(super) sequence: u64,
    pub(super) is_pending: bool,
    pub(super) bytes: Py<PyBytes>,
}
