//! `Signal.time_of` and `Signal.index_of`: between indices and civil time, one at a time or whole arrays.
//!
//! Arrays go in blocks that stay in the cache. What an array may hold is told in `isochrony.times`.

use isochrony_segment::{BufferMut, DType};
use isochrony_store::Signal as StoreSignal;
use isochrony_time::{Fixed, Lookup, TimeError};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::{Error, Raised, Result};
use crate::key::{as_index, is_index};
use crate::memory;
use crate::selection::Selection;
use crate::signal::Signal;
use crate::time::{PreferArg, RoundArg, Time, TimeArg};

/// Conversions between two looks at what else there is to do.
const BLOCK: usize = 1 << 14;

/// The time of an index, with the uncertainty of the piece of the fit that it lies on.
pub(crate) fn time_of(signal: &StoreSignal, index: i64) -> Result<Time> {
    let mut time = Time::from(signal.time_of(index)?);
    if let Some(civil) = signal.empirical()? {
        let pieces = civil.pieces();
        let after = pieces.partition_point(|piece| piece.index <= index);
        time.uncertainty = pieces
            .get(after.saturating_sub(1))
            .map(|piece| piece.uncertainty_ns);
    }
    Ok(time)
}

/// Civil times of indices, an array of datetime64[ns] of the same shape.
pub(crate) fn times_of<'py>(
    py: Python<'py>,
    signal: &StoreSignal,
    indices: &Bound<'py, PyAny>,
) -> Result<Bound<'py, PyAny>> {
    let (indices, shape): (Bound<'_, PyAny>, Bound<'_, PyAny>) = py
        .import("isochrony.times")?
        .call_method1("indices", (indices,))?
        .extract()?;
    let (indices, _) = memory::adopt(&indices, false)?;
    let indices = indices.samples::<i64>().unwrap_or_default();
    let mut memory = BufferMut::zeroed_samples::<i64>(indices.len())?;
    py.detach(|| -> Result<()> {
        let mut times = vec![Fixed::ZERO; indices.len().min(BLOCK)];
        let out = memory.samples_mut::<i64>().chunks_mut(BLOCK);
        for (indices, out) in indices.chunks(BLOCK).zip(out) {
            signal.civil_many(indices, &mut times)?;
            for (out, time) in out.iter_mut().zip(&times) {
                *out = time.round_i64().ok_or(TimeError::Overflow {
                    what: "datetime64[ns]",
                })?;
            }
        }
        Ok(())
    })?;
    let array = memory::own(py, memory, DType::I64, None)?;
    let array = array.call_method1("view", ("datetime64[ns]",))?;
    Ok(array.call_method1("reshape", (shape,))?)
}

/// Indices of civil times, an array of int64 of the same shape.
fn indices_of<'py>(
    py: Python<'py>,
    signal: &StoreSignal,
    times: &Bound<'py, PyAny>,
    lookup: Lookup,
) -> Result<Bound<'py, PyAny>> {
    type Instants<'py> = (Bound<'py, PyAny>, Option<(i64, i64)>, Bound<'py, PyAny>);
    let (times, unit, shape): Instants<'_> = py
        .import("isochrony.times")?
        .call_method1("instants", (times,))?
        .extract()?;
    let mut memory;
    match unit {
        Some(unit) => {
            let (counts, _) = memory::adopt(&times, false)?;
            let counts = counts.samples::<i64>().unwrap_or_default();
            memory = BufferMut::zeroed_samples::<i64>(counts.len())?;
            py.detach(|| many(signal, counts, unit, lookup, memory.samples_mut()))?;
        }
        None => {
            let times = times
                .try_iter()?
                .map(|time| Ok(time?.extract::<TimeArg>()?.0.native()))
                .collect::<Result<Vec<_>>>()?;
            memory = BufferMut::zeroed_samples::<i64>(times.len())?;
            for (time, out) in times.iter().zip(memory.samples_mut::<i64>()) {
                *out = signal.index_of(time, lookup.round, lookup.prefer)?.index;
            }
        }
    }
    let array = memory::own(py, memory, DType::I64, None)?;
    Ok(array.call_method1("reshape", (shape,))?)
}

/// Counts of `unit.0 / unit.1` ns since 1970.
fn many(
    signal: &StoreSignal,
    counts: &[i64],
    unit: (i64, i64),
    lookup: Lookup,
    out: &mut [i64],
) -> Result<()> {
    let mut times = Vec::with_capacity(counts.len().min(BLOCK));
    let mut found = Vec::new();
    for (block, (counts, out)) in counts.chunks(BLOCK).zip(out.chunks_mut(BLOCK)).enumerate() {
        times.clear();
        for (position, count) in counts.iter().enumerate() {
            if *count == i64::MIN {
                let position = block * BLOCK + position;
                let message =
                    format!("NaT at position {position} is no time; drop missing times first");
                return Err(Raised::new("TimeError", "not_a_time", message).into());
            }
            times.push(instant(*count, unit)?);
        }
        signal.index_many(&times, lookup, &mut found)?;
        for (out, at) in out.iter_mut().zip(&found) {
            *out = at.index;
        }
    }
    Ok(())
}

