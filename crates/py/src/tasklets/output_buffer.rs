//! Output buffers of tasklets, from a pool.

use std::sync::{Arc, Mutex, PoisonError};

use isochrony_segment::Buffer;
use isochrony_segment::DType;
use isochrony_tasklets::{BlockPool, TaskletContext};
use pyo3::prelude::*;
use pyo3::types::PySlice;

use crate::errors::{Error, PackageError, Result};
use crate::memory::{FillableArray, take_memory};

/// Memory of one output, allocated on first use.
#[pyclass(frozen, module = "isochrony._native", name = "_OutputBuffer")]
pub(crate) struct OutputBuffer {
    pool: Arc<BlockPool>,
    samples: usize,
    dtype: DType,
    name: String,
    handed: Mutex<BufferState>,
}

enum BufferState {
    Unallocated,
    Allocated(FillableArray),
    Replaced(Py<PyAny>),
    Closed,
}

impl OutputBuffer {
    pub(super) fn new(output: usize, context: &TaskletContext<'_>) -> PyResult<Self> {
        let failed = |error: isochrony_tasklets::Cause| {
            pyo3::exceptions::PyRuntimeError::new_err(error.to_string())
        };
        let (samples, dtype) = context.output(output).map_err(failed)?;
        Ok(Self {
            pool: Arc::clone(context.pool()),
            samples: usize::try_from(samples).unwrap_or(0),
            dtype,
            name: context.name().to_owned(),
            handed: Mutex::new(BufferState::Unallocated),
        })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, BufferState> {
        self.handed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn pieces(
        &self,
        py: Python<'_>,
        output: usize,
        written: &[(usize, usize, usize)],
        pieces: &mut Vec<WrittenBlock>,
    ) -> PyResult<()> {
        let state = std::mem::replace(&mut *self.state(), BufferState::Closed);
        let block = match state {
            BufferState::Allocated(handed) => handed.fill(py, &self.pool)?,
            BufferState::Replaced(array) => take_memory(array.into_bound(py), &self.pool)?,
            BufferState::Unallocated | BufferState::Closed => return Ok(()),
        };
        let size = self.dtype.size();
        for (_, start, stop) in written.iter().filter(|(own, ..)| *own == output) {
            let bytes = start.saturating_mul(size)..stop.saturating_mul(size);
            let whole = bytes == (0..block.len());
            if let Some(part) = block.slice(bytes) {
                pieces.push(WrittenBlock {
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
impl OutputBuffer {
    /// The whole output as a writable 1-D array, always the same one. Initially it holds the given array, else zeros if
    /// `cleared`, else arbitrary values.
    fn array<'py>(&self, py: Python<'py>, cleared: bool) -> Result<Bound<'py, PyAny>> {
        let mut state = self.state();
        let bytes = self.samples.saturating_mul(self.dtype.size());
        let made = match &*state {
            BufferState::Unallocated if cleared => Some(FillableArray::new(
                py,
                self.pool.take_zeroed(bytes)?,
                self.dtype,
            )?),
            BufferState::Unallocated => {
                Some(FillableArray::new(py, self.pool.take(bytes)?, self.dtype)?)
            }
            BufferState::Replaced(given) => {
                // A copy: its owner may still use it.
                let own = FillableArray::new(py, self.pool.take(bytes)?, self.dtype)?;
                own.array(py).set_item(PySlice::full(py), given.bind(py))?;
                Some(own)
            }
            BufferState::Allocated(_) | BufferState::Closed => None,
        };
        if let Some(made) = made {
            *state = BufferState::Allocated(made);
        }
        match &*state {
            BufferState::Allocated(handed) => Ok(handed.array(py)),
            BufferState::Replaced(_) | BufferState::Unallocated | BufferState::Closed => {
                Err(self.over())
            }
        }
    }

    /// Uses an array as the whole output: its memory is taken over if nothing else refers to it when the function has
    /// returned.
    fn give(&self, array: Py<PyAny>) -> Result<()> {
        let mut state = self.state();
        if let BufferState::Closed = &*state {
            return Err(self.over());
        }
        if let BufferState::Allocated(handed) =
            std::mem::replace(&mut *state, BufferState::Replaced(array))
        {
            self.pool.give(handed.into_block());
        }
        Ok(())
    }
}

impl OutputBuffer {
    fn over(&self) -> Error {
        let message = format!(
            "an output of tasklet {:?} was written after its function had returned; write it before",
            self.name
        );
        PackageError::new("TaskletValueError", "output_over", message).into()
    }
}

pub(super) struct WrittenBlock {
    pub(super) output: usize,
    pub(super) offset: i64,
    pub(super) block: Buffer,
    /// A whole block of the pool, to be reused.
    pub(super) whole: bool,
}
