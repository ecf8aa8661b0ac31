//! File descriptors from Python.
#![allow(unsafe_code)] // A number becomes the owner of a descriptor.

use std::os::fd::{BorrowedFd, OwnedFd};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Duplicates a descriptor that Python keeps open during the call.
pub(crate) fn duplicate(number: i32) -> PyResult<OwnedFd> {
    if number < 0 {
        return Err(PyValueError::new_err(format!(
            "{number} is not a descriptor; give one that is open"
        )));
    }
    // SAFETY: the descriptor is open while borrowed: `isochrony.nbuffering.streams` got it from `os.open` or `os.dup`
    // and closes it after this call. -1, which must not be borrowed, is refused above.
    let given = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(given.try_clone_to_owned()?)
}