/// `count * num / den` ns, to the nearest 2^-32 ns.
fn instant(count: i64, (num, den): (i64, i64)) -> Result<Fixed> {
    let overflow = TimeError::Overflow { what: "time" };
    let scaled = i128::from(count).checked_mul(i128::from(num));
    let time = if den == 1 {
        scaled.and_then(Fixed::from_i128)
    } else {
        let den = i128::from(den);
        let doubled = scaled
            .and_then(|scaled| scaled.checked_mul(1 << 33))
            .and_then(|bits| bits.checked_add(den));
        doubled.map(|doubled| Fixed::from_bits(doubled.div_euclid(2 * den)))
    };
    Ok(time.ok_or(overflow)?)
}

/// As [`times_of`]; None where the signal, or one of the runs concerned, knows no civil time.
fn times_if_known<'py>(
    py: Python<'py>,
    signal: &StoreSignal,
    indices: &Bound<'py, PyAny>,
) -> Result<Option<Bound<'py, PyAny>>> {
    if signal.empirical()?.is_none() {
        return Ok(None);
    }
    match times_of(py, signal, indices) {
        Err(Error::Ours(error)) if error.code() == "no_civil_time" => Ok(None),
        times => Ok(Some(times?)),
    }
}

/// Whether an argument names many times: a sequence or an array, but no text.
fn is_many(object: &Bound<'_, PyAny>) -> bool {
    !object.is_instance_of::<PyString>()
        && object.hasattr("__len__").unwrap_or(false)
        && object
            .getattr("ndim")
            .and_then(|ndim| ndim.extract::<usize>())
            .map_or(true, |ndim| ndim > 0)
}

#[pymethods]
impl Signal {
    /// Civil time of an index, or of many at once; extrapolated beyond the ends.
    ///
    /// Parameters:
    ///     index: any whole number, or an array of them of any shape.
    ///
    /// Returns:
    ///     A `Time`, exact to 2**-32 ns, which remembers its run, is flagged inside a gap and says how far off it may be.
    ///     For an array: the times as datetime64[ns] of the same shape, rounded to the nearest nanosecond.
    ///
    /// Raises:
    ///     isochrony.StoreError: the signal knows no civil time.
    ///     isochrony.TimeError: outside the years 1678 to 2262, for an array.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("x", dtype="i2", rate=2000, start="2010-03-01")
    /// >>> _ = signal.append(np.zeros(4000, "i2"))
    /// >>> signal.time_of(3)
    /// Time('2010-03-01T00:00:00.001500Z')
    /// >>> signal.time_of(np.array([0, 3])).astype("M8[us]")
    /// array(['2010-03-01T00:00:00.000000', '2010-03-01T00:00:00.001500'],
    ///       dtype='datetime64[us]')
    #[pyo3(name = "time_of")]
    fn time_of_index<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyAny>> {
        let signal = self.get(py)?;
        if is_index(index) || !is_many(index) {
            let time = time_of(&signal, as_index(index)?)?;
            return Ok(Bound::new(py, time)?.into_any());
        }
        times_of(py, &signal, index)
    }

    /// Index of a civil time, or of many at once; extrapolated beyond the ends. `index_of(time_of(i)) == i` for every
    /// index.
    ///
    /// Parameters:
    ///     time: a time; one that `time_of` gave remembers its run. Or an array of datetime64 of any unit and shape, or
    ///         a sequence of times. Whole numbers of nanoseconds are `array.view("datetime64[ns]")`.
    ///     round: "nearest", "floor", "ceil", or "exact" (an error unless a sample has that time). Times of an array are
    ///         rounded to nanoseconds already, which sample times need not be: "nearest" is the way back.
    ///     prefer: run to take where two cover the time: "first", "last" or the id of a run.
    ///
    /// Returns:
    ///     An int; for many times an int64 array of their shape.
    ///
    /// Raises:
    ///     isochrony.TimeError: ambiguous after a backward clock step and no `prefer`; not on a sample with "exact"; NaT.
    ///     isochrony.StoreError: the signal knows no civil time.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("x", dtype="i2", rate=2000, start="2010-03-01")
    /// >>> _ = signal.append(np.zeros(4000, "i2"))
    /// >>> signal.index_of("2010-03-01T00:00:01")
    /// 2000
    /// >>> signal.index_of(np.array(["2010-03-01T00:00:01", "2010-03-01T00:00:01.001"], "M8[ms]"))
    /// array([2000, 2002])
    #[pyo3(signature = (time, *, round=None, prefer=None))]
    fn index_of<'py>(
        &self,
        py: Python<'py>,
        time: &Bound<'py, PyAny>,
        round: Option<RoundArg>,
        prefer: Option<PreferArg>,
    ) -> Result<Bound<'py, PyAny>> {
        let signal = self.get(py)?;
        let lookup = Lookup {
            round: round.map(|round| round.0).unwrap_or_default(),
            prefer: prefer.map(|prefer| prefer.0),
        };
        if is_many(time) {
            return indices_of(py, &signal, time, lookup);
        }
        let time = time.extract::<TimeArg>()?.0.native();
        let found = signal.index_of(&time, lookup.round, lookup.prefer)?;
        Ok(found
            .index
            .into_pyobject(py)
            .map_err(PyErr::from)?
            .into_any())
    }

    fn _times_of<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
    ) -> Result<Option<Bound<'py, PyAny>>> {
        times_if_known(py, &self.get(py)?, indices)
    }
}

#[pymethods]
impl Selection {
    fn _times_of<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
    ) -> Result<Option<Bound<'py, PyAny>>> {
        times_if_known(py, self.signal(), indices)
    }
}
