//! `isochrony.Events`: events of a signal.

use isochrony_store::{EventRow, Signal as StoreSignal};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::errors::{PackageError, Result};
use crate::integer::IntegerArg;
use crate::signal::Signal;
use crate::signal::conversion::time_of;
use crate::signal::index::{as_index, is_index};
use crate::signal::key::resolve_key;
use crate::store::pickling::{Opening, decoded, encoded};
use crate::time::{Time, TimeArg};

/// An event of a signal: import provenance, a discontinuity, a user's annotation. Picklable.
///
/// >>> import isochrony as iso, numpy as np, tempfile
/// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
/// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
/// >>> _ = signal.append(np.zeros(1000, "i2"))
/// >>> _ = signal.events.add("onset", start=250, end=300, station="AKT")
/// >>> event = signal.events[-1]
/// >>> event.kind, event.start, event.end, event.fields
/// ('onset', 250, 300, {'station': 'AKT'})
#[pyclass(frozen, module = "isochrony")]
pub(crate) struct Event {
    row: EventRow,
    signal: StoreSignal,
}

#[pymethods]
impl Event {
    /// Unique in the signal, never reused.
    ///
    /// >>> event.id
    /// 0
    #[getter]
    fn id(&self) -> u64 {
        self.row.id
    }

    /// Its kind, `snake_case` by convention.
    ///
    /// >>> event.kind
    /// 'onset'
    #[getter]
    fn kind(&self) -> &str {
        &self.row.kind
    }

    /// Index of the event's first sample.
    ///
    /// >>> event.start
    /// 250
    #[getter]
    fn start(&self) -> i64 {
        self.row.start
    }

    /// End index; equal to `start` for an instant.
    ///
    /// >>> event.end
    /// 300
    #[getter]
    fn end(&self) -> i64 {
        self.row.end
    }

    /// Civil time of `start`; None without civil time.
    ///
    /// >>> event.time
    /// Time('2026-01-01T00:00:02.500Z')
    #[getter]
    fn time(&self) -> Result<Option<Time>> {
        Ok(match self.signal.empirical()? {
            Some(_) => Some(time_of(&self.signal, self.row.start)?),
            None => None,
        })
    }

    /// Free fields: a dict of JSON values.
    ///
    /// >>> event.fields
    /// {'station': 'AKT'}
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        crate::json::loads(py, &self.row.fields)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> Result<(Bound<'py, PyAny>, PickledEvent<'py>)> {
        let (snapshot, opening) = encoded(py, &self.signal)?;
        let EventRow {
            id,
            start,
            end,
            kind,
            fields,
        } = self.row.clone();
        let row = (id, start, end, kind, fields);
        let make = py
            .import("isochrony._native")?
            .getattr("_unpickled_event")?;
        Ok((make, (snapshot, opening, row)))
    }

    fn __repr__(&self) -> String {
        let EventRow {
            id,
            start,
            end,
            kind,
            fields,
        } = &self.row;
        format!("<Event {id} {kind} {start}..{end} {fields}>")
    }
}

type Row = (u64, i64, i64, String, String);
type PickledEvent<'py> = (Bound<'py, PyBytes>, Opening, Row);

/// Restores a pickled event of a signal's snapshot.
#[pyfunction]
pub(crate) fn _unpickled_event(
    snapshot: &Bound<'_, PyBytes>,
    opening: Opening,
    row: Row,
) -> Result<Event> {
    let (_, signal) = decoded(snapshot, opening)?;
    let (id, start, end, kind, fields) = row;
    let row = EventRow {
        id,
        start,
        end,
        kind,
        fields,
    };
    Ok(Event { row, signal })
}

/// The events of a signal, a sequence by start index.
#[pyclass(frozen, sequence, module = "isochrony")]
pub(crate) struct Events {
    pub(crate) signal: Py<Signal>,
}

