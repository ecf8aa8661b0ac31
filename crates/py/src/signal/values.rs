//! `Selection.values` and `Signal.values`: samples in one array.

use isochrony_dsp::convert::ValueType;
use isochrony_segment::{Buffer, Complex32, Complex64, DType, Sample, dispatch};
use isochrony_store::Fill;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{PackageError, Result};
use crate::interrupt::interruptible;
use crate::memory::{OutputArray, adopt};
use crate::signal::Signal;
use crate::signal::selection::Selection;

/// `fill=`, whose default is no value that can be given: None has a meaning.
pub(crate) struct FillArg<'py>(Option<Bound<'py, PyAny>>);

impl<'py> FromPyObject<'_, 'py> for FillArg<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(Some(object.to_owned())))
    }
}

/// Arguments of `isochrony.values.read_values` that were given.
fn arguments<'py>(
    py: Python<'py>,
    fill: FillArg<'py>,
    dtype: Option<&Bound<'py, PyAny>>,
    out: Option<&Bound<'py, PyAny>>,
    counts: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let options = PyDict::new(py);
    if let Some(fill) = fill.0 {
        options.set_item("fill", fill)?;
    }
    options.set_item("dtype", dtype)?;
    options.set_item("out", out)?;
    options.set_item("counts", counts)?;
    Ok(options)
}

fn read_values<'py>(
    selection: &Bound<'py, Selection>,
    options: &Bound<'py, PyDict>,
) -> Result<Bound<'py, PyAny>> {
    let signal = selection.get().signal();
    let source = (
        selection,
        signal.dtype().name(),
        signal.calibration().is_identity(),
    );
    let module = selection.py().import("isochrony.values")?;
    Ok(module.getattr("read_values")?.call(source, Some(options))?)
}

