//! `isochrony.Time`, and what may be given where a time is expected.

use isochrony_time::{Fixed, Prefer, Rate, Round, RunId, TimebaseId, civil};
use pyo3::basic::CompareOp;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyString, PyType};

use crate::errors::{Error, Raised, Result};

/// A civil time: UTC nanoseconds since 1970 (POSIX: every day has 86,400 s), exact to 2^-32 ns.
///
/// Made from anything that names a time: an ISO 8601 string, `datetime` (without a zone it is UTC),
/// `numpy.datetime64`, a pandas `Timestamp`, an ObsPy `UTCDateTime` or another `Time`. Plain numbers are
/// refused, since they could be seconds, nanoseconds or an index: say `Time.from_ns(...)`.
///
/// Times compare by instant alone. `t - u` is a `fractions.Fraction` of seconds, exact; `t + d` takes seconds
/// (int, float, Fraction, Decimal), `timedelta` or `timedelta64`.
///
/// A time that a signal gives remembers its run, so that the way back to an index is unambiguous; it also says
/// whether it lies in a gap, and how far off it may be.
///
/// Raises:
///     isochrony.TimeError: text that is no time; a number (also a TypeError).
///
/// >>> import isochrony as iso
/// >>> t = iso.Time("2010-03-01T00:00:07.000128")
/// >>> t
/// Time('2010-03-01T00:00:07.000128Z')
/// >>> t.ns, t.frac
/// (1267401607000128000, 0)
/// >>> (t + 3) - t
/// Fraction(3, 1)
#[pyclass(frozen, module = "isochrony")]
#[derive(Clone, Copy)]
pub(crate) struct Time {
    pub(crate) value: Fixed,
    pub(crate) run: Option<RunId>,
    /// The axis that the run belongs to, which no other signal has.
    pub(crate) origin: Option<TimebaseId>,
    pub(crate) gap: bool,
    pub(crate) uncertainty: Option<f64>,
}

impl Time {
    pub(crate) fn civil(value: Fixed) -> Self {
        Self {
            value,
            run: None,
            origin: None,
            gap: false,
            uncertainty: None,
        }
    }

    /// As the time crate has it, with the run where one is known.
    pub(crate) fn native(&self) -> isochrony_time::Time {
        let mut time = isochrony_time::Time::civil(self.value);
        (time.run, time.origin) = (self.run, self.origin);
        time.in_gap = self.gap;
        time
    }
}

impl From<isochrony_time::Time> for Time {
    fn from(time: isochrony_time::Time) -> Self {
        Self {
            value: time.value,
            run: time.run,
            origin: time.origin,
            gap: time.in_gap,
            uncertainty: None,
        }
    }
}

/// `2^-32` as a Python `Fraction` would have it.
pub(crate) const ONE: i128 = 1 << 32;

#[pymethods]
impl Time {
    #[new]
    #[pyo3(signature = (time, /))]
    fn new(time: TimeArg) -> Self {
        time.0
    }

    /// The time that lies `ns + frac * 2**-32` nanoseconds after 1970-01-01T00:00:00Z.
    ///
    /// Parameters:
    ///     ns: whole nanoseconds, any sign.
    ///     frac: counts of 2**-32 ns, 0 to 2**32 - 1; always counts upwards.
    ///
    /// >>> import isochrony as iso
    /// >>> iso.Time.from_ns(1_500_000_000)
    /// Time('1970-01-01T00:00:01.500Z')
    #[classmethod]
    #[pyo3(signature = (ns, frac=0))]
    fn from_ns(_cls: &Bound<'_, PyType>, ns: i128, frac: u32) -> Result<Self> {
        Ok(Self::civil(fixed(ns, frac)?))
    }

    /// Whole UTC nanoseconds since 1970, rounded down.
    #[getter]
    fn ns(&self) -> i128 {
        self.value.floor()
    }

    /// What lies above `ns`, in 2**-32 ns.
    #[getter]
    fn frac(&self) -> u32 {
        self.value.frac()
    }

    /// Id of the run that the time belongs to; None if it came from no signal.
    #[getter]
    fn run(&self) -> Option<u32> {
        self.run.map(|run| run.0)
    }

    /// Whether it lies in a gap of its signal, so that it was interpolated between the gap's ends.
    #[getter]
    fn in_gap(&self) -> bool {
        self.gap
    }

    /// Half-width in nanoseconds of the interval that holds the true time; None if unknown.
    #[getter]
    fn uncertainty_ns(&self) -> Option<f64> {
        self.uncertainty
    }

    /// ISO 8601 text with `Z`, exact: as many digits as the time has, none lost.
    fn isoformat(&self) -> String {
        civil::format(self.value)
    }

