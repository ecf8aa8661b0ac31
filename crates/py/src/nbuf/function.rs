//! A Python function of records.
//!
//! It gets each record as a read-only memoryview, of a copy per buffer unless Python gave the memory: workers reuse
//! theirs, and Python code may keep a view.

use std::sync::{Mutex, PoisonError};

use isochrony_nbuf::{BufferOutput, Cause, LocatedError, RecordBlock};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PyTuple};

use super::remote::{Accumulator, RemoteCalls, RemoteWorker};
use super::streams::bytes;
use crate::memory::slice;

pub(super) struct Function {
    pub(super) function: Py<PyAny>,
    pub(super) batch: bool,
    /// They create a buffer's accumulator, and add it to the stream's.
    pub(super) sums: Option<(Py<PyAny>, Py<PyAny>)>,
    pub(super) remote: Option<RemoteCalls>,
    pub(super) views: Vec<Option<Py<PyAny>>>,
    pub(super) total: Mutex<Option<Py<PyAny>>>,
}

impl Function {
    pub(super) fn execute(
        &self,
        remote: &mut Option<RemoteWorker>,
        sum: &mut Accumulator,
        block: &RecordBlock<'_>,
        out: &mut BufferOutput<'_>,
    ) -> Result<(), Cause> {
        if let Some(remote) = remote {
            return remote.execute(self.batch, sum, block, out);
        }
        crate::interpreter::attach(|py| {
            let all = self.view(py, block)?;
            if let Some((initial, _)) = &self.sums {
                *sum = Some(initial.call0(py)?);
            }
            if self.batch {
                let returned = self.call(py, &all, sum)?;
                return put(&returned, &all, block.bytes, out);
            }
            let mut at = 0;
            for record in block.records() {
                let place = |why: Cause| LocatedError {
                    offset: block.offset + at as u64,
                    length: record.len() as u64,
                    why,
                };
                out.begin_record();
                let view = all.get_item(slice(py, at, at + record.len())?)?;
                let returned = self.call(py, &view, sum).map_err(|why| place(why.into()))?;
                put(&returned, &view, record, out).map_err(place)?;
                at += record.len();
            }
            Ok(())
        })
    }

    pub(super) fn join(&self, sum: &mut Accumulator) -> Result<(), Cause> {
        let (Some((initial, combine)), Some(sum)) = (&self.sums, sum.take()) else {
            return Ok(());
        };
        crate::interpreter::attach(|py| {
            let before = self.lock().take();
            let before = before.map_or_else(|| initial.call0(py), Ok)?;
            let total = combine.call1(py, (before, sum))?;
            *self.lock() = Some(total);
            Ok(())
        })
    }

    /// The stream's accumulator, or an initial one. After an error no function is called: its error would hide the
    /// first.
    pub(super) fn total(&self, py: Python<'_>, complete: bool) -> PyResult<Option<Py<PyAny>>> {
        let total = self.lock().as_ref().map(|total| total.clone_ref(py));
        match (&self.sums, total) {
            (Some((initial, _)), None) if complete => initial.call0(py).map(Some),
            (_, total) => Ok(total),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Py<PyAny>>> {
        self.total.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn view<'py>(&self, py: Python<'py>, block: &RecordBlock<'_>) -> PyResult<Bound<'py, PyAny>> {
        match &self.views[block.input] {
            Some(whole) => {
                let start = block.input_offset as usize;
                whole
                    .bind(py)
                    .get_item(slice(py, start, start + block.bytes.len())?)
            }
            None => Ok(PyMemoryView::from(&PyBytes::new(py, block.bytes))?.into_any()),
        }
    }

    fn call<'py>(
        &self,
        py: Python<'py>,
        view: &Bound<'py, PyAny>,
        sum: &Accumulator,
    ) -> PyResult<Bound<'py, PyAny>> {
        let function = self.function.bind(py);
        match sum {
            None => function.call1((view,)),
            Some(sum) => function.call1((view, sum)),
        }
    }
}

/// Writes a result: bytes to output 0, nothing, or for each output either.
fn put(
    returned: &Bound<'_, PyAny>,
    given: &Bound<'_, PyAny>,
    record: &[u8],
    out: &mut BufferOutput<'_>,
) -> Result<(), Cause> {
    if returned.is_none() {
        return Ok(());
    }
    if !returned.is_instance_of::<PyTuple>() && !returned.is_instance_of::<PyList>() {
        if out.output_count() > 1 {
            let message = format!(
                "the function returned {} for {} outputs; return a tuple with bytes or None for each",
                returned.get_type().name()?,
                out.output_count()
            );
            return Err(PyTypeError::new_err(message).into());
        }
        return put_one(returned, given, record, 0, out);
    }
    let count = returned.len()?;
    if out.output_count() > 0 && count != out.output_count() {
        let message = format!(
            "the function returned {count} values for {} outputs; return bytes or None for each",
            out.output_count()
        );
        return Err(PyTypeError::new_err(message).into());
    }
    for output in 0..count {
        let one = returned.get_item(output)?;
        if !one.is_none() {
            put_one(&one, given, record, output, out)?;
        }
    }
    Ok(())
}

fn put_one(
    returned: &Bound<'_, PyAny>,
    given: &Bound<'_, PyAny>,
    record: &[u8],
    output: usize,
    out: &mut BufferOutput<'_>,
) -> Result<(), Cause> {
    let made;
    let bytes = if returned.is(given) {
        record
    } else {
        made = bytes(returned, "the function")?;
        made.as_bytes()
    };
    if out.has_room_for(bytes.len()) {
        return Ok(out.write(output, bytes)?);
    }
    // May wait for a turn, whose holder may need the interpreter.
    Ok(crate::interpreter::detach(returned.py(), || {
        out.write(output, bytes)
    })?)
}
