//! NumPy arrays for results of native code.

use std::ffi::c_int;

use isochrony_segment::{DType, Sample};
use numpy::npyffi::{self, NpyTypes, PY_ARRAY_API, npy_intp};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::array::{dtype_of, type_number};

/// Writable, 1-D, contiguous, aligned and in native byte order.
pub(crate) struct OutputArray<'py> {
    array: Bound<'py, PyUntypedArray>,
    dtype: DType,
}

impl<'py> OutputArray<'py> {
    /// None for any other object; `isochrony.store.values` reports why.
    pub(crate) fn new(array: &Bound<'py, PyAny>) -> Option<Self> {
        const NEEDED: i32 = npyffi::NPY_ARRAY_C_CONTIGUOUS
            | npyffi::NPY_ARRAY_ALIGNED
            | npyffi::NPY_ARRAY_WRITEABLE;
        let array = array.cast::<PyUntypedArray>().ok()?.clone();
        let descr = array.dtype();
        let dtype = dtype_of(descr.num())?;
        // SAFETY: reads a field of the C struct of the live `array`.
        let flags = unsafe { (*array.as_array_ptr()).fields.flags };
        let usable = flags & NEEDED == NEEDED
            && descr.is_native_byteorder() != Some(false)
            && array.ndim() == 1;
        usable.then_some(Self { array, dtype })
    }

    /// A new array with undefined content, by NumPy, which asks for large pages and caches small blocks.
    pub(crate) fn undefined(py: Python<'py>, len: usize, dtype: DType) -> PyResult<Self> {
        let mut shape = [npy_intp::try_from(len)?];
        // SAFETY: the interpreter is attached. The descriptor is of a built-in type; NewFromDescr steals its reference,
        // reads one length, and returns a new reference that owns its memory, or null with an exception set.
        let array = unsafe {
            let array = PY_ARRAY_API.PyArray_NewFromDescr(
                py,
                npyffi::get_type_object(py, NpyTypes::PyArray_Type),
                PY_ARRAY_API.PyArray_DescrFromType(py, type_number(dtype) as c_int),
                1,
                shape.as_mut_ptr(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                0,
                std::ptr::null_mut(),
            );
            Bound::from_owned_ptr_or_err(py, array)?
        };
        let array = array.cast_into::<PyUntypedArray>()?;
        Ok(Self { array, dtype })
    }

    pub(crate) fn into_any(self) -> Bound<'py, PyAny> {
        self.array.into_any()
    }

    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    /// None if the elements are not of type `T`.
    pub(crate) fn samples_mut<T: Sample>(&mut self) -> Option<&mut [T]> {
        if T::DTYPE != self.dtype {
            return None;
        }
        let len = self.array.len();
        if len == 0 {
            return Some(&mut []);
        }
        // SAFETY: the array is C-contiguous, aligned, writable, 1-D and of T in native byte order, so `len` elements
        // lie at `data`, which is not null; any bytes are a T, and those of `undefined` are written before they are
        // read. `self` refers to the array, so NumPy neither frees nor resizes its memory. Not using a caller's array
        // meanwhile is his documented duty, as for every `out=`; nobody else knows one of `undefined`.
        Some(unsafe {
            let data = (*self.array.as_array_ptr()).fields.data.cast::<T>();
            std::slice::from_raw_parts_mut(data, len)
        })
    }
}
