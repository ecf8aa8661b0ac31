//! Pickles stores, signals and selections as snapshots.
//!
//! In the process that pickled it, a signal uses the same opening of its store; elsewhere the store is opened for
//! reading.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use isochrony_store::{Selection as StoreSelection, Signal as StoreSignal};
use isochrony_store::{SignalSnapshot, StoreSnapshot};
use isochrony_time::Fixed;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::Result;
use crate::interpreter::detach;
use crate::signal::Signal;
use crate::signal::key_range::KeyRange;
use crate::signal::selection::Selection;
use crate::store::Store;
use crate::store::handle::OpenStore;
use crate::store::snapshot_cache::EncodedSnapshot;

/// Process, and number of the opening in it; 0: none.
pub(crate) type Opening = (u32, u64);
type Reduced<'py, T> = (Bound<'py, PyAny>, T);

type Readers = HashMap<(u32, PathBuf), Weak<OpenStore>>;

/// Stores opened for unpickled objects.
static READERS: Mutex<Option<Readers>> = Mutex::new(None);

fn readers<T>(with: impl FnOnce(&mut Readers) -> T) -> T {
    let mut all = READERS.lock().unwrap_or_else(PoisonError::into_inner);
    with(all.get_or_insert_default())
}

fn function<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("isochrony._native")?.getattr(name)
}

/// With the opening to look in first.
pub(crate) fn encoded<'py>(
    py: Python<'py>,
    signal: &StoreSignal,
) -> Result<(Bound<'py, PyBytes>, Opening)> {
    let process = std::process::id();
    let Some(shared) = OpenStore::showing(signal) else {
        let bytes = detach(py, || signal.snapshot()?.to_bytes())?;
        return Ok((PyBytes::new(py, &bytes), (process, 0)));
    };
    let opening = (process, shared.number());
    let (sequence, is_pending) = (
        shared.store.sequence()?,
        shared.store.has_pending_in(signal),
    );
    let is_same = |last: &&EncodedSnapshot| {
        Arc::ptr_eq(&last.state, signal.state())
            && (last.sequence, last.is_pending) == (sequence, is_pending)
    };
    let last = || {
        shared
            .snapshots
            .encoded
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    };
    if let Some(last) = last().as_ref().filter(is_same) {
        return Ok((last.bytes.bind(py).clone(), opening));
    }
    let bytes = detach(py, || signal.snapshot()?.to_bytes())?;
    let bytes = PyBytes::new(py, &bytes);
    *last() = Some(EncodedSnapshot {
        state: Arc::clone(signal.state()),
        sequence,
        is_pending,
        bytes: bytes.clone().unbind(),
    });
    Ok((bytes, opening))
}

pub(crate) fn decoded(
    bytes: &Bound<'_, PyBytes>,
    opening: Opening,
) -> Result<(Arc<OpenStore>, StoreSignal)> {
    let py = bytes.py();
    let known = |shared: &OpenStore| {
        let last = shared
            .snapshots
            .decoded
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (known, signal) = last.as_ref()?;
        known.is(bytes).then(|| signal.clone())
    };
    if let Some(found) = OpenStore::all().into_iter().find_map(|shared| {
        let signal = known(&shared)?;
        Some((shared, signal))
    }) {
        return Ok(found);
    }
    let encoded = bytes.as_bytes();
    let (shared, signal) = detach(py, || {
        opened(&SignalSnapshot::from_bytes(encoded)?, opening)
    })?;
    let mut last = shared
        .snapshots
        .decoded
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    *last = Some((bytes.clone().unbind(), signal.clone()));
    drop(last);
    Ok((shared, signal))
}

fn opened(snapshot: &SignalSnapshot, opening: Opening) -> Result<(Arc<OpenStore>, StoreSignal)> {
    let (process, number) = opening;
    if process == std::process::id()
        && let Some(shared) = OpenStore::find(number)
    {
        let signal = shared.store.signal_at(snapshot)?;
        return Ok((shared, signal));
    }
    let key = (std::process::id(), snapshot.store_path().to_owned());
    let reader = readers(|all| all.get(&key).and_then(Weak::upgrade));
    if let Some(shared) = reader.filter(|shared| !shared.store.is_closed())
        // Otherwise another store may have replaced it.
        && let Ok(signal) = shared.store.signal_at(snapshot)
    {
        return Ok((shared, signal));
    }
    let store = snapshot.open_store()?;
    let signal = store.signal_at(snapshot)?;
    let shared = OpenStore::new(store);
    readers(|all| {
        all.retain(|_, store| store.strong_count() > 0);
        all.insert(key, Arc::downgrade(&shared));
    });
    Ok((shared, signal))
}

