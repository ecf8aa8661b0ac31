//! `isochrony.Segment`: one contiguous range of a signal.

use isochrony_segment::{Calibration, SigSeg, Stream};
use isochrony_time::TimebaseId;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::errors::{PackageError, Result};
use crate::integer::IntegerArg;
use crate::memory;
use crate::time::{RateArg, Time, rate_object};

/// Samples of one stream at consecutive indices, in shared, immutable memory.
///
/// Slicing and joining adjacent segments copy no samples. `numpy.asarray(segment)` gives values in the segment's unit:
/// without a copy if the calibration is the identity (scale 1, offset 0) and the samples lie in one buffer, otherwise
/// as float64 (complex128 for complex samples). `counts` is always raw. Views are read-only and keep their memory
/// alive. Pickled with its samples.
///
/// Parameters:
///     samples: 1-D array of bool, int8 to int64, uint8 to uint32, float32, float64, complex64 or complex128. Shared
///         unless strided or of non-native byte order; do not write to it afterwards, or pass `copy=True`.
///     start: index of the first sample.
///     rate: nominal sample rate in Hz.
///     name: of the stream; only segments of one stream can be joined.
///     unit: unit of the values; empty if unknown.
///     scale: units per count, finite, not zero.
///     offset: value of zero counts, in the unit, finite.
///     copy: copy the samples.
///
/// Raises:
///     isochrony.SegmentError: unsupported type or shape of samples, or an unusable calibration.
///
/// >>> import numpy as np, isochrony as iso
/// >>> a = iso.Segment(np.arange(5, dtype="i2"), start=100, scale=0.5, unit="kPa")
/// >>> np.asarray(a)
/// array([0. , 0.5, 1. , 1.5, 2. ])
/// >>> a.subseg(101, 103).counts
/// array([1, 2], dtype=int16)
#[pyclass(frozen, module = "isochrony")]
pub(crate) struct Segment {
    pub(crate) seg: SigSeg,
    pub(crate) time: Option<Time>,
}

impl From<SigSeg> for Segment {
    fn from(seg: SigSeg) -> Self {
        Self { seg, time: None }
    }
}

