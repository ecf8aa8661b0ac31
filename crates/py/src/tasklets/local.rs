//! Calls functions of tasklets in this process.

use std::sync::{Arc, Mutex, PoisonError};

use isochrony_store::Scratch;
use isochrony_tasklets::{Cause, ReturnValue, TaskletContext};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::description::Callbacks;
use super::output_buffer::{OutputBuffer, WrittenBlock};
use crate::signal::key_range::KeyRange;
use crate::signal::selection::Selection;
use crate::store::handle::OpenStore;

/// Ctrl-C or SystemExit, which end the whole execution.
#[derive(Default)]
pub(super) struct EndingError(Mutex<Option<PyErr>>);

impl EndingError {
    pub(super) fn take(&self) -> Option<PyErr> {
        let mut error = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        error.take()
    }

    /// Stops the execution on one of these.
    pub(super) fn check(&self, py: Python<'_>, error: &PyErr, context: &TaskletContext<'_>) {
        if !error.is_instance_of::<PyException>(py) {
            let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert_with(|| error.clone_ref(py));
            context.interrupt().request();
        }
    }
}

pub(super) type InputStore = (Arc<OpenStore>, Option<Scratch>);

pub(super) struct PythonFunction {
    pub(super) function: Arc<Py<PyAny>>,
    pub(super) objects: (Py<PyAny>, Py<PyAny>),
    pub(super) calls: Arc<Callbacks>,
    pub(super) ends: Arc<EndingError>,
}

impl PythonFunction {
    /// Returns whether a journal can keep the result, the result as JSON, and the ranges written: output, first and
    /// last sample.
    pub(super) fn call(
        &self,
        homes: &[InputStore],
        context: &mut TaskletContext<'_>,
    ) -> std::result::Result<ReturnValue, Cause> {
        let selections = (0..homes.len()).map(|input| context.input(input));
        let selections = selections.collect::<std::result::Result<Vec<_>, Cause>>()?;
        let (returned, pieces) = crate::interpreter::attach(|py| {
            let done = self.with_inputs(py, selections, homes, context);
            done.inspect_err(|error| self.ends.check(py, error, context))
        })?;
        for WrittenBlock {
            output,
            offset,
            block,
            whole,
        } in pieces
        {
            context.write_block(output, offset, block, whole)?;
        }
        Ok(returned)
    }

    fn with_inputs(
        &self,
        py: Python<'_>,
        selections: Vec<isochrony_store::Selection>,
        homes: &[InputStore],
        context: &TaskletContext<'_>,
    ) -> PyResult<(ReturnValue, Vec<WrittenBlock>)> {
        let inputs = PyList::empty(py);
        for (selection, (shared, scratch)) in selections.into_iter().zip(homes) {
            let range = selection.index_range().unwrap_or_default();
            let selection = Selection::new(selection, KeyRange::Index(range), shared);
            inputs.append(match scratch {
                Some(scratch) => selection.of_scratch(scratch),
                None => selection,
            })?;
        }
        let rooms = (0..context.outputs())
            .map(|output| Bound::new(py, OutputBuffer::new(output, context)?))
            .collect::<PyResult<Vec<_>>>()?;
        let Callbacks { call, results, .. } = &*self.calls;
        let (name, ranges) = &self.objects;
        let function = self.function.bind(py);
        let is_journaled = context.is_journaled();
        let given = call.bind(py).call1((
            function,
            name,
            ranges,
            results,
            inputs,
            rooms.clone(),
            is_journaled,
        ))?;
        let (kept, text, written): (bool, Option<String>, Vec<(usize, usize, usize)>) =
            given.extract()?;
        let returned = match text {
            _ if !kept => ReturnValue::NotSerializable,
            None => ReturnValue::Nothing,
            Some(text) => ReturnValue::Json(text),
        };
        let mut pieces = Vec::with_capacity(written.len());
        for (output, room) in rooms.iter().enumerate() {
            room.get().pieces(py, output, &written, &mut pieces)?;
        }
        Ok((returned, pieces))
    }
}
