//! `isochrony.Time`; [`arguments`] converts time arguments.

mod arguments;
pub(crate) mod fit;
pub(crate) mod graph;
pub(crate) mod network;
pub(crate) mod numbers;
pub(crate) mod range;
pub(crate) mod span;
pub(crate) mod timebase;

use isochrony_time::{Fixed, Rate, RunId, TimebaseId, civil};
use pyo3::basic::CompareOp;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyType};

use crate::errors::{Error, PackageError, Result};
use crate::integer::IntegerArg;

pub(crate) use arguments::{PreferArg, RateArg, RoundArg, TimeArg, duration_arg, option};

/// A civil time: UTC nanoseconds since 1970 (POSIX: every day has 86,400 s), exact to 2^-32 ns.
///
/// Made from an ISO 8601 string, `datetime` (naive ones are UTC), `numpy.datetime64`, a pandas `Timestamp`, an ObsPy
/// `UTCDateTime` or another `Time`. Omitted parts of a string have their least value: `"2024"`, `"2024-03"`,
/// `"2024-03-01"` and `"2024-03-01T12"` are the first instants of that year, month, day and hour. Plain numbers are
/// refused, since they could be seconds, nanoseconds or an index: use `Time.from_ns(...)`. `isochrony.now()` is the
/// system's time.
///
/// Times compare by instant alone. `t - u` is an exact `fractions.Fraction` of seconds; `t + d` takes seconds (int,
/// float, Fraction, Decimal), `timedelta` or `timedelta64`.
///
/// A time from a signal knows its run, so conversion back to an index is unambiguous, whether it lies in a gap, and its
/// uncertainty.
///
/// Raises:
///     isochrony.TimeError: invalid text; a number (also a TypeError).
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
    /// Axis of the run, unique to its signal.
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

pub(crate) const FRACTIONS_PER_NS: i128 = 1 << 32;

#[pymethods]
impl Time {
    #[new]
    #[pyo3(signature = (time, /))]
    fn new(time: TimeArg) -> Self {
        time.0
    }

    /// The time `ns + frac * 2**-32` nanoseconds after 1970-01-01T00:00:00Z.
    ///
    /// Parameters:
    ///     ns: whole nanoseconds, any sign.
    ///     frac: counts of 2**-32 ns, 0 to 2**32 - 1; always counts upwards.
    ///
    /// Returns:
    ///     A `Time`.
    ///
    /// >>> import isochrony as iso
    /// >>> iso.Time.from_ns(1_500_000_000)
    /// Time('1970-01-01T00:00:01.500Z')
    #[classmethod]
    #[pyo3(signature = (ns, frac=IntegerArg(0)), text_signature = "(ns, frac=0)")]
    fn from_ns(
        _cls: &Bound<'_, PyType>,
        ns: IntegerArg<i128>,
        frac: IntegerArg<u32>,
    ) -> Result<Self> {
        Ok(Self::civil(fixed(ns.0, frac.0)?))
    }

    /// Whole UTC nanoseconds since 1970, rounded down.
    ///
    /// >>> t.ns
    /// 1267401607000128000
    #[getter]
    fn ns(&self) -> i128 {
        self.value.floor()
    }

    /// The fraction above `ns`, in 2**-32 ns.
    ///
    /// >>> t.frac
    /// 0
    #[getter]
    fn frac(&self) -> u32 {
        self.value.frac()
    }

    /// Id of the time's run; None without a signal.
    ///
    /// >>> t.run is None
    /// True
    #[getter]
    fn run(&self) -> Option<u32> {
        self.run.map(|run| run.0)
    }

    /// Whether it lies in a gap of its signal, interpolated between the gap's ends.
    ///
    /// >>> t.in_gap
    /// False
    #[getter]
    fn in_gap(&self) -> bool {
        self.gap
    }

    /// Half-width in nanoseconds of the interval that holds the true time; None if unknown.
    ///
    /// >>> t.uncertainty_ns is None
    /// True
    #[getter]
    fn uncertainty_ns(&self) -> Option<f64> {
        self.uncertainty
    }

    /// ISO 8601 text of the exact time, in UTC (`Z`).
    ///
    /// Returns:
    ///     A str that `Time` reads back without loss.
    ///
    /// >>> import isochrony as iso
    /// >>> iso.Time("2010-03-01T00:00:07.000128").isoformat()
    /// '2010-03-01T00:00:07.000128Z'
    fn isoformat(&self) -> String {
        civil::format(self.value)
    }

    /// Seconds since 1970-01-01T00:00:00Z, without rounding.
    ///
    /// Returns:
    ///     A `fractions.Fraction`, negative before 1970.
    ///
    /// >>> import isochrony as iso
    /// >>> iso.Time("1970-01-01T00:00:01.5").seconds()
    /// Fraction(3, 2)
    fn seconds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        seconds(py, self.value.to_bits())
    }

    /// The time as a `datetime.datetime` in UTC.
    ///
    /// Returns:
    ///     A `datetime.datetime` with time zone UTC, rounded down to the microsecond.
    ///
    /// >>> import isochrony as iso
    /// >>> iso.Time("2010-03-01T00:00:07.000128").to_datetime()
    /// datetime.datetime(2010, 3, 1, 0, 0, 7, 128, tzinfo=datetime.timezone.utc)
    #[pyo3(name = "to_datetime")]
    fn as_datetime<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("isochrony.times")?
            .call_method1("to_datetime", (self.value.floor(),))
    }

    /// The time as a `numpy.datetime64`.
    ///
    /// Returns:
    ///     A `numpy.datetime64[ns]`, UTC, rounded down to the nanosecond.
    ///
    /// Raises:
    ///     isochrony.TimeError: outside the years 1678 to 2262.
    ///
    /// >>> import isochrony as iso
    /// >>> iso.Time("2010-03-01T00:00:07.000128").to_datetime64()
    /// np.datetime64('2010-03-01T00:00:07.000128000')
    #[pyo3(name = "to_datetime64")]
    fn as_datetime64<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        let Some(ns) = self.value.floor_i64() else {
            let text = self.isoformat();
            return Err(PackageError::new(
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
        // Low bits of seconds differ between neighbouring times.
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

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, PickledTime)> {
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

type PickledTime = (i128, u32, Option<(u32, u32)>, bool, Option<f64>);

impl Time {
    /// Arguments of `_rebuild`; nanoseconds may exceed JSON numbers, so are text.
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

pub(crate) fn overflow() -> Error {
    isochrony_time::TimeError::Overflow { what: "time" }.into()
}

pub(crate) fn fixed(ns: i128, frac: u32) -> Result<Fixed> {
    let whole = Fixed::from_i128(ns).ok_or_else(overflow)?;
    whole
        .checked_add(Fixed::from_parts(0, frac))
        .ok_or_else(overflow)
}

pub(crate) fn seconds(py: Python<'_>, bits: i128) -> PyResult<Bound<'_, PyAny>> {
    py.import("fractions")?
        .getattr("Fraction")?
        .call1((bits, FRACTIONS_PER_NS * 1_000_000_000))
}

/// An `isochrony.times.Rate`: a float with its exact ratio.
pub(crate) fn rate_object(py: Python<'_>, rate: Rate) -> PyResult<Bound<'_, PyAny>> {
    py.import("isochrony.times")?
        .getattr("Rate")?
        .call1((rate.num(), rate.den()))
}
