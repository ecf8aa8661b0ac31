//! `signal.counts`: raw samples.

use pyo3::prelude::*;

use crate::errors::Result;
use crate::interrupt::segment_of;
use crate::signal::index::is_index;
use crate::signal::{Signal, one};

/// Raw samples of a signal by index or time; see `Signal.counts`.
#[pyclass(frozen, module = "isochrony")]
pub(crate) struct Counts {
    pub(crate) signal: Py<Signal>,
}

#[pymethods]
impl Counts {
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyAny>> {
        let this = self.signal.get();
        if is_index(key) {
            let array = crate::signal::segment::counts(py, &one(&this.get(py)?, key)?)?;
            return Ok(array.get_item(0)?);
        }
        let selection = this.pick(py, Some(key), Default::default())?;
        crate::signal::segment::counts(py, &segment_of(py, &selection.selection)?)
    }

    fn __len__(&self, py: Python<'_>) -> Result<usize> {
        let end = self.signal.get().get(py)?.end_index();
        Ok(usize::try_from(end).unwrap_or(usize::MAX))
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> Result<Bound<'py, PyAny>> {
        let all = self.signal.get().pick(py, None, Default::default())?;
        let seg = segment_of(py, &all.selection)?;
        let shared = seg.is_contiguous();
        crate::signal::segment::array_as_requested(
            crate::signal::segment::counts(py, &seg)?,
            shared,
            dtype,
            copy,
        )
    }

    fn __repr__(&self, py: Python<'_>) -> Result<String> {
        Ok(format!("<Counts of {}>", self.signal.get().get(py)?.name()))
    }
}

#[pymethods]
impl Signal {
    /// The samples as stored: `signal.counts[a:b]` is an array of `dtype` without a copy.
    ///
    /// Raises:
    ///     isochrony.GapError: a slice across a gap or a clock step.
    ///
    /// >>> signal.counts[2:5]
    /// array([2, 3, 4], dtype=int16)
    #[getter]
    fn counts(slf: Py<Self>) -> Counts {
        Counts { signal: slf }
    }
}
