//! Feeds driven by Python code: `isochrony.listen` of a sound card or a SeedLink server.
//!
//! The Python half has `begin(pusher)` and `stop()`; its threads pass arrays to the pusher.

use std::fmt;

use isochrony_flow::{Cause, PlanError};
use isochrony_live::{Driver, ListenOptions, Listener, PushPosition, Pusher};
use isochrony_segment::DType;
use pyo3::prelude::*;
use serde_json::{Map, Value};

use super::listen::{NativeListener, optional_seconds, seconds};
use super::owner::{Callable, ObjectKeeper};
use crate::errors::{Error, PackageError, Result};
use crate::integer::IntegerArg;
use crate::interpreter::{attach, detach};
use crate::memory;
use crate::time::RateArg;

struct PyDriver {
    object: Callable,
    saved: Option<Map<String, Value>>,
}

impl fmt::Debug for PyDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PyDriver").finish_non_exhaustive()
    }
}

impl Driver for PyDriver {
    fn begin(&self, to: Pusher) -> std::result::Result<(), Cause> {
        let object = self.object.get()?;
        attach(|py| {
            let pusher = Bound::new(py, NativePusher { to })?;
            object.call_method1(py, "begin", (pusher,)).map(drop)
        })
        .map_err(|error| super::operator_error::cause(Error::Python(error)))
    }

    fn stop(&self) {
        let Ok(object) = self.object.get() else {
            return;
        };
        attach(|py| {
            if let Err(error) = object.call_method0(py, "stop") {
                error.write_unraisable(py, None);
            }
        });
    }

    fn saved(&self) -> Option<Map<String, Value>> {
        self.saved.clone()
    }
}

/// Passes arrays to the run of a feed.
#[pyclass(frozen, module = "isochrony._native")]
pub(crate) struct NativePusher {
    to: Pusher,
}

#[pymethods]
impl NativePusher {
    /// Pushes a 1-D array of the feed's dtype; `first` is the driver's index of its first sample. `time`: trusted civil
    /// time of the first sample; `taken`: arrival by this machine's clock. With `wait` it waits for room, else an array
    /// without room is dropped and counted. Returns whether it was accepted.
    #[pyo3(signature = (samples, first, *, time=None, taken=None, session=0, wait=true))]
    #[allow(clippy::too_many_arguments)] // By name, from Python.
    fn push(
        &self,
        py: Python<'_>,
        samples: &Bound<'_, PyAny>,
        first: u64,
        time: Option<i64>,
        taken: Option<i64>,
        session: u32,
        wait: bool,
    ) -> Result<bool> {
        let (buffer, dtype) = memory::adopt(samples, false)?;
        if dtype != self.to.dtype() {
            let message = format!(
                "{dtype} was pushed where {} was expected; convert the samples",
                self.to.dtype()
            );
            return Err(PackageError::new("OptionError", "bad_option", message).into());
        }
        let position = PushPosition {
            first,
            time,
            taken,
            session,
        };
        if !wait {
            return Ok(self.to.try_push(buffer.bytes(), position));
        }
        // May wait for a run that needs the interpreter.
        Ok(detach(py, || self.to.push(buffer.bytes(), position)))
    }

    /// Counts malformed input.
    fn malformed(&self) {
        self.to.malformed();
    }

    /// Ends the feed.
    fn end(&self) {
        self.to.end();
    }

    /// Whether the run has ended.
    #[getter]
    fn stopped(&self) -> bool {
        self.to.is_stopped()
    }
}

#[pymethods]
impl NativeListener {
    /// A feed driven by an object; `saved` is its JSON object in a saved plan.
    #[staticmethod]
    #[allow(clippy::too_many_arguments)] // Called from one place.
    fn driven(
        py: Python<'_>,
        driver: Py<PyAny>,
        saved: &str,
        dtype: &str,
        rate: RateArg,
        name: String,
        unit: String,
        reorder: f64,
        buffer: IntegerArg<usize>,
        step: f64,
        silence: Option<f64>,
        lateness: Option<f64>,
        keep_late: IntegerArg<usize>,
    ) -> Result<Self> {
        let mut options = ListenOptions::new(DType::parse(dtype)?.0, rate.0);
        options.name = name;
        options.unit = unit;
        options.reorder = seconds("reorder", reorder)?;
        options.buffer = buffer.0;
        options.step = seconds("step", step)?;
        options.silence = optional_seconds("silence", silence)?;
        options.lateness = optional_seconds("lateness", lateness)?;
        options.keep_late = keep_late.0;
        let kept = ObjectKeeper::default();
        let driver = PyDriver {
            object: kept.keep(driver),
            saved: Some(super::parameters("listen", saved)?),
        };
        let listener = Listener::driven(driver, &options)?;
        let owner = kept.owner(py, [])?;
        Ok(Self::new_owned(listener, owner))
    }
}

pub(super) fn is_driven(saved: &Map<String, Value>) -> bool {
    saved.contains_key("driven")
}

pub(super) fn from_saved(
    saved: &Map<String, Value>,
    kept: &ObjectKeeper,
) -> std::result::Result<Listener, PlanError> {
    let text = serde_json::to_string(saved).unwrap_or_default();
    attach(|py| -> PyResult<Listener> {
        let from_saved = py
            .import("isochrony.live.listening")?
            .getattr("_from_saved")?;
        let native = from_saved.call1((text,))?;
        let native = native.cast::<NativeListener>().map_err(PyErr::from)?;
        let native = native.get();
        if let Some(owner) = &native.owner {
            kept.keep_all_of(owner.clone_ref(py));
        }
        Ok(native.listener.clone())
    })
    .map_err(|error| PlanError::Unreadable {
        why: error.to_string(),
    })
}
