//! `isochrony.Range`: a half-open range of any timebase.

use std::hash::{DefaultHasher, Hash, Hasher};

use isochrony_store::Signal as StoreSignal;
use isochrony_time::{Exact, TimebaseId};
use pyo3::prelude::*;
use pyo3::types::PySlice;

use crate::errors::{PackageError, Result};
use crate::signal::key_range::KeyRange;
use crate::time::Time;
use crate::time::numbers::exact_fraction;
use crate::time::span::Span;
use crate::time::timebase::Timebase;

/// A half-open range `[start, end)` of a timebase, to select from a signal; also made by `timebase[a:b]`.
///
/// A signal selects its samples whose times lie inside: by index if the timebase is derived from the signal's own
/// indices (also without civil time), else by civil time. The part outside the signal is ignored.
///
/// Parameters:
///     timebase: a `Timebase`, or a signal for its indices.
///     start: first value inside, a number (a time for "utc").
///     end: end value, not below `start`.
///
/// Raises:
///     isochrony.TimeError: an end before the start; a value that is no number.
///
/// >>> import isochrony as iso
/// >>> frames = iso.Timebase("frames", rate=25, start="2010-03-01")
/// >>> shot = iso.Range(frames, 100, 250)
/// >>> shot
/// frames[100:250]
/// >>> shot.length, 99 in shot, shot.overlaps(frames[249:300])
/// (Fraction(150, 1), False, True)
/// >>> shot.span()
/// span('2010-03-01T00:00:04Z', '2010-03-01T00:00:10Z')
#[pyclass(frozen, module = "isochrony")]
pub(crate) struct Range {
    timebase: Py<Timebase>,
    range: isochrony_time::Range<Exact>,
}

impl Range {
    pub(crate) fn between(
        timebase: &Bound<'_, Timebase>,
        start: &Bound<'_, PyAny>,
        end: &Bound<'_, PyAny>,
    ) -> Result<Self> {
        let this = timebase.get();
        let (start, end) = (this.value(start)?, this.value(end)?);
        Ok(Self {
            timebase: timebase.clone().unbind(),
            range: isochrony_time::Range::new(start, end)?,
        })
    }

    pub(crate) fn key_range(&self, py: Python<'_>, signal: &StoreSignal) -> Result<KeyRange> {
        let timebase = self.timebase.get();
        let graph = timebase.network.current(py)?;
        if let Some(own) = timebase.network.member(signal.timebase()) {
            let path = graph.path_names(timebase.id, own);
            // Civil time would need times of the ends, which may lie in a gap or clock step.
            if path.is_ok_and(|names| !names.contains(&"utc")) {
                let range = self.range.convert(&graph, own)?;
                let ends = (range.start.value.ceil_i64(), range.end.value.ceil_i64());
                let (Some(start), Some(end)) = ends else {
                    return Err(isochrony_time::TimeError::Overflow { what: "index" }.into());
                };
                return Ok(KeyRange::Index(start..end));
            }
        }
        let civil = self.range.convert(&graph, TimebaseId::CIVIL)?.rounded()?;
        Ok(KeyRange::Civil(civil.start.value..civil.end.value))
    }

    /// Within the graph, or by civil time to another.
    fn converted(&self, py: Python<'_>, to: &Timebase) -> Result<isochrony_time::Range<Exact>> {
        let own = self.timebase.get();
        let graph = own.network.current(py)?;
        if let Some(id) = own.counterpart(py, to)? {
            return Ok(self.range.convert(&graph, id)?);
        }
        let mut civil = self.range.convert(&graph, TimebaseId::CIVIL)?;
        // Run ids have no meaning in the other graph.
        for end in [&mut civil.start, &mut civil.end] {
            (end.run, end.origin) = (None, None);
        }
        Ok(civil.convert(&*to.network.current(py)?, to.id)?)
    }

    fn likewise(&self, py: Python<'_>, other: &Self) -> Result<isochrony_time::Range<Exact>> {
        let timebase = self.timebase.get();
        let mut range = other.converted(py, timebase)?;
        (range.start.timebase, range.end.timebase) = (timebase.id, timebase.id);
        Ok(range)
    }
}

#[pymethods]
impl Range {
    #[new]
    #[pyo3(signature = (timebase, start, end, /))]
    fn new(
        timebase: &Bound<'_, PyAny>,
        start: &Bound<'_, PyAny>,
        end: &Bound<'_, PyAny>,
    ) -> Result<Self> {
        Self::between(&Timebase::from_object(timebase)?, start, end)
    }

    /// The timebase of both ends.
    ///
    /// >>> shot.timebase.name
    /// 'frames'
    #[getter]
    fn timebase(&self, py: Python<'_>) -> Py<Timebase> {
        self.timebase.clone_ref(py)
    }

