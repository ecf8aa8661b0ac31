//! Reports and errors of tasklets as Python objects.

use isochrony_flow::ProcessReport;
use isochrony_tasklets::{ExecutionFailure, TaskletError, TaskletsReport};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::errors::{Error, PackageError};
use crate::plan::{ProcessFields, tuning_json};

pub(super) struct ReportExtras {
    pub(super) places: Vec<String>,
    pub(super) processes: Vec<ProcessReport>,
}

pub(super) fn raised(error: TaskletError) -> Error {
    let class = match &error {
        TaskletError::Option { .. } => "OptionError",
        TaskletError::Journal { .. } => "TaskletOSError",
        TaskletError::Failed { .. }
        | TaskletError::Interrupted { .. }
        | TaskletError::Thread { .. } => "TaskletError",
        _ => "TaskletValueError",
    };
    if let TaskletError::Store(error) = error {
        return error.into();
    }
    let mut raised = PackageError::new(class, error.code(), error.to_string());
    if let TaskletError::Journal { source, .. } = &error {
        raised = raised.with_errno(source.raw_os_error());
    }
    if let TaskletError::Failed { why, .. } = &error
        && let Some(python) = why.downcast_ref::<PyErr>()
    {
        let (cause, asked_to_end) = crate::interpreter::attach(|py| {
            (
                python.clone_ref(py),
                !python.is_instance_of::<PyException>(py),
            )
        });
        if asked_to_end {
            return Error::Python(cause);
        }
        raised = raised.with_cause(cause);
    }
    raised.into()
}

pub(super) fn failed(py: Python<'_>, failure: ExecutionFailure, extras: &ReportExtras) -> Error {
    let error = match raised(failure.error) {
        Error::Python(error) => return error.into(),
        ours => PyErr::from(ours),
    };
    if let Some(report) = &failure.report
        && let Ok(report) = described(py, report, extras)
    {
        let _ = error.value(py).setattr("_report", report);
    }
    error.into()
}

pub(super) fn described<'py>(
    py: Python<'py>,
    report: &TaskletsReport,
    extras: &ReportExtras,
) -> PyResult<Bound<'py, PyDict>> {
    let described = PyDict::new(py);
    let tasklets = PyList::empty(py);
    for one in &report.tasklets {
        let timing = one.timing.map(|timing| {
            let (start, end) = (timing.start.as_secs_f64(), timing.end.as_secs_f64());
            (timing.worker, start, end)
        });
        tasklets.append((
            &one.name,
            one.state,
            &one.error,
            one.step,
            &one.step_reason,
            timing,
            &one.json,
        ))?;
    }
    described.set_item("tasklets", tasklets)?;
    let workers = report.workers.iter().map(|worker| {
        let (busy, waited) = (worker.busy.as_secs_f64(), worker.waited.as_secs_f64());
        (worker.items, busy, waited)
    });
    described.set_item("workers", workers.collect::<Vec<_>>())?;
    described.set_item("peak_scratch_bytes", report.peak_scratch)?;
    described.set_item("prefetched_bytes", report.prefetched)?;
    described.set_item("pinned_cpus", PyTuple::new(py, &report.pinned_cpus)?)?;
    described.set_item("elapsed_s", report.elapsed.as_secs_f64())?;
    described.set_item("notes", &report.notes)?;
    let tuning = report.tuning.as_ref().map(tuning_json);
    described.set_item("tuning", tuning)?;
    described.set_item("places", &extras.places)?;
    let processes = extras.processes.iter().map(ProcessFields::from);
    described.set_item("processes", processes.collect::<Vec<_>>())?;
    Ok(described)
}
