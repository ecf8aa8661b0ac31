//! Where a tasklet's function puts an output: memory of the run, which is used again and again.

use std::sync::{Arc, Mutex, PoisonError};

use isochrony_segment::DType;
use isochrony_tasklets::{Context, Pool};
use pyo3::prelude::*;
use pyo3::types::PySlice;

use super::calls::Piece;
use crate::errors::{Error, Raised, Result};
use crate::memory::{Handed, let_go};

/// Memory for one output of one tasklet, taken when it is asked for.
#[pyclass(frozen, module = "isochrony._native", name = "_Room")]
pub(crate) struct Room {
    pool: Arc<Pool>,
    samples: usize,
    dtype: DType,
    name: String,
    handed: Mutex<State>,
}

enum State {
    Unasked,
    Handed(Handed),
    /// An array that the function lets go of.
    Given(Py<PyAny>),
    /// The function has returned.
    Over,
}

impl Room {
    pub(super) fn new(output: usize, context: &Context<'_>) -> PyResult<Self> {
        let failed = |error: isochrony_tasklets::Cause| {
            pyo3::exceptions::PyRuntimeError::new_err(error.to_string())
        };
        let (samples, dtype) = context.output(output).map_err(failed)?;
        Ok(Self {
            pool: Arc::clone(context.pool()),
            samples: usize::try_from(samples).unwrap_or(0),
            dtype,
            name: context.name().to_owned(),
            handed: Mutex::new(State::Unasked),
        })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.handed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The parts of it that were written.
    pub(super) fn pieces(
        &self,
        py: Python<'_>,
        output: usize,
        written: &[(usize, usize, usize)],
        pieces: &mut Vec<Piece>,
    ) -> PyResult<()> {
        let state = std::mem::replace(&mut *self.state(), State::Over);
        let block = match state {
            State::Handed(handed) => handed.fill(py, &self.pool)?,
            State::Given(array) => let_go(array.into_bound(py), &self.pool)?,
            State::Unasked | State::Over => return Ok(()),
        };
        let size = self.dtype.size();
        for (_, start, stop) in written.iter().filter(|(own, ..)| *own == output) {
            let bytes = start.saturating_mul(size)..stop.saturating_mul(size);
            let whole = bytes == (0..block.len());
            if let Some(part) = block.slice(bytes) {
                pieces.push(Piece {
                    output,
                    offset: *start as i64,
                    block: part,
                    whole,
                });
            }
        }
        Ok(())
    }
}

#[pymethods]
impl Room {
    /// All of it as a writable 1-D array, the same at each call. What it holds at first is what was given, else zeros if
    /// `cleared`, else what is left over from other tasklets.
    fn array<'py>(&self, py: Python<'py>, cleared: bool) -> Result<Bound<'py, PyAny>> {
        let mut state = self.state();
        let bytes = self.samples.saturating_mul(self.dtype.size());
        let made = match &*state {
            State::Unasked if cleared => {
                Some(Handed::new(py, self.pool.take_zeroed(bytes)?, self.dtype)?)
            }
            State::Unasked => Some(Handed::new(py, self.pool.take(bytes)?, self.dtype)?),
            State::Given(given) => {
                // Its owner may use it on: it is not to be changed.
                let own = Handed::new(py, self.pool.take(bytes)?, self.dtype)?;
                own.array(py).set_item(PySlice::full(py), given.bind(py))?;
                Some(own)
            }
            State::Handed(_) | State::Over => None,
        };
        if let Some(made) = made {
            *state = State::Handed(made);
        }
        match &*state {
            State::Handed(handed) => Ok(handed.array(py)),
            State::Given(_) | State::Unasked | State::Over => Err(self.over()),
        }
    }

    /// Takes an array of all samples, of the output's type: its memory, if nobody else holds it when the function has
    /// returned.
    fn give(&self, array: Py<PyAny>) -> Result<()> {
        let mut state = self.state();
        if let State::Over = &*state {
            return Err(self.over());
        }
        if let State::Handed(handed) = std::mem::replace(&mut *state, State::Given(array)) {
            self.pool.give(handed.into_block());
        }
        Ok(())
    }
}

impl Room {
    fn over(&self) -> Error {
        let message = format!(
            "an output of tasklet {:?} is written to after its function has returned; write it before",
            self.name
        );
        Raised::new("TaskletValueError", "output_over", message).into()
    }
}