/// The snapshot of a signal, with its store's path changed if it begins with one of these: pairs of old and new prefix.
#[pyfunction]
pub(crate) fn _snapshot_at<'py>(
    py: Python<'py>,
    snapshot: &[u8],
    paths: Vec<(PathBuf, PathBuf)>,
) -> Result<Bound<'py, PyBytes>> {
    let snapshot = SignalSnapshot::from_bytes(snapshot)?;
    let moved = paths.iter().find_map(|(old, new)| {
        let rest = snapshot.store_path().strip_prefix(old).ok()?;
        // Joining an empty rest would append a slash.
        Some(if rest.as_os_str().is_empty() {
            new.clone()
        } else {
            new.join(rest)
        })
    });
    let snapshot = match moved {
        Some(path) => snapshot.at_path(&path),
        None => snapshot,
    };
    Ok(PyBytes::new(py, &snapshot.to_bytes()?))
}

/// The store's folder in a signal's snapshot.
#[pyfunction]
pub(crate) fn _snapshot_path(snapshot: &[u8]) -> Result<PathBuf> {
    let snapshot = SignalSnapshot::from_bytes(snapshot)?;
    Ok(snapshot.store_path().to_owned())
}

/// Restores a pickled store, for reading.
#[pyfunction]
pub(crate) fn _unpickled_store(py: Python<'_>, snapshot: &[u8]) -> Result<Store> {
    let store = detach(py, || StoreSnapshot::from_bytes(snapshot)?.open())?;
    let shared = OpenStore::new(store);
    Ok(Store { shared })
}

#[pyfunction]
pub(crate) fn _unpickled_signal(snapshot: &Bound<'_, PyBytes>, opening: Opening) -> Result<Signal> {
    let (shared, signal) = decoded(snapshot, opening)?;
    Ok(Signal::snapshot(&shared, signal))
}

/// Restores a pickled selection: its ranges, and the bits of the requested civil times.
#[pyfunction]
#[pyo3(signature = (snapshot, opening, ranges, civil))]
pub(crate) fn _unpickled_selection(
    snapshot: &Bound<'_, PyBytes>,
    opening: Opening,
    ranges: Vec<(i64, i64)>,
    civil: Option<(i128, i128)>,
) -> Result<Selection> {
    let (shared, signal) = decoded(snapshot, opening)?;
    let ranges = ranges.into_iter().map(|(start, end)| start..end);
    let (selection, asked) = match civil {
        Some((start, end)) => {
            let civil = Fixed::from_bits(start)..Fixed::from_bits(end);
            let selection = StoreSelection::of_parts(signal, civil.clone(), ranges)?;
            (selection, KeyRange::Civil(civil))
        }
        None => {
            let range = ranges.into_iter().next().unwrap_or_default();
            (signal.select(range.clone())?, KeyRange::Index(range))
        }
    };
    Ok(Selection::new(selection, asked, &shared))
}

#[pymethods]
impl Store {
    /// The present state of a store open for reading, for another process.
    fn __reduce__<'py>(&self, py: Python<'py>) -> Result<Reduced<'py, (Bound<'py, PyBytes>,)>> {
        let bytes = detach(py, || self.shared.store.snapshot()?.to_bytes())?;
        let make = function(py, "_unpickled_store")?;
        Ok((make, (PyBytes::new(py, &bytes),)))
    }
}

#[pymethods]
impl Signal {
    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> Result<Reduced<'py, (Bound<'py, PyBytes>, Opening)>> {
        let encoded = encoded(py, &self.get(py)?)?;
        Ok((function(py, "_unpickled_signal")?, encoded))
    }
}

type PickledSelection<'py> = (
    Bound<'py, PyBytes>,
    Opening,
    Vec<(i64, i64)>,
    Option<(i128, i128)>,
);

#[pymethods]
impl Selection {
    fn __reduce__<'py>(&self, py: Python<'py>) -> Result<Reduced<'py, PickledSelection<'py>>> {
        let (bytes, opening) = encoded(py, self.signal())?;
        let ends = |range: &std::ops::Range<i64>| (range.start, range.end);
        let (ranges, civil) = match self.selection.index_range() {
            Some(range) => (vec![ends(&range)], None),
            None => {
                let civil = self.selection.civil_range();
                let civil = civil.map(|civil| (civil.start.to_bits(), civil.end.to_bits()));
                let parts = self.selection.parts().iter();
                (parts.map(|part| ends(&part.range)).collect(), civil)
            }
        };
        let make = function(py, "_unpickled_selection")?;
        Ok((make, (bytes, opening, ranges, civil)))
    }
}
