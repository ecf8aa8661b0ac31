//! Indices as arguments.

use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PySlice};

use crate::errors::{PackageError, Result};

/// An integer, but not a bool.
pub(crate) fn is_index(object: &Bound<'_, PyAny>) -> bool {
    // The most common other key; looking up a missing attribute is slow.
    if object.is_instance_of::<PySlice>() {
        return false;
    }
    object.is_instance_of::<PyInt>() && !object.is_instance_of::<PyBool>()
        || !object.is_instance_of::<PyBool>()
            && object.hasattr("__index__").unwrap_or(false)
            && !object.hasattr("__len__").unwrap_or(true)
}

/// NumPy integers count; floats and bools do not.
pub(crate) fn as_index(object: &Bound<'_, PyAny>) -> Result<i64> {
    if !is_index(object) {
        let got = object.get_type().name()?;
        let message = format!(
            "got {got} where an index is expected; give a whole number, or a time to index_of()"
        );
        return Err(PackageError::new("StoreTypeError", "bad_index", message).into());
    }
    object.extract().map_err(|_| {
        let message = format!("index {object} is beyond 64 bits; indices count samples from 0");
        PackageError::new("StoreIndexError", "out_of_bounds", message).into()
    })
}

/// Negative indices count from the end of the axis.
pub(crate) fn single(object: &Bound<'_, PyAny>, length: i64) -> Result<Range<i64>> {
    let index = as_index(object)?;
    let index = if index < 0 {
        index.saturating_add(length)
    } else {
        index
    };
    Ok(index..index.saturating_add(1))
}
