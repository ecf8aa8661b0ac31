//! Slices of Python sequences.

use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PySlice;

/// PyO3 0.30's `PySlice::new` leaks its three integers, 62 bytes per call.
pub(crate) fn slice(py: Python<'_>, start: usize, stop: usize) -> PyResult<Bound<'_, PySlice>> {
    let (start, stop) = (start.into_pyobject(py)?, stop.into_pyobject(py)?);
    // SAFETY: the interpreter is attached and both integers live; null stands for None. The result is a new slice, or
    // null with an exception set.
    unsafe {
        let slice = ffi::PySlice_New(start.as_ptr(), stop.as_ptr(), ptr::null_mut());
        Ok(Bound::from_owned_ptr_or_err(py, slice)?.cast_into_unchecked())
    }
}