    /// First value inside: a `Fraction`; a `Time` in "utc".
    ///
    /// >>> shot.start
    /// Fraction(100, 1)
    #[getter]
    fn start<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        self.timebase.get().object(py, &self.range.start)
    }

    /// First value after the range: a `Fraction`; a `Time` in "utc".
    ///
    /// >>> shot.end
    /// Fraction(250, 1)
    #[getter]
    fn end<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        self.timebase.get().object(py, &self.range.end)
    }

    /// End minus start, a `Fraction` in the timebase's unit.
    ///
    /// >>> shot.length
    /// Fraction(150, 1)
    #[getter]
    fn length<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        let (start, end) = (&self.range.start.value, &self.range.end.value);
        Ok(exact_fraction(py, &end.minus(start))?)
    }

    /// Whether two ranges have any time in common.
    ///
    /// Parameters:
    ///     other: a range; one of another timebase is converted first.
    ///
    /// Returns:
    ///     A bool. Ranges that only touch, and empty ones, have no time in common.
    ///
    /// >>> import isochrony as iso
    /// >>> frames = iso.Timebase("frames", rate=25, start="2010-03-01")
    /// >>> frames[100:250].overlaps(frames[249:300]), frames[100:250].overlaps(frames[250:300])
    /// (True, False)
    fn overlaps(&self, py: Python<'_>, other: &Self) -> Result<bool> {
        Ok(self.range.overlaps(&self.likewise(py, other)?)?)
    }

    /// Whether a value, or all of another range, lies inside.
    ///
    /// Parameters:
    ///     what: a value of this timebase, or another range.
    ///
    /// Returns:
    ///     A bool: `value in range` gives the same.
    ///
    /// >>> import isochrony as iso
    /// >>> frames = iso.Timebase("frames", rate=25, start="2010-03-01")
    /// >>> frames[100:250].contains(249), frames[100:250].contains(frames[200:300])
    /// (True, False)
    fn contains(&self, what: &Bound<'_, PyAny>) -> Result<bool> {
        if let Ok(other) = what.cast::<Self>() {
            let other = self.likewise(what.py(), other.get())?;
            return Ok(self.range.contains_range(&other)?);
        }
        Ok(self.range.contains(&self.timebase.get().value(what)?)?)
    }

    /// The range in another timebase.
    ///
    /// Parameters:
    ///     timebase: a `Timebase`, or a signal for its indices.
    ///
    /// Returns:
    ///     A `Range` of that timebase; ends between two samples stay fractions.
    ///
    /// Raises:
    ///     isochrony.TimeError: no conversion relates the two timebases; the message names those that each reaches. Or
    ///         the time occurs twice, after a backward clock step.
    ///
    /// >>> import isochrony as iso
    /// >>> frames = iso.Timebase("frames", rate=25, start="2010-03-01")
    /// >>> pulses = frames.derive("pulses", ratio=4)
    /// >>> frames[100:250].to(pulses)
    /// pulses[400:1000]
    fn to(&self, timebase: &Bound<'_, PyAny>) -> Result<Self> {
        let timebase = Timebase::from_object(timebase)?;
        let (py, to) = (timebase.py(), timebase.get());
        let mut range = self.converted(py, to)?;
        (range.start.timebase, range.end.timebase) = (to.id, to.id);
        Ok(Self {
            range,
            timebase: timebase.unbind(),
        })
    }

    /// The range in civil time.
    ///
    /// Returns:
    ///     A `Span`. Edges: a range of a signal's indices ends where its last sample does, even before a gap or a clock
    ///     step.
    ///
    /// Raises:
    ///     isochrony.TimeError: the timebase is not joined to civil time.
    ///
    /// >>> import isochrony as iso
    /// >>> frames = iso.Timebase("frames", rate=25, start="2010-03-01")
    /// >>> frames[100:250].span()
    /// span('2010-03-01T00:00:04Z', '2010-03-01T00:00:10Z')
    fn span(&self, py: Python<'_>) -> Result<Span> {
        let graph = self.timebase.get().network.current(py)?;
        let civil = self.range.convert(&graph, TimebaseId::CIVIL)?.rounded()?;
        let [start, end] = [civil.start, civil.end].map(|time| Some(Time::civil(time.value)));
        Ok(Span { start, end })
    }

    fn __contains__(&self, what: &Bound<'_, PyAny>) -> Result<bool> {
        self.contains(what)
    }

    fn __eq__(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
        let same = self.timebase.bind(py).eq(other.timebase.bind(py))?;
        let (one, other) = (&self.range, &other.range);
        Ok(same && one.start.value == other.start.value && one.end.value == other.end.value)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.range.start.value, &self.range.end.value).hash(&mut hasher);
        hasher.finish()
    }

    fn __bool__(&self) -> bool {
        self.range.start.value < self.range.end.value
    }

    fn __repr__(&self) -> String {
        let timebase = self.timebase.get();
        let text = |time: &isochrony_time::Time<Exact>| match (time.timebase, time.value.to_fixed())
        {
            (TimebaseId::CIVIL, Ok(value)) => isochrony_time::civil::format(value),
            (_, Ok(value)) if Exact::from(value) == time.value => value.to_string(),
            _ => time.value.to_string(),
        };
        let (start, end) = (text(&self.range.start), text(&self.range.end));
        format!("{}[{start}:{end}]", timebase.name())
    }
}

#[pymethods]
impl Timebase {
    /// `timebase[a:b]`: the half-open `Range` from `a` up to `b`.
    fn __getitem__(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> Result<Range> {
        let (start, end) = match key.cast::<PySlice>() {
            Ok(slice) if slice.getattr("step")?.is_none() => {
                (slice.getattr("start")?, slice.getattr("stop")?)
            }
            _ => return Err(no_range(&slf.get().name())),
        };
        if start.is_none() || end.is_none() {
            return Err(no_range(&slf.get().name()));
        }
        Range::between(slf, &start, &end)
    }
}

fn no_range(name: &str) -> crate::errors::Error {
    let message = format!(
        "a range of timebase {name:?} has both ends and no step, as in timebase[100:200]; for one value use time_of()"
    );
    PackageError::new("TimeArgumentError", "not_a_range", message).into()
}
