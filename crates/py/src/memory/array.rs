//! NumPy arrays over buffers, and buffers over NumPy arrays.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use isochrony_segment::{Buffer, BufferMut, DType, Owner};
use numpy::npyffi::{self, NPY_TYPES, NpyTypes, PY_ARRAY_API, PyArrayObject, npy_intp};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::errors::{PackageError, Result};

/// Base object of a NumPy array, which keeps a buffer alive.
#[pyclass(frozen, module = "isochrony._native", name = "_ArrayBase")]
#[derive(Default)]
pub(super) struct ArrayBase {
    buffer: OnceLock<Buffer>,
}

impl ArrayBase {
    pub(super) fn keep(&self, buffer: Buffer) {
        let _ = self.buffer.set(buffer);
    }
}

pub(super) fn dtype_of(number: i32) -> Option<DType> {
    use NPY_TYPES as T;
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
        () if is(T::NPY_UINT) => DType::U32,
        () if is(T::NPY_FLOAT) => DType::F32,
        () if is(T::NPY_DOUBLE) => DType::F64,
        () if is(T::NPY_CFLOAT) => DType::C64,
        () if is(T::NPY_CDOUBLE) => DType::C128,
        () => return None,
    })
}

pub(super) fn type_number(dtype: DType) -> NPY_TYPES {
    match dtype {
        DType::Bool => NPY_TYPES::NPY_BOOL,
        DType::I8 => NPY_TYPES::NPY_BYTE,
        DType::I16 => NPY_TYPES::NPY_SHORT,
        DType::I32 => NPY_TYPES::NPY_INT,
        // NumPy's int64 is `long` where that has 64 bits.
        DType::I64 if size_of::<std::ffi::c_long>() == 8 => NPY_TYPES::NPY_LONG,
        DType::I64 => NPY_TYPES::NPY_LONGLONG,
        DType::U8 => NPY_TYPES::NPY_UBYTE,
        DType::U16 => NPY_TYPES::NPY_USHORT,
        DType::U32 => NPY_TYPES::NPY_UINT,
        DType::F32 => NPY_TYPES::NPY_FLOAT,
        DType::F64 => NPY_TYPES::NPY_DOUBLE,
        DType::C64 => NPY_TYPES::NPY_CFLOAT,
        DType::C128 => NPY_TYPES::NPY_CDOUBLE,
    }
}

/// A read-only 1-D array over `buffer`, which holds whole samples. Unaligned bytes give `flags.aligned` false.
pub(crate) fn view(py: Python<'_>, buffer: Buffer, dtype: DType) -> PyResult<Bound<'_, PyAny>> {
    let len = buffer.len() / dtype.size();
    // SAFETY: read-only, and no larger than the buffer.
    unsafe { over(py, buffer, dtype, &mut [len as npy_intp], 0) }
}

pub(crate) fn own(
    py: Python<'_>,
    memory: BufferMut,
    dtype: DType,
    columns: Option<usize>,
) -> PyResult<Bound<'_, PyAny>> {
    let len = memory.len() / dtype.size();
    let flags = npyffi::NPY_ARRAY_WRITEABLE;
    let buffer = memory.freeze();
    match columns {
        // SAFETY: no larger than the buffer. The array's keeper has `freeze`'s only reference to it, so nobody else
        // sees NumPy's writes.
        None => unsafe { over(py, buffer, dtype, &mut [len as npy_intp], flags) },
        Some(columns) => {
            let rows = len.checked_div(columns).unwrap_or(0);
            // SAFETY: as above; `rows * columns <= len`.
            unsafe {
                over(
                    py,
                    buffer,
                    dtype,
                    &mut [rows as npy_intp, columns as npy_intp],
                    flags,
                )
            }
        }
    }
}

struct GatheredBytes {
    _bytes: Vec<u8>,
}

impl Owner for GatheredBytes {}

/// Like [`own`], without an incomplete last row.
pub(crate) fn gathered(
    py: Python<'_>,
    mut bytes: Vec<u8>,
    dtype: DType,
    columns: Option<usize>,
) -> Result<Bound<'_, PyAny>> {
    let row = columns.unwrap_or(1).saturating_mul(dtype.size());
    let rows = bytes.len().checked_div(row).unwrap_or(0);
    let Some(data) = NonNull::new(bytes.as_mut_ptr()).filter(|_| rows > 0) else {
        let mut shape = vec![0; 1 + usize::from(columns.is_some())];
        if let (Some(last), Some(columns)) = (shape.get_mut(1), columns) {
            *last = columns as npy_intp;
        }
        // SAFETY: the shape has a zero, so the array has no bytes.
        return Ok(unsafe { over(py, Buffer::concat([])?, dtype, &mut shape, 0) }?);
    };
    let owner = Arc::new(GatheredBytes { _bytes: bytes });
    // SAFETY: `owner` keeps the vector, whose memory stays in place, and nobody resizes or reads it.
    let buffer = unsafe { Buffer::from_owner(owner, data, rows * row) };
    let mut shape = vec![rows as npy_intp];
    shape.extend(columns.map(|columns| columns as npy_intp));
    // SAFETY: the shape needs the buffer's `rows * row` bytes; it is the only reference to memory that was allocated,
    // and whose pointer was taken, for writing.
    Ok(unsafe { over(py, buffer, dtype, &mut shape, npyffi::NPY_ARRAY_WRITEABLE) }?)
}

