//! Values of timebases: exact numbers, in and out.

use isochrony_time::Fixed;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};

use crate::errors::Result;
use crate::time::{ONE, fixed};

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

/// A value of a timebase as a Python `Fraction`, from counts of 2^-32.
pub(crate) fn fraction(py: Python<'_>, bits: i128) -> PyResult<Bound<'_, PyAny>> {
    let fraction = py.import("fractions")?.getattr("Fraction")?;
    fraction.call1((bits, ONE))
}
