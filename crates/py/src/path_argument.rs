//! Paths and URLs of stores as arguments.

use std::path::PathBuf;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::errors::{Error, PackageError, Result};

/// The path argument of a call; an error that names the call if it is something else.
pub(crate) fn store_path(call: &str, path: &Bound<'_, PyAny>) -> Result<PathBuf> {
    path.extract().or_else(|error: PyErr| {
        if !error.is_instance_of::<PyTypeError>(path.py()) {
            return Err(error.into());
        }
        let kind = path.get_type().name()?;
        let message = format!("{call} got {kind}; give the path or URL of a store");
        Err(Error::from(PackageError::new(
            "StoreTypeError",
            "not_a_path",
            message,
        )))
    })
}