    /// Exact seconds since 1970 as a `fractions.Fraction`.
    fn seconds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        seconds(py, self.value.to_bits())
    }

    /// A `datetime` in UTC, rounded down to the microsecond.
    #[pyo3(name = "to_datetime")]
    fn as_datetime<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("isochrony.times")?
            .call_method1("to_datetime", (self.value.floor(),))
    }

    /// A `numpy.datetime64` in nanoseconds, rounded down; years 1678 to 2262.
    #[pyo3(name = "to_datetime64")]
    fn as_datetime64<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        let Some(ns) = self.value.floor_i64() else {
            let text = self.isoformat();
            return Err(Raised::new(
                "TimeError",
                "overflow",
                format!("{text} is outside the years 1678 to 2262 of datetime64[ns]; use to_datetime() or .ns"),
            )
            .into());
        };
        Ok(py.import("numpy")?.call_method1("datetime64", (ns, "ns"))?)
    }

    fn __add__(&self, duration: &Bound<'_, PyAny>) -> Result<Self> {
        self.shifted(duration_arg(duration)?)
    }

    fn __radd__(&self, duration: &Bound<'_, PyAny>) -> Result<Self> {
        self.__add__(duration)
    }

    fn __sub__<'py>(&self, other: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        let py = other.py();
        if let Ok(other) = other.cast::<Self>() {
            let bits = self.value.to_bits() - other.get().value.to_bits();
            return Ok(seconds(py, bits)?);
        }
        let back = duration_arg(other)?.checked_neg().ok_or_else(overflow)?;
        Ok(Bound::new(py, self.shifted(back)?)?.into_any())
    }

    fn __richcmp__<'py>(&self, other: &Bound<'py, PyAny>, op: CompareOp) -> Bound<'py, PyAny> {
        let py = other.py();
        match other.cast::<Self>() {
            Ok(other) => PyBool::new(py, op.matches(self.value.cmp(&other.get().value)))
                .to_owned()
                .into_any(),
            Err(_) => py.NotImplemented().into_bound(py),
        }
    }

    fn __hash__(&self) -> u64 {
        let bits = self.value.to_bits();
        // Mixes the seconds in, whose low bits differ between neighbouring times.
        (bits as u64) ^ ((bits >> 64) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    fn __str__(&self) -> String {
        self.isoformat()
    }

    fn __repr__(&self) -> String {
        format!("Time('{}')", self.isoformat())
    }

    fn __format__(&self, spec: &str) -> PyResult<String> {
        if spec.is_empty() {
            return Ok(self.isoformat());
        }
        Err(PyValueError::new_err(format!(
            "format {spec:?} is refused for a Time; use .isoformat() or .to_datetime()"
        )))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, State)> {
        let time = slf.get();
        let rebuild = slf.get_type().getattr("_rebuild")?;
        let run = time
            .run
            .zip(time.origin)
            .map(|(run, origin)| (run.0, origin.0));
        let (gap, uncertainty) = (time.gap, time.uncertainty);
        Ok((rebuild, (time.ns(), time.frac(), run, gap, uncertainty)))
    }

    #[classmethod]
    fn _rebuild(
        _cls: &Bound<'_, PyType>,
        ns: i128,
        frac: u32,
        run: Option<(u32, u32)>,
        in_gap: bool,
        uncertainty_ns: Option<f64>,
    ) -> Result<Self> {
        Ok(Self {
            value: fixed(ns, frac)?,
            run: run.map(|(run, _)| RunId(run)),
            origin: run.map(|(_, origin)| TimebaseId(origin)),
            gap: in_gap,
            uncertainty: uncertainty_ns,
        })
    }
}

type State = (i128, u32, Option<(u32, u32)>, bool, Option<f64>);

impl Time {
    /// What `_rebuild` makes it of; the nanoseconds are text, since they need not fit into a number of JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        let run = self.run.zip(self.origin);
        let run = run.map(|(run, origin)| (run.0, origin.0));
        serde_json::json!([
            self.ns().to_string(),
            self.frac(),
            run,
            self.gap,
            self.uncertainty
        ])
    }

    fn shifted(&self, by: Fixed) -> Result<Self> {
        let value = self.value.checked_add(by).ok_or_else(overflow)?;
        Ok(Self::civil(value))
    }
}

fn overflow() -> Error {
    isochrony_time::TimeError::Overflow { what: "time" }.into()
}

/// Whole nanoseconds and a fraction in 2^-32 as one number.
pub(crate) fn fixed(ns: i128, frac: u32) -> Result<Fixed> {
    let whole = Fixed::from_i128(ns).ok_or_else(overflow)?;
    whole
        .checked_add(Fixed::from_parts(0, frac))
        .ok_or_else(overflow)
}

/// Seconds as a Python `Fraction`, from counts of 2^-32 ns.
pub(crate) fn seconds(py: Python<'_>, bits: i128) -> PyResult<Bound<'_, PyAny>> {
    py.import("fractions")?
        .getattr("Fraction")?
        .call1((bits, ONE * 1_000_000_000))
}

/// An argument that names a civil time.
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

/// A duration in nanoseconds, from seconds as a number, `timedelta` or `timedelta64`.
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

/// A rate argument: Hz as int, float, Fraction, Decimal, text such as `"44100000/1001"`, or `(num, den)`.
pub(crate) struct RateArg(pub(crate) Rate);

impl<'a, 'py> FromPyObject<'a, 'py> for RateArg {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = object.cast::<PyString>() {
            let rate = text.to_cow()?.parse::<Rate>().map_err(Error::from)?;
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

/// A rate as `isochrony.times.Rate`: a float that knows its exact ratio.
pub(crate) fn rate_object(py: Python<'_>, rate: Rate) -> PyResult<Bound<'_, PyAny>> {
    py.import("isochrony.times")?
        .getattr("Rate")?
        .call1((rate.num(), rate.den()))
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

/// `prefer=` of `index_of`: which run to take where two cover one civil time.
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

/// The error for an option that has none of its legal values.
pub(crate) fn option(name: &str, got: &str, legal: &str) -> PyErr {
    let message = format!("{name}={got:?} is refused; give {legal}");
    Error::from(Raised::new("OptionError", "bad_option", message)).into()
}
