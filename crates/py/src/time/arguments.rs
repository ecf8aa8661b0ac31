//! Arguments: times, durations, rates, and choices among times.

use isochrony_time::{Fixed, Prefer, Rate, Round, RunId, civil};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyString};

use super::{Time, fixed};
use crate::errors::{Error, PackageError, Result};

pub(crate) struct TimeArg(pub(crate) Time);

impl<'a, 'py> FromPyObject<'a, 'py> for TimeArg {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(time) = object.cast::<Time>() {
            return Ok(Self(*time.get()));
        }
        if let Ok(text) = object.cast::<PyString>() {
            let value = civil::parse(text.to_cow()?.as_ref()).map_err(Error::from)?;
            return Ok(Self(Time::civil(value)));
        }
        let (ns, frac) = object
            .py()
            .import("isochrony.times")?
            .call_method1("civil", (object,))?
            .extract()?;
        Ok(Self(Time::civil(fixed(ns, frac)?)))
    }
}

/// In nanoseconds, from seconds as a number, `timedelta` or `timedelta64`.
pub(crate) fn duration_arg(object: &Bound<'_, PyAny>) -> Result<Fixed> {
    if let Ok(seconds) = object.cast::<PyInt>()
        && !object.is_instance_of::<PyBool>()
        && let Ok(seconds) = seconds.extract::<i64>()
    {
        return fixed(i128::from(seconds) * 1_000_000_000, 0);
    }
    let (ns, frac) = object
        .py()
        .import("isochrony.times")?
        .call_method1("duration", (object,))?
        .extract()?;
    fixed(ns, frac)
}

/// Hz as int, float, Fraction, Decimal, text such as `"44100000/1001"`, or `(num, den)`.
pub(crate) struct RateArg(pub(crate) Rate);

impl<'a, 'py> FromPyObject<'a, 'py> for RateArg {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = object.cast::<PyString>() {
            let rate = text.to_cow()?.parse::<Rate>().map_err(Error::from)?;
            return Ok(Self(rate));
        }
        // Importers pass this form with every block.
        if let Ok((num, den)) = object.extract::<(Bound<'py, PyAny>, Bound<'py, PyAny>)>()
            && [&num, &den]
                .iter()
                .all(|part| part.is_exact_instance_of::<PyInt>())
            && let (Ok(num), Ok(den)) = (num.extract(), den.extract())
            && let Ok(rate) = Rate::new(num, den)
        {
            return Ok(Self(rate));
        }
        let (num, den) = object
            .py()
            .import("isochrony.times")?
            .call_method1("rate", (object,))?
            .extract()?;
        Ok(Self(Rate::new(num, den).map_err(Error::from)?))
    }
}

/// `round=` of `index_of`.
pub(crate) struct RoundArg(pub(crate) Round);

impl<'a, 'py> FromPyObject<'a, 'py> for RoundArg {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let text: String = object.extract()?;
        Ok(Self(match text.as_str() {
            "nearest" => Round::Nearest,
            "floor" => Round::Floor,
            "ceil" => Round::Ceil,
            "exact" => Round::Exact,
            _ => {
                let legal = "\"nearest\", \"floor\", \"ceil\" or \"exact\"";
                return Err(option("round", &text, legal));
            }
        }))
    }
}

/// `prefer=` of `index_of`: the run if two cover one civil time.
pub(crate) struct PreferArg(pub(crate) Prefer);

impl<'a, 'py> FromPyObject<'a, 'py> for PreferArg {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(run) = object.extract::<u32>() {
            return Ok(Self(Prefer::Run(RunId(run))));
        }
        let text = object.str()?.to_string();
        Ok(Self(match text.as_str() {
            "first" => Prefer::First,
            "last" => Prefer::Last,
            _ => {
                return Err(option(
                    "prefer",
                    &text,
                    "\"first\", \"last\" or the id of a run",
                ));
            }
        }))
    }
}

pub(crate) fn option(name: &str, got: &str, legal: &str) -> PyErr {
    let message = format!("{name}={got:?} is refused; give {legal}");
    Error::from(PackageError::new("OptionError", "bad_option", message)).into()
}