#[pymethods]
impl Selection {
    /// One value per selected index, gaps included, in one array. Time between runs takes no space.
    ///
    /// Parameters:
    ///     fill: what stands in gaps; a NaN that was recorded is a sample and stays. A number (of complex samples a real
    ///         one stands in both parts). None: a gap is an error. "ffill": the last sample before the gap.
    ///         "interpolate": a straight line from the sample before the gap to the one behind it. Neither looks across
    ///         a clock step or outside the selection: a gap at an end of those is NaN, of integers an error. Default:
    ///         NaN; of an integer dtype, which has none, a gap is an error.
    ///     dtype: of the result, any of NumPy's real ones, of complex samples a complex one; default: float64
    ///         (complex128). Rounded to the nearest, ties to even; what an integer dtype cannot hold is an error.
    ///     out: a 1-D array of that many elements to write to, contiguous and in native byte order; its dtype is that of
    ///         the result. After an error or Ctrl-C its content is undefined.
    ///     counts: the samples as stored, by default in the signal's dtype, instead of values in its unit.
    ///
    /// Returns:
    ///     `out`, or a new 1-D array.
    ///
    /// Raises:
    ///     isochrony.GapError: a gap that `fill` does not fill.
    ///     isochrony.OptionError: a `fill`, `dtype` or `out` that cannot be used; the message says why.
    ///     isochrony.StoreValueError: a value that the integer dtype cannot hold.
    ///     isochrony.StoreMemoryError: more than can be allocated.
    ///     KeyboardInterrupt: within a tenth of a second of Ctrl-C.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/a.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, unit="kPa", scale=0.5)
    /// >>> _ = signal.append(np.array([2, 4], "i2")), signal.append_gap(samples=1), signal.append(np.array([8], "i2"))
    /// >>> signal[:].values()
    /// array([ 1.,  2., nan,  4.])
    /// >>> signal[:].values("interpolate", dtype="f4")
    /// array([1., 2., 3., 4.], dtype=float32)
    /// >>> signal[:].values(-1, counts=True)
    /// array([ 2,  4, -1,  8], dtype=int16)
    #[pyo3(
        signature = (fill=FillArg(None), *, dtype=None, out=None, counts=false),
        text_signature = "(fill=nan, *, dtype=None, out=None, counts=False)"
    )]
    fn values<'py>(
        slf: &Bound<'py, Self>,
        fill: FillArg<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
        counts: bool,
    ) -> Result<Bound<'py, PyAny>> {
        read_values(slf, &arguments(slf.py(), fill, dtype, out, counts)?)
    }

    /// Writes values, or counts, to an array that `isochrony.values` has checked.
    ///
    /// `value`: one element of the array's dtype: for "value", and for "ffill" and "interpolate" at edges. None: a gap
    /// there is an error.
    fn _read(
        &self,
        py: Python<'_>,
        out: &Bound<'_, PyAny>,
        how: &str,
        value: Option<&Bound<'_, PyAny>>,
        counts: bool,
    ) -> Result<()> {
        let Some(mut array) = OutputArray::new(out) else {
            let message = "out= must be a writable, contiguous 1-D array".to_owned();
            return Err(PackageError::new("OptionError", "bad_option", message).into());
        };
        let value = value.map(|value| adopt(value, true)).transpose()?;
        let value = value.map(|(buffer, _)| buffer);
        let dtype = array.dtype();
        let bytes = out.len()?.saturating_mul(dtype.size()) as u64;
        macro_rules! read {
            ($type:ty, $into:ident, $fill:expr) => {{
                let fill = $fill;
                let out = array.samples_mut::<$type>().unwrap_or_default();
                interruptible(py, bytes, || Ok(self.selection.$into(fill, out)?))
            }};
        }
        match (dtype, counts) {
            (DType::F32, false) => read!(f32, values_into, of_numbers(how, value.as_ref())),
            (DType::F64, false) => read!(f64, values_into, of_numbers(how, value.as_ref())),
            (DType::C64, false) => read!(Complex32, values_into, of_numbers(how, value.as_ref())),
            (DType::C128, false) => read!(Complex64, values_into, of_numbers(how, value.as_ref())),
            (DType::F32, true) => read!(f32, counts_into, of_numbers(how, value.as_ref())),
            (DType::F64, true) => read!(f64, counts_into, of_numbers(how, value.as_ref())),
            (DType::C64, true) => read!(Complex32, counts_into, of_numbers(how, value.as_ref())),
            (DType::C128, true) => read!(Complex64, counts_into, of_numbers(how, value.as_ref())),
            (dtype, _) => {
                dispatch!(dtype, T => read!(T, counts_into, of_any::<T>(how, value.as_ref())))
            }
        }
    }
}

#[pymethods]
impl Signal {
    /// All samples in one array; `Selection.values` has the parameters and errors.
    #[pyo3(
        signature = (fill=FillArg(None), *, dtype=None, out=None, counts=false),
        text_signature = "(fill=nan, *, dtype=None, out=None, counts=False)"
    )]
    fn values<'py>(
        slf: &Bound<'py, Self>,
        fill: FillArg<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
        counts: bool,
    ) -> Result<Bound<'py, PyAny>> {
        let py = slf.py();
        let all = Bound::new(py, slf.get().pick(py, None, Default::default())?)?;
        read_values(&all, &arguments(py, fill, dtype, out, counts)?)
    }
}

/// The first element of a buffer.
fn element<T: Sample>(value: Option<&Buffer>) -> Option<T> {
    value?.samples::<T>()?.first().copied()
}

fn of_any<T: Sample>(how: &str, value: Option<&Buffer>) -> Fill<T> {
    match (how, element(value)) {
        ("ffill", edge) => Fill::Forward(edge),
        ("value", Some(value)) => Fill::Value(value),
        _ => Fill::Refuse,
    }
}

fn of_numbers<V: ValueType>(how: &str, value: Option<&Buffer>) -> Fill<V> {
    match (how, element(value)) {
        ("interpolate", Some(edge)) => Fill::Interpolate {
            edge,
            between: V::between,
        },
        _ => of_any(how, value),
    }
}