#[pymethods]
impl Events {
    /// Adds an event, durable with the next commit.
    ///
    /// Parameters:
    ///     kind: `snake_case` by convention.
    ///     start: index or civil time.
    ///     end: index or civil time of the end; None: an instant.
    ///     fields: JSON values by name.
    ///
    /// Returns:
    ///     The event's id.
    ///
    /// Raises:
    ///     isochrony.StoreError: outside the signal, or a store open for reading.
    #[pyo3(signature = (kind, start, end=None, **fields))]
    fn add(
        &self,
        py: Python<'_>,
        kind: &str,
        start: &Bound<'_, PyAny>,
        end: Option<&Bound<'_, PyAny>>,
        fields: Option<&Bound<'_, PyDict>>,
    ) -> Result<u64> {
        let this = self.signal.get();
        let writer = this.writer("add an event")?;
        let signal = this.get(py)?;
        let start = place(&signal, start)?;
        let end = end.map_or(Ok(start), |end| place(&signal, end))?;
        let fields = match fields {
            Some(fields) => crate::json::object("an event", fields)?,
            None => Default::default(),
        };
        Ok(crate::interpreter::detach(py, || {
            writer.add_event(kind, start..end, &fields)
        })?)
    }

    /// Removes an event, durable with the next commit.
    ///
    /// Raises:
    ///     isochrony.StoreError: no event with that id (also KeyError).
    fn remove(&self, py: Python<'_>, id: IntegerArg<u64>) -> Result<()> {
        let writer = self.signal.get().writer("remove an event")?;
        Ok(crate::interpreter::detach(py, || {
            writer.remove_event(id.0)
        })?)
    }

    /// Find the events that overlap a range.
    ///
    /// Parameters:
    ///     key: slice of indices or times, span, run or selection; None: the whole signal.
    ///     kind: only events of this kind; None: of all kinds.
    ///
    /// Returns:
    ///     A list of events, in the order of `signal.events`. One that overlaps in part is among them, and is not cut.
    #[pyo3(signature = (key=None, *, kind=None))]
    fn find(
        &self,
        py: Python<'_>,
        key: Option<&Bound<'_, PyAny>>,
        kind: Option<&str>,
    ) -> Result<Vec<Event>> {
        let signal = self.signal.get().get(py)?;
        if let Some(text) = key.and_then(|key| key.cast::<PyString>().ok()) {
            let text = text.to_cow()?;
            let message = format!(
                "events.find got str {text:?} where a range of the signal is expected; give events of a kind as find(kind={text:?})"
            );
            return Err(PackageError::new("StoreTypeError", "bad_key", message).into());
        }
        let rows: Vec<EventRow> = match key {
            None => signal.events().cloned().collect(),
            Some(_) => signal.events_in(resolve_key(&signal, key)?.span())?,
        };
        let wanted = rows
            .into_iter()
            .filter(|row| kind.is_none_or(|kind| row.kind == kind));
        Ok(wanted
            .map(|row| Event {
                row,
                signal: signal.clone(),
            })
            .collect())
    }

    fn __len__(&self, py: Python<'_>) -> Result<usize> {
        Ok(self.signal.get().get(py)?.state().events.len())
    }

    fn __getitem__(&self, py: Python<'_>, position: &Bound<'_, PyAny>) -> Result<Event> {
        let signal = self.signal.get().get(py)?;
        let len = signal.state().events.len() as i64;
        let asked = as_index(position)?;
        let at = if asked < 0 { asked + len } else { asked };
        let row = usize::try_from(at)
            .ok()
            .and_then(|at| signal.events().nth(at).cloned());
        let Some(row) = row else {
            let message = format!(
                "event {asked} was asked for, but there are {len}; count from 0, or from -1 backwards"
            );
            return Err(PyIndexError::new_err(message).into());
        };
        Ok(Event { row, signal })
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        let events = self.find(py, None, None)?;
        let events: Vec<_> = events
            .into_iter()
            .map(|event| Bound::new(py, event))
            .collect::<PyResult<_>>()?;
        Ok(PyList::new(py, events)?.try_iter()?.into_any())
    }

    fn __repr__(&self, py: Python<'_>) -> Result<String> {
        let signal = self.signal.get().get(py)?;
        Ok(format!(
            "<Events: {} of {}>",
            signal.state().events.len(),
            signal.name()
        ))
    }
}

fn place(signal: &StoreSignal, at: &Bound<'_, PyAny>) -> Result<i64> {
    if is_index(at) {
        return as_index(at);
    }
    let time = at.extract::<TimeArg>()?.0;
    Ok(signal
        .index_of(&time.native(), Default::default(), None)?
        .index)
}

#[pymethods]
impl Signal {
    /// Its events: a sequence of `Event` with `add`, `remove` and `find`.
    ///
    /// >>> _ = signal.events.add("onset", start=250)
    /// >>> len(signal.events), signal.events[-1].kind
    /// (1, 'onset')
    #[getter]
    fn events(slf: Py<Self>) -> Events {
        Events { signal: slf }
    }
}