#[pymethods]
impl Segment {
    #[new]
    #[pyo3(
        signature = (samples, start=IntegerArg(0), *, rate=None, name="", unit="", scale=1.0, offset=0.0, copy=false),
        text_signature = "(samples, start=0, *, rate=None, name='', unit='', scale=1.0, offset=0.0, copy=False)"
    )]
    #[allow(clippy::too_many_arguments)] // A Python constructor: all but two by name.
    fn new(
        samples: &Bound<'_, PyAny>,
        start: IntegerArg<i64>,
        rate: Option<RateArg>,
        name: &str,
        unit: &str,
        scale: f64,
        offset: f64,
        copy: bool,
    ) -> Result<Self> {
        let (buffer, dtype) = memory::adopt(samples, copy)?;
        let stream = stream(rate, name, unit, scale, offset)?;
        Ok(SigSeg::new(buffer, start.0, dtype, stream)?.into())
    }

    /// Makes a segment of an Arrow array; numbers are not copied.
    ///
    /// Other libraries pass such arrays without a copy: pyarrow, Polars, nanoarrow. `Segment` has the other parameters.
    ///
    /// Parameters:
    ///     array: anything with `__arrow_c_array__`, without nulls.
    ///     start: index of the first sample.
    ///
    /// Returns:
    ///     A `Segment` over the array's memory, of its dtype.
    ///
    /// Raises:
    ///     isochrony.SegmentTypeError: nulls, or a type that signals cannot have.
    ///
    /// >>> import isochrony as iso, numpy as np, pyarrow
    /// >>> segment = iso.Segment.from_arrow(pyarrow.array([1, 2, 4], pyarrow.int16()), rate=100, unit="kPa", scale=0.5)
    /// >>> segment.values()
    /// array([0.5, 1. , 2. ])
    #[staticmethod]
    #[pyo3(
        signature = (array, start=IntegerArg(0), *, rate=None, name="", unit="", scale=1.0, offset=0.0),
        text_signature = "(array, start=0, *, rate=None, name='', unit='', scale=1.0, offset=0.0)"
    )]
    fn from_arrow(
        array: &Bound<'_, PyAny>,
        start: IntegerArg<i64>,
        rate: Option<RateArg>,
        name: &str,
        unit: &str,
        scale: f64,
        offset: f64,
    ) -> Result<Self> {
        let (buffer, dtype) = memory::arrow_import(array)?;
        let stream = stream(rate, name, unit, scale, offset)?;
        Ok(SigSeg::new(buffer, start.0, dtype, stream)?.into())
    }

    /// Index of the first sample.
    ///
    /// >>> a.start
    /// 100
    #[getter]
    fn start(&self) -> i64 {
        self.seg.start()
    }

    /// Index after the last sample.
    ///
    /// >>> a.end
    /// 105
    #[getter]
    fn end(&self) -> i64 {
        self.seg.end()
    }

    /// Number of samples; `len(segment)`.
    ///
    /// >>> a.length
    /// 5
    #[getter]
    fn length(&self) -> u64 {
        self.seg.len()
    }

    /// Civil time of the first sample; None without a signal or if its run has no civil time.
    ///
    /// >>> a.time is None
    /// True
    #[getter]
    fn time(&self) -> Option<Time> {
        self.time
    }

    /// NumPy dtype of the counts.
    ///
    /// >>> a.dtype
    /// dtype('int16')
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("numpy")?
            .call_method1("dtype", (self.seg.dtype().name(),))
    }

    /// Name of the stream.
    ///
    /// >>> a.name
    /// ''
    #[getter]
    fn name(&self) -> &str {
        &self.seg.stream().name
    }

    /// Unit of the values; empty if unknown.
    ///
    /// >>> a.unit
    /// 'kPa'
    #[getter]
    fn unit(&self) -> &str {
        self.seg.stream().calibration.unit()
    }

    /// Units per count.
    ///
    /// >>> a.scale
    /// 0.5
    #[getter]
    fn scale(&self) -> f64 {
        self.seg.stream().calibration.scale()
    }

    /// Value of zero counts, in the unit.
    ///
    /// >>> a.offset
    /// 0.0
    #[getter]
    fn offset(&self) -> f64 {
        self.seg.stream().calibration.offset()
    }

    /// Nominal sample rate in Hz, a float with its exact ratio.
    ///
    /// >>> a.rate
    /// 1.0
    #[getter]
    fn rate<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        rate_object(py, self.seg.stream().rate)
    }

    /// Whether all samples lie in one aligned buffer, so an array needs no copy.
    ///
    /// >>> a.is_contiguous
    /// True
    #[getter]
    fn is_contiguous(&self) -> bool {
        self.seg.is_contiguous()
    }

    /// The raw samples.
    ///
    /// Returns:
    ///     A read-only array, shape (n,), of the segment's dtype; copied only if scattered or unaligned. `values` has
    ///     an example.
    ///
    /// >>> a.counts
    /// array([0, 1, 2, 3, 4], dtype=int16)
    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        counts(py, &self.seg)
    }

    /// The samples in `unit`.
    ///
    /// Returns:
    ///     A read-only array, shape (n,): the counts themselves if the calibration is the identity (scale 1, offset 0),
    ///     else float64 (complex128 for complex samples).
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> segment = iso.Segment(np.array([2, 4], "i2"), rate=100, scale=0.5)
    /// >>> segment.values(), segment.counts
    /// (array([1., 2.]), array([2, 4], dtype=int16))
    fn values<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        values(py, &self.seg)
    }

    /// The raw samples as they lie in memory, without a copy.
    ///
    /// Returns:
    ///     A list of read-only arrays, shape (n,), of the segment's dtype, one per buffer.
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> segment = iso.Segment(np.arange(6, dtype="i2"), start=100, rate=50)
    /// >>> segment.buffers()
    /// [array([0, 1, 2, 3, 4, 5], dtype=int16)]
    fn buffers<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for buffer in self.seg.buffers() {
            list.append(memory::view(py, buffer.clone(), self.seg.dtype())?)?;
        }
        Ok(list)
    }

    /// A part of the segment, without a copy.
    ///
    /// Parameters:
    ///     start: index of the first sample.
    ///     end: index after the last one.
    ///
    /// Returns:
    ///     A `Segment` of the samples from `start` up to `end`.
    ///
    /// Raises:
    ///     isochrony.SegmentIndexError: a range outside the segment.
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> segment = iso.Segment(np.arange(6, dtype="i2"), start=100, rate=50)
    /// >>> segment.subseg(102, 105).counts
    /// array([2, 3, 4], dtype=int16)
    fn subseg(&self, start: IntegerArg<i64>, end: IntegerArg<i64>) -> Result<Self> {
        Ok(self.seg.subseg(start.0..end.0)?.into())
    }

    /// Joins this segment and the next one of the same stream, without a copy.
    ///
    /// Parameters:
    ///     next: a segment that starts at this one's end.
    ///
    /// Returns:
    ///     A `Segment`; its samples lie in several buffers.
    ///
    /// Raises:
    ///     isochrony.SegmentError: segments that are not adjacent, or of different streams.
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> segment = iso.Segment(np.arange(6, dtype="i2"), start=100, rate=50)
    /// >>> later = iso.Segment(np.arange(3, dtype="i2"), start=106, rate=50)
    /// >>> joined = segment.append(later)
    /// >>> joined.start, joined.end, joined.is_contiguous
    /// (100, 109, False)
    fn append(&self, next: &Self) -> Result<Self> {
        let mut joined = self.seg.clone();
        joined.append(next.seg.clone())?;
        Ok(Self {
            seg: joined,
            time: self.time,
        })
    }

    /// The same segment with this civil time of its first sample.
    fn _with_time(&self, time: &Bound<'_, Time>) -> Self {
        Self {
            seg: self.seg.clone(),
            time: Some(*time.get()),
        }
    }

    /// The same samples in one aligned buffer.
    ///
    /// Returns:
    ///     This segment if it is contiguous already, else a copy.
    ///
    /// >>> import isochrony as iso, numpy as np
    /// >>> segment = iso.Segment(np.arange(6, dtype="i2"), start=100, rate=50)
    /// >>> joined = segment.append(iso.Segment(np.arange(3, dtype="i2"), start=106, rate=50))
    /// >>> joined.materialise().is_contiguous
    /// True
    fn materialise(&self, py: Python<'_>) -> Result<Self> {
        let seg = crate::interpreter::detach(py, || self.seg.materialise())?;
        Ok(Self {
            seg,
            time: self.time,
        })
    }

    fn __len__(&self) -> usize {
        self.seg.len() as usize
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> Result<Bound<'py, PyAny>> {
        let shared = self.seg.stream().calibration.is_identity() && self.seg.is_contiguous();
        array_as_requested(values(py, &self.seg)?, shared, dtype, copy)
    }

    /// The values for another library (PyTorch, JAX, CuPy) by DLPack; read-only, copied only if `numpy.asarray` copies.
    #[pyo3(signature = (**options))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>> {
        Ok(values(py, &self.seg)?.call_method("__dlpack__", (), options)?)
    }

    /// Device of `__dlpack__`: CPU.
    fn __dlpack_device__(&self) -> (i32, i32) {
        (1, 0)
    }

    /// The values for Arrow; numbers in one buffer are not copied. Complex ones are lists of two.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyTuple>> {
        let _ = requested_schema;
        let seg = crate::interpreter::detach(py, || self.seg.to_physical()?.materialise())?;
        match seg.buffers().next() {
            Some(buffer) => memory::arrow_export(py, buffer.clone(), seg.dtype()),
            None => {
                let empty = isochrony_segment::Buffer::concat([])?;
                memory::arrow_export(py, empty, seg.dtype())
            }
        }
    }

    fn __repr__(&self) -> String {
        let (stream, seg) = (self.seg.stream(), &self.seg);
        let mut text = format!("<Segment {}..{} {}", seg.start(), seg.end(), seg.dtype());
        for (label, value) in [
            ("of", stream.name.as_str()),
            ("in", stream.calibration.unit()),
        ] {
            if !value.is_empty() {
                text.push_str(&format!(" {label} {value}"));
            }
        }
        text + ">"
    }
}

