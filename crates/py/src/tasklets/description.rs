//! Tasklets and settings from Python.

use std::path::PathBuf;
use std::time::Duration;

use isochrony_tasklets::{ExecutorOptions, OrderPolicy};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::plan::{NativePlan, tuning_mode};
use crate::signal::selection::Selection;

pub(crate) struct TaskletDescription<'py> {
    pub(super) name: String,
    pub(super) function_name: String,
    /// Of the function or plan, in addition to its name.
    pub(super) identity: String,
    pub(super) function: Option<Py<PyAny>>,
    pub(super) plan: Option<Bound<'py, NativePlan>>,
    pub(super) inputs: Vec<Bound<'py, Selection>>,
    pub(super) outputs: Vec<Bound<'py, Selection>>,
    /// Name and outputs, for the function.
    pub(super) objects: (Py<PyAny>, Py<PyAny>),
    pub(super) after: Vec<String>,
    /// Where the function is called; empty for a plan.
    pub(super) on_workers: String,
}

impl<'py> FromPyObject<'_, 'py> for TaskletDescription<'py> {
    type Error = PyErr;

    /// There are thousands, and a tuple is read faster than a dict.
    fn extract(described: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (name, function_name, identity, function, plan, inputs, outputs, after, on_workers) =
            described.extract()?;
        let described = described.cast::<PyTuple>()?;
        let object = |at| Ok::<_, PyErr>(described.get_item(at)?.unbind());
        Ok(Self {
            name,
            function_name,
            identity,
            function,
            plan,
            inputs,
            outputs,
            objects: (object(0)?, object(6)?),
            after,
            on_workers,
        })
    }
}

pub(crate) struct Callbacks {
    pub(super) call: Py<PyAny>,
    pub(super) on_result: Py<PyAny>,
    pub(super) results: Py<PyDict>,
}

/// Validated by Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ExecutorSettings {
    pub(super) workers: usize,
    pub(super) scratch: u64,
    pub(super) scratch_memory: Option<u64>,
    pub(super) given: bool,
    pub(super) prefetch: u64,
    pub(super) pin: bool,
    pub(super) keep_going: bool,
    pub(super) keep_every_s: f64,
    pub(super) journal: Option<PathBuf>,
    pub(super) tuning: Option<String>,
}

impl ExecutorSettings {
    pub(super) fn options(self) -> PyResult<ExecutorOptions> {
        let mut options = ExecutorOptions::default();
        options.workers = self.workers;
        options.scratch = self.scratch;
        options.scratch_memory = self.scratch_memory;
        options.order = if self.given {
            OrderPolicy::Given
        } else {
            OrderPolicy::Disk
        };
        options.prefetch = self.prefetch;
        options.pin = self.pin;
        options.keep_going = self.keep_going;
        options.keep_every = Duration::try_from_secs_f64(self.keep_every_s).unwrap_or_default();
        options.journal = self.journal;
        options.tuning = self.tuning.as_deref().map(tuning_mode).transpose()?;
        Ok(options)
    }
}
