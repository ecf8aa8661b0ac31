//! `Signal.time_of` and `Signal.index_of`: conversions between indices and civil time.
//!
//! Arrays are converted in blocks that fit the cache.

use std::ops::Range;

use isochrony_segment::{BufferMut, DType};
use isochrony_store::Signal as StoreSignal;
use isochrony_time::{Fixed, IndexAt, Lookup, TimeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString, PyTuple};

use crate::errors::{Error, PackageError, Result};
use crate::memory;
use crate::signal::Signal;
use crate::signal::index::{as_index, is_index};
use crate::time::{PreferArg, RoundArg, Time, TimeArg};

const BLOCK_LEN: usize = 1 << 14;

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

/// Of all indices of `parts`, as datetime64[ns]. `fill` converts from an index on.
pub(crate) fn civil_times<'a, 'py>(
    py: Python<'py>,
    parts: impl IntoIterator<Item = &'a Range<i64>> + Clone + Send,
    fill: impl Fn(i64, &mut [i64]) -> Result<()> + Sync,
) -> Result<Bound<'py, PyAny>> {
    let length = |part: &Range<i64>| usize::try_from(part.end - part.start).unwrap_or(0);
    let all = parts.clone().into_iter().map(length).sum();
    let mut memory = BufferMut::zeroed_samples::<i64>(all)?;
    crate::interpreter::detach(py, || -> Result<()> {
        let mut rest = memory.samples_mut::<i64>();
        for part in parts {
            let (head, tail) = rest.split_at_mut(length(part));
            fill(part.start, head)?;
            rest = tail;
        }
        Ok(())
    })?;
    datetimes(memory::own(py, memory, DType::I64, None)?)
}

fn datetimes(ns: Bound<'_, PyAny>) -> Result<Bound<'_, PyAny>> {
    Ok(ns.call_method1("view", ("datetime64[ns]",))?)
}

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
    crate::interpreter::detach(py, || -> Result<()> {
        let mut times = vec![Fixed::ZERO; indices.len().min(BLOCK_LEN)];
        let out = memory.samples_mut::<i64>().chunks_mut(BLOCK_LEN);
        for (indices, out) in indices.chunks(BLOCK_LEN).zip(out) {
            signal.civil_many(indices, &mut times)?;
            for (out, time) in out.iter_mut().zip(&times) {
                *out = time.round_i64().ok_or(TimeError::Overflow {
                    what: "datetime64[ns]",
                })?;
            }
        }
        Ok(())
    })?;
    let array = datetimes(memory::own(py, memory, DType::I64, None)?)?;
    Ok(array.call_method1("reshape", (shape,))?)
}

struct IndexArrays {
    indices: BufferMut,
    in_gap: Option<BufferMut>,
}

impl IndexArrays {
    fn new(length: usize, flagged: bool) -> Result<Self> {
        Ok(Self {
            indices: BufferMut::zeroed_samples::<i64>(length)?,
            in_gap: flagged.then(|| BufferMut::zeroed(length)).transpose()?,
        })
    }

    fn put(&mut self, signal: &StoreSignal, first: usize, found: &[IndexAt]) {
        let indices = &mut self.indices.samples_mut::<i64>()[first..];
        for (out, at) in indices.iter_mut().zip(found) {
            *out = at.index;
        }
        let Some(in_gap) = &mut self.in_gap else {
            return;
        };
        // The clock does not know samples marked as invalid.
        let marked = |at: &IndexAt| signal.gaps().at(at.index).is_some();
        for (out, at) in in_gap.bytes_mut()[first..].iter_mut().zip(found) {
            *out = (at.in_gap || marked(at)).into();
        }
    }
}

/// An int64 array of the same shape; if `flagged`, also a bool array: whether a time lies in a gap.
fn indices_of<'py>(
    py: Python<'py>,
    signal: &StoreSignal,
    times: &Bound<'py, PyAny>,
    lookup: Lookup,
    flagged: bool,
) -> Result<(Bound<'py, PyAny>, Option<Bound<'py, PyAny>>)> {
    type Instants<'py> = (Bound<'py, PyAny>, Option<(i64, i64)>, Bound<'py, PyAny>);
    let (times, unit, shape): Instants<'_> = py
        .import("isochrony.times")?
        .call_method1("instants", (times,))?
        .extract()?;
    let found = match unit {
        Some(unit) => {
            let (counts, _) = memory::adopt(&times, false)?;
            let counts = counts.samples::<i64>().unwrap_or_default();
            let found = IndexArrays::new(counts.len(), flagged)?;
            crate::interpreter::detach(py, || many(signal, counts, unit, lookup, found))?
        }
        None => {
            let one = |time: PyResult<Bound<'_, PyAny>>| -> Result<IndexAt> {
                let time = time?.extract::<TimeArg>()?.0.native();
                Ok(signal.index_of(&time, lookup.round, lookup.prefer)?)
            };
            let all = times.try_iter()?.map(one).collect::<Result<Vec<_>>>()?;
            let mut found = IndexArrays::new(all.len(), flagged)?;
            found.put(signal, 0, &all);
            found
        }
    };
    let shaped = |array: Bound<'py, PyAny>| array.call_method1("reshape", (&shape,));
    let indices = memory::own(py, found.indices, DType::I64, None)?;
    let in_gap = match found.in_gap {
        Some(in_gap) => Some(shaped(memory::own(py, in_gap, DType::Bool, None)?)?),
        None => None,
    };
    Ok((shaped(indices)?, in_gap))
}