/// A C-contiguous array over `buffer`.
///
/// # Safety
/// The shape needs at most `buffer.len()` bytes; with `NPY_ARRAY_WRITEABLE` in `flags`, `buffer` is the only reference
/// to owned memory that anybody reads by while the array is reachable.
pub(super) unsafe fn over<'py>(
    py: Python<'py>,
    buffer: Buffer,
    dtype: DType,
    shape: &mut [npy_intp],
    flags: c_int,
) -> PyResult<Bound<'py, PyAny>> {
    let keeper = Bound::new(py, ArrayBase::default())?;
    let data = buffer.as_ptr();
    keeper.get().keep(buffer);
    // SAFETY: by the caller; the keeper has the buffer.
    unsafe { shaped(py, &keeper, data, dtype, shape, None, flags) }
}

/// An array at `data` with base `keeper`; strides of None: C-contiguous.
///
/// # Safety
/// The values that shape and strides reach lie in a buffer that `keeper` has, or gets in time, and that outlives the
/// array. With `NPY_ARRAY_WRITEABLE` in `flags`, that is the only reference to owned memory, and no two values share
/// bytes.
pub(super) unsafe fn shaped<'py>(
    py: Python<'py>,
    keeper: &Bound<'py, ArrayBase>,
    data: *const u8,
    dtype: DType,
    shape: &mut [npy_intp],
    strides: Option<&mut [npy_intp; 2]>,
    flags: c_int,
) -> PyResult<Bound<'py, PyAny>> {
    let aligned = data.addr().is_multiple_of(dtype.align());
    let flags = flags
        | if aligned {
            npyffi::NPY_ARRAY_ALIGNED
        } else {
            0
        };
    // SAFETY: the interpreter is attached. The descriptor is of a built-in type; NewFromDescr steals its reference and
    // returns a new one or null with an exception set. The caller guarantees shape and lifetime; without
    // NPY_ARRAY_WRITEABLE NumPy never writes there. SetBaseObject steals the reference even when it fails.
    unsafe {
        let descr = PY_ARRAY_API.PyArray_DescrFromType(py, type_number(dtype) as c_int);
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, NpyTypes::PyArray_Type),
            descr,
            shape.len() as c_int,
            shape.as_mut_ptr(),
            strides.map_or(std::ptr::null_mut(), |strides| strides.as_mut_ptr()),
            data.cast_mut().cast::<c_void>(),
            flags,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        let object = array.as_ptr().cast::<PyArrayObject>();
        if PY_ARRAY_API.PyArray_SetBaseObject(py, object, keeper.clone().into_ptr()) != 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(array)
    }
}

pub(super) struct PythonOwner {
    _object: Py<PyAny>,
}

impl PythonOwner {
    pub(super) fn new(object: Py<PyAny>) -> Self {
        Self { _object: object }
    }
}

impl Owner for PythonOwner {}

/// The memory of a 1-D array and its dtype; copied only if strided, of foreign byte order, or on request. Otherwise,
/// the array must not be written while the buffer is in use.
pub(crate) fn adopt(array: &Bound<'_, PyAny>, copy: bool) -> Result<(Buffer, DType)> {
    if let Some((array, dtype)) = usable(array) {
        return memory_of(array, dtype, copy);
    }
    let py = array.py();
    let numpy = py.import("numpy")?;
    let mut array = numpy.call_method1("asarray", (array,))?;
    let spelling: String = array.getattr("dtype")?.getattr("str")?.extract()?;
    let (dtype, order) = DType::parse(&spelling)?;
    if !order.is_native() {
        let native = array
            .getattr("dtype")?
            .call_method1("newbyteorder", ("=",))?;
        array = array.call_method1("astype", (native,))?;
    }
    let ndim: usize = array.getattr("ndim")?.extract()?;
    if ndim != 1 {
        return Err(PackageError::new(
            "SegmentError",
            "not_one_dimensional",
            format!(
                "samples must be a 1-D array, got {ndim} dimensions; pass one channel at a time"
            ),
        )
        .into());
    }
    let array = numpy.call_method1("ascontiguousarray", (array,))?;
    let array = array.cast::<PyUntypedArray>().map_err(PyErr::from)?;
    memory_of(array, dtype, copy)
}

fn usable<'a, 'py>(
    array: &'a Bound<'py, PyAny>,
) -> Option<(&'a Bound<'py, PyUntypedArray>, DType)> {
    let array = array.cast_exact::<PyUntypedArray>().ok()?;
    let descr = array.dtype();
    let dtype = dtype_of(descr.num())?;
    let is_native = descr.is_native_byteorder() != Some(false);
    (is_native && array.ndim() == 1 && array.is_c_contiguous()).then_some((array, dtype))
}

fn memory_of(
    array: &Bound<'_, PyUntypedArray>,
    dtype: DType,
    copy: bool,
) -> Result<(Buffer, DType)> {
    let len = array.len() * dtype.size();
    // SAFETY: reads a field of the C struct of the live `array`.
    let data = unsafe { (*array.as_array_ptr()).fields.data.cast::<u8>() };
    let Some(data) = NonNull::new(data).filter(|_| len > 0) else {
        return Ok((Buffer::concat([])?, dtype));
    };
    let owner = Arc::new(PythonOwner {
        _object: array.clone().into_any().unbind(),
    });
    // SAFETY: the array is C-contiguous with `len` bytes from `data` on. `owner` holds its reference count, so NumPy
    // neither frees nor resizes the memory. Not writing meanwhile is the caller's documented duty.
    let buffer = unsafe { Buffer::from_owner(owner, data, len) };
    if copy {
        return Ok((Buffer::concat([buffer.bytes()])?, dtype));
    }
    Ok((buffer, dtype))
}
