//! `Selection.values` and `Signal.values`: samples in one array.

use isochrony_dsp::convert::ValueType;
use isochrony_segment::{Buffer, Complex32, Complex64, DType, Sample, SegmentError, dispatch};
use isochrony_store::Fill;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat};

use crate::errors::{PackageError, Result};
use crate::interrupt::{bytes_to_wait_for, interruptible};
use crate::memory::{OutputArray, adopt};
use crate::signal::Signal;
use crate::signal::selection::Selection;

/// A default that callers cannot give, since None has a meaning.
pub(crate) struct FillArg<'py>(Option<Bound<'py, PyAny>>);

impl<'py> FromPyObject<'_, 'py> for FillArg<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(Some(object.to_owned())))
    }
}

/// How much faster conversion is than the work for which `interruptible` starts a thread.
const CONVERSION_SPEED_RATIO: u64 = 4;

struct Request<'a, 'py> {
    fill: FillArg<'py>,
    dtype: Option<&'a Bound<'py, PyAny>>,
    out: Option<&'a Bound<'py, PyAny>>,
    counts: bool,
}

impl<'py> Request<'_, 'py> {
    /// Without calling Python: the usual fill number.
    fn plain_fill(&self) -> Option<f64> {
        if self.dtype.is_some() || self.out.is_some() || self.counts {
            return None;
        }
        match &self.fill.0 {
            None => Some(f64::NAN),
            Some(fill) => Some(fill.cast_exact::<PyFloat>().ok()?.value()),
        }
    }

    fn read(self, selection: &Bound<'py, Selection>) -> Result<Bound<'py, PyAny>> {
        let (py, this) = (selection.py(), selection.get());
        if let Some(fill) = self.plain_fill() {
            return this.doubles(py, fill);
        }
        let signal = this.signal();
        let options = PyDict::new(py);
        if let Some(fill) = self.fill.0 {
            options.set_item("fill", fill)?;
        }
        options.set_item("dtype", self.dtype)?;
        options.set_item("out", self.out)?;
        options.set_item("counts", self.counts)?;
        let source = (
            selection,
            signal.dtype().name(),
            signal.calibration().is_identity(),
        );
        let module = py.import("isochrony.store.values")?;
        Ok(module
            .getattr("read_values")?
            .call(source, Some(&options))?)
    }
}

impl Selection {
    fn doubles<'py>(&self, py: Python<'py>, fill: f64) -> Result<Bound<'py, PyAny>> {
        let selection = &self.selection;
        let dtype = match self.signal().dtype().is_complex() {
            true => DType::C128,
            false => DType::F64,
        };
        let bytes = selection
            .len()
            .unsigned_abs()
            .saturating_mul(dtype.size() as u64);
        let length = usize::try_from(selection.len()).unwrap_or(usize::MAX);
        let mut array = OutputArray::undefined(py, length, dtype).map_err(|_| {
            isochrony_store::StoreError::TooLarge {
                what: "one array for this selection",
                bytes: bytes.into(),
                limit: isize::MAX as u128,
            }
        })?;
        let wait = bytes_to_wait_for(self.signal().is_remote(), bytes / CONVERSION_SPEED_RATIO);
        if let Some(out) = array.samples_mut::<f64>() {
            interruptible(py, wait, || {
                Ok(selection.values_into(Fill::Value(fill), out)?)
            })?;
        } else if let Some(out) = array.samples_mut::<Complex64>() {
            let fill = Fill::Value(Complex64::new(fill, fill));
            interruptible(py, wait, || Ok(selection.values_into(fill, out)?))?;
        }
        Ok(array.into_any())
    }
}

/// Method `values` of a class, given a conversion to selections.
macro_rules! values_method {
    ($(#[$doc:meta])* $class:ty, $selection:ident) => {
        #[pymethods]
        impl $class {
            $(#[$doc])*
            #[pyo3(signature = (fill=FillArg(None), *, dtype=None, out=None, counts=false))]
            fn values<'py>(
                slf: &Bound<'py, Self>,
                fill: FillArg<'py>,
                dtype: Option<&Bound<'py, PyAny>>,
                out: Option<&Bound<'py, PyAny>>,
                counts: bool,
            ) -> Result<Bound<'py, PyAny>> {
                let request = Request {
                    fill,
                    dtype,
                    out,
                    counts,
                };
                request.read(&$selection(slf)?)
            }
        }
    };
}

