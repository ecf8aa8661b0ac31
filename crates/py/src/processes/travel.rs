//! How functions get into worker processes; the work is done by `isochrony/transport.py`.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;

/// What starts a worker process.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
}

impl Start {
    /// What starts one of so many; or why none can be started.
    pub(super) fn of(workers: usize) -> Result<Self, String> {
        type Command = (Vec<String>, Vec<(String, String)>);
        let asked = Python::attach(|py| -> PyResult<Command> {
            let command = py.import("isochrony.transport")?.getattr("command")?;
            command.call1((workers,))?.extract()
        });
        let (mut arguments, environment) = asked.map_err(|error| error.to_string())?;
        if arguments.is_empty() {
            return Err("no command".into());
        }
        let program = arguments.remove(0);
        Ok(Self {
            program,
            arguments,
            environment,
        })
    }
}

/// A function as it travels.
#[derive(Debug)]
pub(crate) struct Travelling {
    /// By which worker processes know it.
    pub(super) number: u64,
    pub(super) by_value: bool,
    pub(super) payload: Vec<u8>,
    /// How it travels, in words.
    pub(crate) words: String,
}

impl Travelling {
    /// A function as it is now; or why it cannot travel.
    pub(crate) fn of(function: &Py<PyAny>) -> Result<Self, String> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let travelled = Python::attach(|py| -> PyResult<(String, Vec<u8>, String)> {
            let travel = py.import("isochrony.transport")?.getattr("travel")?;
            travel.call1((function,))?.extract()
        });
        match travelled {
            Ok((how, payload, words)) if !how.is_empty() => Ok(Self {
                number: NUMBER.fetch_add(1, Ordering::Relaxed),
                by_value: how == "value",
                payload,
                words,
            }),
            Ok((.., why)) => Err(why),
            Err(error) => Err(format!("cannot travel to a worker process ({error})")),
        }
    }
}