/// From counts of `unit.0 / unit.1` ns since 1970.
fn many(
    signal: &StoreSignal,
    counts: &[i64],
    unit: (i64, i64),
    lookup: Lookup,
    mut out: IndexArrays,
) -> Result<IndexArrays> {
    let mut times = Vec::with_capacity(counts.len().min(BLOCK_LEN));
    let mut found = Vec::new();
    for (block, counts) in counts.chunks(BLOCK_LEN).enumerate() {
        let first = block * BLOCK_LEN;
        times.clear();
        for (position, count) in counts.iter().enumerate() {
            if *count == i64::MIN {
                let position = first + position;
                let message =
                    format!("NaT at position {position} is not a time; drop missing times first");
                return Err(PackageError::new("TimeError", "not_a_time", message).into());
            }
            times.push(instant(*count, unit)?);
        }
        signal.index_many(&times, lookup, &mut found)?;
        out.put(signal, first, &found);
    }
    Ok(out)
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

/// None if the signal or one of the runs has no civil time.
pub(crate) fn times_if_known<'py>(
    py: Python<'py>,
    signal: &StoreSignal,
    indices: &Bound<'py, PyAny>,
) -> Result<Option<Bound<'py, PyAny>>> {
    if signal.empirical()?.is_none() {
        return Ok(None);
    }
    match times_of(py, signal, indices) {
        Err(Error::Package(error)) if error.code() == "no_civil_time" => Ok(None),
        times => Ok(Some(times?)),
    }
}

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
    /// Civil time of an index, or of many; extrapolated beyond the ends.
    ///
    /// Parameters:
    ///     index: any whole number, or an array of them of any shape.
    ///
    /// Returns:
    ///     A `Time`, exact to 2**-32 ns, with its run, a flag if inside a gap, and its uncertainty. For an array: the
    ///     times as datetime64[ns] of the same shape, rounded to the nearest nanosecond.
    ///
    /// Raises:
    ///     isochrony.StoreError: the signal has no civil time.
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

    /// Index of a civil time, or of many; extrapolated beyond the ends. `index_of(time_of(i)) == i` for every index.
    ///
    /// Parameters:
    ///     time: a time; one from `time_of` has its run. Or an array of datetime64 of any unit and shape, or a sequence
    ///         of times. Whole numbers of nanoseconds are `array.view("datetime64[ns]")`.
    ///     round: "nearest", "floor", "ceil", or "exact" (an error unless a sample has that time). Times of an array
    ///         are already rounded to nanoseconds, sample times not: use "nearest".
    ///     prefer: run to use if two cover the time: "first", "last" or the id of a run.
    ///     flagged: also return whether the time lies in a gap.
    ///
    /// Returns:
    ///     An int; for many times an int64 array of their shape. Interpolated inside a gap. With `flagged` a pair: the
    ///     index, and a bool; for many times two arrays.
    ///
    /// Raises:
    ///     isochrony.TimeError: ambiguous after a backward clock step and no `prefer`; not on a sample with "exact";
    ///         NaT.
    ///     isochrony.StoreError: the signal has no civil time.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("x", dtype="i2", rate=2000, start="2010-03-01")
    /// >>> _ = signal.append(np.zeros(4000, "i2"))
    /// >>> signal.index_of("2010-03-01T00:00:01")
    /// 2000
    /// >>> signal.index_of(np.array(["2010-03-01T00:00:01", "2010-03-01T00:00:01.001"], "M8[ms]"))
    /// array([2000, 2002])
    /// >>> _ = signal.append_gap(seconds=10)
    /// >>> signal.index_of("2010-03-01T00:00:04", flagged=True)
    /// (8000, True)
    #[pyo3(signature = (time, *, round=None, prefer=None, flagged=false))]
    fn index_of<'py>(
        &self,
        py: Python<'py>,
        time: &Bound<'py, PyAny>,
        round: Option<RoundArg>,
        prefer: Option<PreferArg>,
        flagged: bool,
    ) -> Result<Bound<'py, PyAny>> {
        let signal = self.get(py)?;
        let lookup = Lookup {
            round: round.map(|round| round.0).unwrap_or_default(),
            prefer: prefer.map(|prefer| prefer.0),
        };
        let (index, in_gap) = if is_many(time) {
            indices_of(py, &signal, time, lookup, flagged)?
        } else {
            let time = time.extract::<TimeArg>()?.0.native();
            let found = signal.index_of(&time, lookup.round, lookup.prefer)?;
            let index = found.index.into_pyobject(py).map_err(PyErr::from)?;
            let in_gap = flagged.then(|| PyBool::new(py, found.in_gap).to_owned().into_any());
            (index.into_any(), in_gap)
        };
        match in_gap {
            Some(in_gap) => Ok(PyTuple::new(py, [index, in_gap])?.into_any()),
            None => Ok(index),
        }
    }

    fn _times_of<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
    ) -> Result<Option<Bound<'py, PyAny>>> {
        times_if_known(py, &self.get(py)?, indices)
    }
}
