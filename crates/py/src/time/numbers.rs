//! Values of timebases as exact numbers, from and to Python.

use isochrony_time::{Exact, Fixed};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};

use crate::errors::Result;
use crate::time::fixed;

/// Integers are the common case.
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

/// The sign is in the numerator.
pub(crate) fn ratio_arg(object: &Bound<'_, PyAny>) -> Result<(i64, u64)> {
    let times = object.py().import("isochrony.times")?;
    Ok(times.call_method1("ratio", (object,))?.extract()?)
}

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

pub(crate) fn exact_fraction<'py>(py: Python<'py>, value: &Exact) -> PyResult<Bound<'py, PyAny>> {
    let (num, den) = value.parts();
    let fraction = py.import("fractions")?.getattr("Fraction")?;
    fraction.call1((format!("{num}/{den}"),))
}
