//! Blocks of windows as 2-D arrays, and what functions return as memory of the engine.

use std::ptr::NonNull;
use std::sync::Arc;

use isochrony_segment::{Buffer, DType};
use numpy::npyffi::{self, npy_intp};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::array::{PythonOwner, shaped};
use crate::errors::{Raised, Result};

/// A read-only array of `rows` rows of `columns` values, the first value of each `stride` values after that of the row
/// before: windows that overlap share their samples. No copy.
pub(crate) fn rows(
    py: Python<'_>,
    buffer: Buffer,
    dtype: DType,
    rows: usize,
    columns: usize,
    stride: usize,
) -> PyResult<Bound<'_, PyAny>> {
    let size = dtype.size();
    let needed = (rows.saturating_sub(1))
        .checked_mul(stride)
        .and_then(|before| before.checked_add(columns))
        .and_then(|values| values.checked_mul(size));
    if needed.is_none_or(|needed| rows > 0 && needed > buffer.len()) {
        let message = format!(
            "{rows} rows of {columns} values every {stride} do not lie in {} bytes",
            buffer.len()
        );
        return Err(pyo3::exceptions::PyValueError::new_err(message));
    }
    let mut shape = [rows as npy_intp, columns as npy_intp];
    let mut strides = [(stride * size) as npy_intp, size as npy_intp];
    // SAFETY: the last value of the last row lies in the buffer, as was just checked; the array is read-only.
    unsafe { shaped(py, buffer, dtype, &mut shape, Some(&mut strides), 0) }
}

/// What a function returned: values one after another, in memory that nobody changes.
pub(crate) struct Returned {
    pub(crate) buffer: Buffer,
    pub(crate) dtype: DType,
    pub(crate) rows: usize,
    /// Values of a row; None of a 1-D array.
    pub(crate) columns: Option<usize>,
}

/// Element type of NumPy's number of it.
fn dtype_of(number: i32) -> Option<DType> {
    use npyffi::NPY_TYPES as T;
    let is = |kind: T| number == kind as i32;
    let long = if size_of::<std::ffi::c_long>() == 8 {
        DType::I64
    } else {
        DType::I32
    };
    Some(match () {
        () if is(T::NPY_BOOL) => DType::Bool,
        () if is(T::NPY_BYTE) => DType::I8,
        () if is(T::NPY_SHORT) => DType::I16,
        () if is(T::NPY_INT) => DType::I32,
        () if is(T::NPY_LONG) => long,
        () if is(T::NPY_LONGLONG) => DType::I64,
        () if is(T::NPY_UBYTE) => DType::U8,
        () if is(T::NPY_USHORT) => DType::U16,
        () if is(T::NPY_FLOAT) => DType::F32,
        () if is(T::NPY_DOUBLE) => DType::F64,
        () if is(T::NPY_CFLOAT) => DType::C64,
        () if is(T::NPY_CDOUBLE) => DType::C128,
        () => return None,
    })
}

/// How many references there are to an object.
fn references(object: &Bound<'_, PyAny>) -> isize {
    // SAFETY: reads the count of a live object, attached to the interpreter.
    unsafe { pyo3::ffi::Py_REFCNT(object.as_ptr()) }
}

/// Takes over the array that a function returned, without a copy where nobody can change it any more: nobody else
/// holds it, it is read-only, or it owns its memory and is made read-only here. Of a view of memory that somebody may
/// write, a copy is taken.
pub(crate) fn returned(result: Bound<'_, PyAny>) -> Result<Returned> {
    let py = result.py();
    let mut array = match result.cast_into::<PyUntypedArray>() {
        Ok(array) => array,
        Err(other) => {
            let other = other.into_inner();
            let made = py.import("numpy")?.call_method1("asarray", (other,))?;
            made.cast_into::<PyUntypedArray>().map_err(PyErr::from)?
        }
    };
    let descr = array.dtype();
    let Some(dtype) = dtype_of(descr.num()) else {
        let name = array.as_any().getattr("dtype")?.str()?.to_string();
        return Err(Raised::new(
            "SegmentTypeError",
            "unsupported_dtype",
            format!(
                "values of {name} cannot flow in a plan; convert them with .astype(\"float64\")"
            ),
        )
        .into());
    };
    if !matches!(array.ndim(), 1 | 2) {
        return Err(Raised::new(
            "SegmentError",
            "not_one_dimensional",
            format!(
                "an array of {} dimensions was returned; return one value a window (1-D) or one row a window (2-D)",
                array.ndim()
            ),
        )
        .into());
    }
    if descr.is_native_byteorder() == Some(false) {
        let native = descr.as_any().call_method1("newbyteorder", ("=",))?;
        let made = array.as_any().call_method1("astype", (native,))?;
        array = made.cast_into::<PyUntypedArray>().map_err(PyErr::from)?;
    }
    if !array.is_c_contiguous() {
        let numpy = py.import("numpy")?;
        let made = numpy.call_method1("ascontiguousarray", (&array,))?;
        array = made.cast_into::<PyUntypedArray>().map_err(PyErr::from)?;
    }
    let (rows, columns) = (array.shape()[0], array.shape().get(1).copied());
    let len = array.len() * dtype.size();
    // SAFETY: reads fields of the array's C struct, valid while `array` lives.
    let (data, flags, base) = unsafe {
        let fields = &(*array.as_array_ptr()).fields;
        (fields.data.cast::<u8>(), fields.flags, fields.base)
    };
    let Some(data) = NonNull::new(data).filter(|_| len > 0) else {
        let buffer = Buffer::concat([])?;
        return Ok(Returned {
            buffer,
            dtype,
            rows,
            columns,
        });
    };
    let owns = |flags: i32| flags & npyffi::NPY_ARRAY_OWNDATA != 0;
    let alone = references(array.as_any()) == 1;
    let mut fixed = flags & npyffi::NPY_ARRAY_WRITEABLE == 0 || alone && owns(flags);
    if !fixed && owns(flags) {
        // Somebody keeps the array: whoever writes there from now on gets NumPy's error instead of changing a result.
        array.as_any().call_method1("setflags", (false,))?;
        fixed = true;
    }
    // SAFETY: a base is null or an object that the array holds a reference to.
    let base = unsafe { Bound::from_borrowed_ptr_or_opt(py, base) };
    if let Some(base) = base.filter(|_| alone && !fixed)
        && let Ok(base) = base.cast_into::<PyUntypedArray>()
    {
        // SAFETY: as above. Two references: the view's and ours.
        fixed =
            owns(unsafe { (*base.as_array_ptr()).fields.flags }) && references(base.as_any()) == 2;
    }
    let aligned = data.as_ptr().addr().is_multiple_of(dtype.size().min(16));
    let owner = Arc::new(PythonOwner::new(array.into_any().unbind()));
    // SAFETY: the array is C-contiguous with `len` bytes from `data` on; `owner` holds it, so NumPy neither frees nor
    // resizes the memory. Nobody writes there, or the buffer is copied in the next line.
    let buffer = unsafe { Buffer::from_owner(owner, data, len) };
    let buffer = if fixed && aligned {
        buffer
    } else {
        Buffer::concat([buffer.bytes()])?
    };
    Ok(Returned {
        buffer,
        dtype,
        rows,
        columns,
    })
}
