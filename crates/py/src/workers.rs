//! Worker processes that run Python: start command, functions and exceptions.
//!
//! [`isochrony_workers`] has the processes; `isochrony/workers/transport.py` pickles.

use std::sync::Arc;
use std::time::Duration;

use isochrony_flow::{Cause, OpError, OpErrorKind, RunOptions};
use isochrony_workers::{
    CallContext, CallError, Encoding, HostFunction, ProcessPool, RemoteException,
    SerializedFunction, StartCommand, kill_group_when_closed,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::interpreter::attach;
use crate::plan::run_context::RunContext;

/// `variable` (name, value) is added to the environment of a worker.
pub(crate) fn process_pool(workers: usize, variable: (String, String)) -> Arc<ProcessPool> {
    ProcessPool::new(move || start_command(workers, variable))
}

fn start_command(workers: usize, variable: (String, String)) -> Result<StartCommand, String> {
    type Command = (Vec<String>, Vec<(String, String)>);
    let command = attach(|py| -> PyResult<Command> {
        let command = py
            .import("isochrony.workers.transport")?
            .getattr("command")?;
        command.call1((workers,))?.extract()
    });
    let (mut arguments, mut environment) = command.map_err(|error| error.to_string())?;
    environment.push(variable);
    if arguments.is_empty() {
        return Err("no command".into());
    }
    let program = arguments.remove(0);
    Ok(StartCommand {
        program,
        arguments,
        environment,
    })
}

struct FunctionObject(Arc<Py<PyAny>>);

pub(crate) fn host_function(function: &Arc<Py<PyAny>>) -> Arc<dyn HostFunction> {
    Arc::new(FunctionObject(Arc::clone(function)))
}

impl HostFunction for FunctionObject {
    fn id(&self) -> usize {
        self.0.as_ptr().addr()
    }

    fn serialize(&self, max_payload: Option<usize>) -> Result<SerializedFunction, String> {
        let serialized = attach(|py| -> PyResult<(String, Option<Vec<u8>>, String)> {
            let travel = py
                .import("isochrony.workers.transport")?
                .getattr("travel")?;
            travel.call1((&*self.0, max_payload))?.extract()
        });
        let (how, payload, description) =
            serialized.map_err(|error| format!("cannot travel to a worker process ({error})"))?;
        let encoding = match how.as_str() {
            "name" => Encoding::Name,
            "value" => Encoding::Value,
            _ => return Err(description),
        };
        Ok(SerializedFunction {
            encoding,
            payload,
            description,
        })
    }
}

/// For an operator.
pub(crate) fn call_context(run: &RunOptions<'_>) -> CallContext {
    CallContext {
        worker: run.worker,
        caller: Some(RunContext::caller(run)),
        interrupt: run.interrupt.cloned(),
        watch: run.watch.cloned(),
        check_signals,
    }
}

pub(crate) fn check_signals() -> Result<(), Cause> {
    Ok(attach(|py| py.check_signals())?)
}

pub(crate) fn rebuild(exception: &RemoteException) -> PyErr {
    let RemoteException {
        pid,
        while_loading,
        traceback,
        class,
        message,
        pickled,
    } = exception;
    attach(|py| {
        let rebuilt = py
            .import("isochrony.workers.transport")?
            .getattr("rebuilt")?;
        let error = rebuilt.call1((pid, while_loading, traceback, class, message, &pickled[..]))?;
        Ok(PyErr::from_value(error))
    })
    .unwrap_or_else(|error| error)
}

pub(crate) fn cause(error: CallError) -> Cause {
    match error {
        CallError::Raised(exception) => Box::new(rebuild(&exception)),
        CallError::Signal(cause) => cause,
        other => Box::new(other),
    }
}

pub(crate) fn operator_error(error: CallError) -> OpError {
    match error {
        CallError::Stopped => OpErrorKind::Interrupted,
        other => OpErrorKind::Failed(cause(other)),
    }
    .into()
}

/// Kills a worker process and its process group, `grace` seconds after its parent has closed `socket`.
#[pyfunction]
pub(crate) fn end_with(socket: i32, grace: f64) -> PyResult<()> {
    let socket = crate::descriptor::duplicate(socket)?;
    let grace = Duration::try_from_secs_f64(grace)
        .map_err(|error| PyValueError::new_err(format!("grace={grace}: {error}; give seconds")))?;
    Ok(kill_group_when_closed(socket, grace)?)
}
