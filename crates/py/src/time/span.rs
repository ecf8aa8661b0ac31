//! `isochrony.span`: a range of civil time.

use pyo3::prelude::*;

use crate::errors::{PackageError, Result};
use crate::time::{Time, TimeArg, duration_arg};

/// A half-open range `[start, end)` of civil time; an end that is None is open.
///
/// Made by `isochrony.span`.
///
/// >>> import isochrony as iso
/// >>> hour = iso.span("2010-03-01T00:30", seconds=3600)
/// >>> hour.start, hour.end
/// (Time('2010-03-01T00:30:00Z'), Time('2010-03-01T01:30:00Z'))
#[pyclass(frozen, module = "isochrony")]
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) start: Option<Time>,
    pub(crate) end: Option<Time>,
}

/// The range of civil time from `start` up to `end`.
///
/// Parameters:
///     start: a time (ISO 8601 text, datetime, datetime64, pandas or ObsPy time, `Time`); None: open.
///     end: a time; None: open, or `seconds` after the start.
///     seconds: length instead of an end: seconds as a number, `timedelta` or `timedelta64`.
///
/// Returns:
///     A `Span`, to index a signal with.
///
/// Raises:
///     isochrony.TimeError: an invalid time, an end before the start, or both `end` and `seconds`.
///
/// >>> import isochrony as iso
/// >>> iso.span("2010-03-01T00:30", seconds=60)
/// span('2010-03-01T00:30:00Z', '2010-03-01T00:31:00Z')
#[pyfunction]
#[pyo3(signature = (start=None, end=None, *, seconds=None))]
pub(crate) fn span(
    start: Option<TimeArg>,
    end: Option<TimeArg>,
    seconds: Option<&Bound<'_, PyAny>>,
) -> Result<Span> {
    let start = start.map(|time| time.0);
    let mut end = end.map(|time| time.0);
    if let Some(seconds) = seconds {
        let (Some(start), None) = (start, end) else {
            let message = "span got seconds= with an end or without a start; give start and end, or start and seconds";
            return Err(PackageError::new("OptionError", "bad_option", message.into()).into());
        };
        let length = duration_arg(seconds)?;
        let value = start.value.checked_add(length);
        let overflow = isochrony_time::TimeError::Overflow { what: "span" };
        end = Some(Time::civil(value.ok_or(overflow)?));
    }
    if let (Some(start), Some(end)) = (start, end)
        && end.value < start.value
    {
        let [start, end] = [start, end].map(|time| isochrony_time::civil::format(time.value));
        let message = format!("the span ends at {end} before it starts at {start}; swap its ends");
        return Err(PackageError::new("TimeError", "reversed_range", message).into());
    }
    Ok(Span { start, end })
}

type SpanEnds = (Option<Time>, Option<Time>);

#[pymethods]
impl Span {
    /// First time inside; None: open.
    ///
    /// >>> hour.start
    /// Time('2010-03-01T00:30:00Z')
    #[getter]
    fn start(&self) -> Option<Time> {
        self.start
    }

    /// First time after; None: open.
    ///
    /// >>> hour.end
    /// Time('2010-03-01T01:30:00Z')
    #[getter]
    fn end(&self) -> Option<Time> {
        self.end
    }

    fn __contains__(&self, time: TimeArg) -> bool {
        let value = time.0.value;
        self.start.is_none_or(|start| start.value <= value)
            && self.end.is_none_or(|end| value < end.value)
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.start.map(|t| t.value) == other.start.map(|t| t.value)
            && self.end.map(|t| t.value) == other.end.map(|t| t.value)
    }

    fn __hash__(&self) -> u64 {
        let bits = |time: Option<Time>| time.map_or(0, |time| time.value.to_bits() as u64);
        bits(self.start).rotate_left(1) ^ bits(self.end)
    }

    fn __repr__(&self) -> String {
        let text = |time: Option<Time>| {
            time.map_or_else(
                || "None".to_owned(),
                |time| format!("'{}'", isochrony_time::civil::format(time.value)),
            )
        };
        format!("span({}, {})", text(self.start), text(self.end))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, SpanEnds)> {
        let span = slf.get();
        let function = slf.py().import("isochrony")?.getattr("span")?;
        Ok((function, (span.start, span.end)))
    }
}