values_method! {
    /// One value per selected index, gaps included, in one array. Time between runs takes no space.
    ///
    /// Parameters:
    ///     fill: value for gaps; a recorded NaN is a sample and stays. A number (for complex samples a real one is used
    ///         for both parts). None: a gap is an error. "ffill": the last sample before the gap. "interpolate": a
    ///         straight line from the sample before the gap to the one after it. Neither crosses a clock step or the
    ///         selection's ends: a gap there is NaN, of integers an error. Default:
    ///         NaN; of an integer dtype, which has none, a gap is an error.
    ///     dtype: dtype of the result: a bool, integer, float or complex dtype, of complex samples a complex one;
    ///         default: float64 (complex128). Rounded to the nearest, ties to even; a value that an integer dtype
    ///         cannot hold is an error.
    ///     out: a 1-D array of that many elements to write to, contiguous and in native byte order; its dtype is that
    ///         of the result. After an error or Ctrl-C its content is undefined.
    ///     counts: the samples as stored, by default in the signal's dtype, instead of values in its unit.
    ///
    /// Returns:
    ///     `out`, or a new 1-D array.
    ///
    /// Raises:
    ///     isochrony.GapError: a gap that `fill` does not fill.
    ///     isochrony.OptionError: an unusable `fill`, `dtype` or `out`; the message says why.
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
    Selection, same_selection
}

values_method! {
    /// All samples in one array, gaps included. Parameters and errors are those of `Selection.values`.
    ///
    /// Returns:
    ///     `out`, or a new array, shape (n,): float64 (complex128 of complex samples) unless `dtype` or `counts` say
    ///     otherwise. Edges: gaps have the value `fill`, by default NaN.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.array([1, 2], "i2")), signal.append_gap(samples=1), signal.append(np.array([4], "i2"))
    /// >>> signal.values(), signal.values(fill=0, dtype="i2")
    /// (array([ 1.,  2., nan,  4.]), array([1, 2, 0, 4], dtype=int16))
    Signal, whole_selection
}

fn same_selection<'py>(selection: &Bound<'py, Selection>) -> Result<Bound<'py, Selection>> {
    Ok(selection.clone())
}

fn whole_selection<'py>(signal: &Bound<'py, Signal>) -> Result<Bound<'py, Selection>> {
    let py = signal.py();
    let all = signal.get().pick(py, None, Default::default())?;
    Ok(Bound::new(py, all)?)
}

#[pymethods]
impl Selection {
    /// Writes values or counts to an array checked by `isochrony.store.values`.
    ///
    /// `value`: one element of the array's dtype: for "value", and for "ffill" and "interpolate" at edges. None: such a
    /// gap is an error.
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
        let wait = bytes_to_wait_for(self.signal().is_remote(), bytes / CONVERSION_SPEED_RATIO);
        macro_rules! read {
            ($type:ty, $into:ident, $fill:expr) => {{
                let fill = $fill;
                let out = array.samples_mut::<$type>().unwrap_or_default();
                interruptible(py, wait, || Ok(self.selection.$into(fill, out)?))
            }};
        }
        if counts && dtype == self.signal().dtype() && !is_float(dtype) {
            return dispatch!(dtype, T => read!(T, counts_into, of_any(how, value.as_ref())));
        }
        macro_rules! read_floats {
            ($($name:ident => $type:ty),*) => {
                match (dtype, counts) {
                    $((DType::$name, false) => read!($type, values_into, of_numbers(how, value.as_ref())),
                    (DType::$name, true) => read!($type, converted_counts_into, of_numbers(how, value.as_ref())),)*
                    (got, _) => Err(SegmentError::DTypeMismatch { expected: DType::F64, got }.into()),
                }
            };
        }
        read_floats!(F32 => f32, F64 => f64, C64 => Complex32, C128 => Complex64)
    }
}

fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128)
}

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