fn stream(
    rate: Option<RateArg>,
    name: &str,
    unit: &str,
    scale: f64,
    offset: f64,
) -> Result<isochrony_segment::StreamId> {
    let rate = match rate {
        Some(rate) => rate.0,
        None => isochrony_time::Rate::from_hz(1)?,
    };
    let calibration = Calibration::new(scale, offset, unit)?;
    Ok(Stream::new(name, TimebaseId::default(), rate)
        .with_calibration(calibration)
        .intern())
}

/// Copied only if scattered or unaligned.
pub(crate) fn counts<'py>(py: Python<'py>, seg: &SigSeg) -> Result<Bound<'py, PyAny>> {
    let mut buffers = seg.buffers();
    match (buffers.next(), buffers.next()) {
        (Some(buffer), None) => Ok(memory::view(py, buffer.clone(), seg.dtype())?),
        (None, _) => Ok(memory::view(
            py,
            isochrony_segment::Buffer::concat([])?,
            seg.dtype(),
        )?),
        _ => counts(py, &crate::interpreter::detach(py, || seg.materialise())?),
    }
}

/// Copied unless the calibration is the identity.
pub(crate) fn values<'py>(py: Python<'py>, seg: &SigSeg) -> Result<Bound<'py, PyAny>> {
    if seg.stream().calibration.is_identity() {
        return counts(py, seg);
    }
    counts(py, &crate::interpreter::detach(py, || seg.to_physical())?)
}

/// Result of `__array__`: `array` as `dtype`, copied on request. `shared`: not copied so far.
pub(crate) fn array_as_requested<'py>(
    array: Bound<'py, PyAny>,
    shared: bool,
    dtype: Option<&Bound<'py, PyAny>>,
    copy: Option<bool>,
) -> Result<Bound<'py, PyAny>> {
    if copy == Some(false) && !shared {
        let message = "these samples cannot become an array without a copy; leave copy=False out";
        return Err(PackageError::new("SegmentError", "copy_needed", message.into()).into());
    }
    if let Some(dtype) = dtype
        && !array.getattr("dtype")?.eq(dtype)?
    {
        if copy == Some(false) {
            let message =
                format!("these samples cannot become {dtype} without a copy; leave copy=False out");
            return Err(PackageError::new("SegmentError", "copy_needed", message).into());
        }
        return Ok(array.call_method1("astype", (dtype,))?);
    }
    if copy == Some(true) && shared {
        return Ok(array.call_method0("copy")?);
    }
    Ok(array)
}
