//! How functions get into worker processes; the work is done by `isochrony/transport.py`.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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
    pub(super) fn of(workers: usize, added: &(String, String)) -> Result<Self, String> {
        type Command = (Vec<String>, Vec<(String, String)>);
        let asked = crate::interpreter::attach(|py| -> PyResult<Command> {
            let command = py.import("isochrony.transport")?.getattr("command")?;
            command.call1((workers,))?.extract()
        });
        let (mut arguments, mut environment) = asked.map_err(|error| error.to_string())?;
        environment.push(added.clone());
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

/// Bytes of a function of tasklets that are kept from the beginning of a run; there may be thousands.
pub(super) const SMALL: usize = 16 << 10;

/// A function as it travels.
#[derive(Debug)]
pub(crate) struct Travelling {
    /// By which worker processes know it.
    pub(super) number: u64,
    pub(super) by_value: bool,
    function: Arc<Py<PyAny>>,
    /// What is sent: there from the beginning if it is small, else from when it is first wanted.
    payload: Mutex<Option<Arc<Vec<u8>>>>,
    /// Those that may call it still.
    users: AtomicUsize,
    /// How it travels, in words.
    pub(crate) words: String,
}

/// How, what is sent and in words how, or why not.
fn travel(
    function: &Py<PyAny>,
    most: Option<usize>,
) -> PyResult<(String, Option<Vec<u8>>, String)> {
    crate::interpreter::attach(|py| {
        let travel = py.import("isochrony.transport")?.getattr("travel")?;
        travel.call1((function, most))?.extract()
    })
}

impl Travelling {
    /// A function as it is now; or why it cannot travel. What is sent is kept if it is of so many bytes at `most`.
    pub(crate) fn of(function: &Arc<Py<PyAny>>, most: Option<usize>) -> Result<Self, String> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        match travel(function, most) {
            Ok((how, payload, words)) if !how.is_empty() => Ok(Self {
                number: NUMBER.fetch_add(1, Ordering::Relaxed),
                by_value: how == "value",
                function: Arc::clone(function),
                payload: Mutex::new(payload.map(Arc::new)),
                users: AtomicUsize::new(0),
                words,
            }),
            Ok((.., why)) => Err(why),
            Err(error) => Err(format!("cannot travel to a worker process ({error})")),
        }
    }

    /// What is sent; the same each time, until nobody may call it any more.
    pub(super) fn payload(&self) -> Result<Arc<Vec<u8>>, String> {
        // Who waits here does not hold the interpreter; who is inside may wait for it.
        let mut payload = self.payload.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(payload) = &*payload {
            return Ok(Arc::clone(payload));
        }
        let (_, made, why) = travel(&self.function, None).map_err(|error| error.to_string())?;
        let made = made.filter(|made| !made.is_empty()).ok_or(why)?;
        Ok(Arc::clone(payload.insert(Arc::new(made))))
    }

    /// One more may call it.
    pub(super) fn share(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// One of those that might call it does not any more. After the last nothing is kept of it.
    pub(crate) fn leave(&self) {
        if self.users.fetch_sub(1, Ordering::Relaxed) == 1 {
            let mut payload = self.payload.lock().unwrap_or_else(PoisonError::into_inner);
            *payload = None;
        }
    }

    /// Nobody may call it any more.
    pub(super) fn is_over(&self) -> bool {
        self.users.load(Ordering::Relaxed) == 0
    }
}
