//! Part of a plan on another host: both ends; `isochrony/cluster` carries messages as `bytes`.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use isochrony_flow::{HostInbox, HostRequest, HostRun, RunnerContext};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use super::nesting::Nesting;
use super::owner::Owner;
use super::pickled_exceptions::PickledExceptions;
use super::run_context::RunContext;
use super::run_options::PythonRunOptions;
use super::sent_plans::{listed, received_part};
use crate::errors::{PackageError, Result};
use crate::interpreter::{attach, detach};

/// The client's end of a link to a host.
#[pyclass(frozen, module = "isochrony._native")]
pub(crate) struct NativeHostInbox {
    inbox: Arc<HostInbox>,
}

/// Of `ClusterRun.open_host`: host, form of the plan, objects, inbox.
pub(super) fn host_arguments(
    py: Python<'_>,
    request: HostRequest,
) -> Result<(String, String, Bound<'_, PyList>, NativeHostInbox)> {
    let HostRequest {
        host,
        form,
        objects,
        inbox,
        ..
    } = request;
    let objects = listed(py, objects)?;
    Ok((host, form.to_string(), objects, NativeHostInbox { inbox }))
}

#[pymethods]
impl NativeHostInbox {
    /// Adds a message by its number.
    fn push(&self, py: Python<'_>, number: u64, message: &[u8]) -> Result<()> {
        let pushed = detach(py, || self.inbox.push(number, message, &PickledExceptions));
        Ok(pushed.map_err(|error| {
            PackageError::new("RunError", "unreadable_message", error.to_string())
        })?)
    }

    /// The number of the last message read, once it exceeds `after`; None after `wait` seconds, or if no more are
    /// needed.
    fn read_after(&self, py: Python<'_>, after: u64, wait: f64) -> Option<u64> {
        let wait = Duration::try_from_secs_f64(wait).unwrap_or_default();
        detach(py, || self.inbox.read_after(after, wait))
    }

    /// Number of the last message received.
    #[getter]
    fn arrived(&self) -> u64 {
        self.inbox.arrived()
    }

    /// Bytes received.
    #[getter]
    fn received_bytes(&self) -> u64 {
        self.inbox.bytes()
    }

    /// Maximum bytes in flight.
    #[getter]
    fn window(&self) -> u64 {
        self.inbox.window()
    }

    /// Whether no more messages are needed or follow.
    fn is_done(&self) -> bool {
        self.inbox.is_done()
    }

    /// Ends the link with an exception.
    fn fail(&self, py: Python<'_>, error: Py<PyAny>) {
        let error = PyErr::from_value(error.into_bound(py));
        self.inbox.fail(Box::new(error));
    }

    /// The form of the plan for a new process after its host was lost; None if a source cannot resume.
    fn resumed(&self, form: &str) -> Option<String> {
        let form = serde_json::from_str(form).ok()?;
        Some(self.inbox.resumed(&form)?.to_string())
    }
}

/// A plan on the host of its sources.
#[pyclass(frozen, module = "isochrony._native")]
pub(crate) struct NativeHostRun {
    /// None while dropped.
    run: Option<HostRun>,
    /// Keeps the plan's objects.
    _objects: Vec<Arc<Py<PyAny>>>,
}

#[pymethods]
impl NativeHostRun {
    /// Starts a plan from the form and objects of `ClusterRun.open_host`. `first`: number of its first message.
    #[new]
    fn new(
        py: Python<'_>,
        form: &str,
        objects: Vec<(String, Bound<'_, PyAny>)>,
        first: u64,
        options: PythonRunOptions,
    ) -> Result<Self> {
        let (plan, owner) = received_part(py, form, objects)?;
        let objects = Owner::objects_of(py, owner.iter());
        let shared = RunContext::new(None, Nesting::current());
        let shared: Arc<dyn Any + Send + Sync> = Arc::new(shared);
        let mut settings = options.settings;
        // Each sample reaches the link before the next is read.
        (settings.workers, settings.auto_workers, settings.pin) = (1, false, false);
        let context = RunnerContext {
            shared: Some(shared),
            check: None,
            cache: None,
            causes: Arc::new(PickledExceptions),
        };
        let run = detach(py, || HostRun::new(&plan, first, settings, context));
        let run = run.map_err(|error| {
            PackageError::new(
                "RunError",
                "part_not_started",
                format!("the plan does not start: {error}"),
            )
        })?;
        Ok(Self {
            run: Some(run),
            _objects: objects,
        })
    }

    /// The message after `sent` and its number, if `window` bytes allow it; None after `wait` seconds.
    fn next<'py>(
        &self,
        py: Python<'py>,
        sent: u64,
        window: u64,
        wait: f64,
    ) -> Option<(u64, Bound<'py, PyBytes>)> {
        let run = self.run.as_ref()?;
        let wait = Duration::try_from_secs_f64(wait).unwrap_or_default();
        let (number, message) = detach(py, || run.buffer().next(sent, window, wait))?;
        Some((number, PyBytes::new(py, &message)))
    }

    /// The client has read all messages up to this one; False if later ones were not kept.
    fn acknowledge(&self, number: u64) -> bool {
        let mut run = self.run.iter();
        run.any(|run| run.buffer().acknowledge(number))
    }

    /// Whether the client has read everything.
    fn is_done(&self) -> bool {
        self.run.iter().all(|run| run.buffer().is_done())
    }

    /// Stops it.
    fn stop(&self, py: Python<'_>) {
        detach(py, || self.run.iter().for_each(HostRun::stop));
    }
}

impl Drop for NativeHostRun {
    /// Waits for the thread, which may need the interpreter to release its operators' objects.
    fn drop(&mut self) {
        let run = self.run.take();
        attach(|py| detach(py, || drop(run)));
    }
}
