//! Values of timebases: exact numbers, in and out.

use std::fmt::Display;

use isochrony_time::{Exact, Fixed};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};

use crate::errors::{Error, Raised, Result};
use crate::time::fixed;

/// A whole number among a call's arguments. One that does not fit is an error of ours that says what does, where PyO3
/// alone raises a bare `OverflowError`: every integer that users give comes in by this type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whole<T>(pub(crate) T);

/// The least and the greatest value of an integer type.
pub(crate) trait Limits: Display {
    const LEAST: Self;
    const GREATEST: Self;
}

macro_rules! limits {
    ($($int:ty),*) => {$(
        impl Limits for $int {
            const LEAST: Self = <$int>::MIN;
            const GREATEST: Self = <$int>::MAX;
        }
    )*};
}

limits!(u32, u64, usize, i64, i128);

impl<'a, 'py, T: Limits + FromPyObject<'a, 'py>> FromPyObject<'a, 'py> for Whole<T> {
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
                T::LEAST,
                T::GREATEST
            );
            Error::from(Raised::new("OptionError", "bad_option", message)).into()
        })
    }
}

/// A value of a timebase: a number, of which whole ones are the commonest.
pub(crate) fn number_arg(object: &Bound<'_, PyAny>) -> Result<Fixed> {
    if object.is_instance_of::<PyInt>()
        && !object.is_instance_of::<PyBool>()
        && let Ok(whole) = object.extract::<i64>()
    {
        return Ok(Fixed::from_int(whole));
    }
    let times = object.py().import("isochrony.times")?;
    let (whole, frac) = times.call_method1("number", (object,))?.extract()?;
    fixed(whole, frac)
}

/// The ratio of two timebases, its sign in the numerator.
pub(crate) fn ratio_arg(object: &Bound<'_, PyAny>) -> Result<(i64, u64)> {
    let times = object.py().import("isochrony.times")?;
    Ok(times.call_method1("ratio", (object,))?.extract()?)
}

/// A value of a timebase, exactly.
pub(crate) fn exact_arg(object: &Bound<'_, PyAny>) -> Result<Exact> {
    if object.is_instance_of::<PyInt>()
        && !object.is_instance_of::<PyBool>()
        && let Ok(whole) = object.extract::<i64>()
    {
        return Ok(whole.into());
    }
    let times = object.py().import("isochrony.times")?;
    let parts = times.call_method1("exact_number", (object,))?;
    let (num, den): (String, String) = parts.extract()?;
    Ok(Exact::from_ratio(&num, &den)?)
}

/// An exact value as a Python `Fraction`.
pub(crate) fn exact_fraction<'py>(py: Python<'py>, value: &Exact) -> PyResult<Bound<'py, PyAny>> {
    let (num, den) = value.parts();
    let fraction = py.import("fractions")?.getattr("Fraction")?;
    fraction.call1((format!("{num}/{den}"),))
}
