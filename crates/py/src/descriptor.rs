//! Descriptors of the system that Python code hands over.
#![allow(unsafe_code)] // A number becomes the owner of a descriptor.

use std::os::fd::{FromRawFd, OwnedFd};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Takes over a descriptor that Python code has opened or duplicated for this call, and closes nowhere.
pub(crate) fn adopt(number: i32) -> PyResult<OwnedFd> {
    if number < 0 {
        return Err(PyValueError::new_err(format!(
            "{number} is no descriptor; give one that is open"
        )));
    }
    // SAFETY: it is open and owned by nobody: `isochrony.streams`, the only caller's source of numbers, got it from
    // `os.open` or `os.dup` for this call and does not keep it. -1, which no owner may have, is refused above.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
