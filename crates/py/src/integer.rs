//! Integer arguments.

use std::fmt::Display;

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;

use crate::errors::{Error, PackageError};

/// Gives an error with the range, unlike PyO3's `OverflowError`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IntegerArg<T>(pub(crate) T);

pub(crate) trait IntegerLimits: Display {
    const MIN: Self;
    const MAX: Self;
}

macro_rules! limits {
    ($($int:ty),*) => {$(
        impl IntegerLimits for $int {
            const MIN: Self = <$int>::MIN;
            const MAX: Self = <$int>::MAX;
        }
    )*};
}

limits!(u32, u64, usize, i64, i128);

impl<'a, 'py, T: IntegerLimits + FromPyObject<'a, 'py>> FromPyObject<'a, 'py> for IntegerArg<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        T::extract(object).map(Self).map_err(|error| {
            let error: PyErr = error.into();
            if !error.is_instance_of::<PyOverflowError>(object.py()) {
                return error;
            }
            let message = format!(
                "{} is beyond what can be counted here; give a whole number from {} to {}",
                &*object,
                T::MIN,
                T::MAX
            );
            Error::from(PackageError::new("OptionError", "bad_option", message)).into()
        })
    }
}
