//! Arrays returned by functions, as buffers.

use std::ptr::NonNull;
use std::sync::Arc;

use isochrony_segment::{Buffer, DType, SegmentError};
use numpy::npyffi;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::array::{PythonOwner, dtype_of};
use crate::errors::{PackageError, Result};

/// Up to this size arrays are copied: keeping one takes as long, and its release has to attach again.
const MAX_COPIED_BYTES: usize = 4096;

pub(crate) struct ReturnedArray<'py> {
    pub(crate) dtype: DType,
    pub(crate) rows: usize,
    /// Values per row; None: 1-D.
    pub(crate) columns: Option<usize>,
    /// C-contiguous, in native byte order.
    array: Bound<'py, PyUntypedArray>,
}

pub(crate) fn references(object: &Bound<'_, PyAny>) -> isize {
    // SAFETY: reads the count of a live object, attached.
    unsafe { pyo3::ffi::Py_REFCNT(object.as_ptr()) }
}

fn owns(flags: i32) -> bool {
    flags & npyffi::NPY_ARRAY_OWNDATA != 0
}

fn no_dtype(name: &str) -> PackageError {
    PackageError::new(
        "SegmentTypeError",
        "unsupported_dtype",
        format!(
            "values of {name} cannot be used in a plan; convert them with .astype(\"float64\")"
        ),
    )
}

impl ReturnedArray<'_> {
    pub(crate) fn dtype_named(name: &str) -> Result<DType> {
        DType::parse(name)
            .map(|(dtype, _)| dtype)
            .map_err(|_| no_dtype(name).into())
    }

    pub(crate) fn shape(shape: &[usize]) -> Result<(usize, Option<usize>)> {
        match *shape {
            [rows] => Ok((rows, None)),
            [rows, columns] => Ok((rows, Some(columns))),
            _ => Err(PackageError::new(
                "SegmentError",
                "not_one_dimensional",
                format!(
                    "an array of {} dimensions was returned; return one value per window (1-D) or one row per window (2-D)",
                    shape.len()
                ),
            )
            .into()),
        }
    }
}

impl<'py> ReturnedArray<'py> {
    /// Copies only values that are not C-contiguous in native byte order.
    pub(crate) fn of(result: Bound<'py, PyAny>) -> Result<Self> {
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
            return Err(no_dtype(&name).into());
        };
        let (rows, columns) = Self::shape(array.shape())?;
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
        Ok(Self {
            dtype,
            rows,
            columns,
            array,
        })
    }

    fn fields(&self) -> (*mut u8, i32, Option<Bound<'py, PyAny>>) {
        // SAFETY: reads fields of the live array's C struct; a base is null or an object that the array refers to.
        unsafe {
            let fields = &(*self.array.as_array_ptr()).fields;
            let base = Bound::from_borrowed_ptr_or_opt(self.array.py(), fields.base);
            (fields.data.cast(), fields.flags, base)
        }
    }

    fn len(&self) -> usize {
        self.array.len() * self.dtype.size()
    }

    fn is_alone(&self) -> bool {
        references(self.array.as_any()) == 1
    }

    /// Whether it owns its memory and is unreachable elsewhere.
    pub(super) fn is_only_holder(&self) -> bool {
        let (_, flags, _) = self.fields();
        // SAFETY: reads a field of the live array's C struct.
        let unseen = unsafe { (*self.array.as_array_ptr()).fields.weakreflist.is_null() };
        unseen && owns(flags) && self.is_alone()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        let (data, ..) = self.fields();
        if self.len() == 0 {
            return &[];
        }
        // SAFETY: the array is C-contiguous with `len` bytes from `data` on, and lives as long as `self`. Not writing
        // meanwhile is the duty of the caller's caller.
        unsafe { std::slice::from_raw_parts(data, self.len()) }
    }

    /// The part of `memory` that the array is a read-only view of.
    pub(crate) fn part_of(&self, memory: &Buffer) -> Option<Buffer> {
        let (data, flags, _) = self.fields();
        let start = data.addr().checked_sub(memory.as_ptr().addr())?;
        let aligned = data.addr().is_multiple_of(self.dtype.size().min(16));
        if self.len() == 0 || flags & npyffi::NPY_ARRAY_WRITEABLE != 0 || !aligned {
            return None;
        }
        memory.slice(start..start.checked_add(self.len())?)
    }

    /// The values to copy, if few and not in memory that a holder of the array could change.
    pub(crate) fn short_bytes(&self) -> Option<&[u8]> {
        let (data, flags, _) = self.fields();
        let len = self.len();
        if !(1..=MAX_COPIED_BYTES).contains(&len) || owns(flags) && !self.is_alone() {
            return None;
        }
        // SAFETY: as in `bytes`; the result is used before the thread detaches, and until then no Python code could
        // write there.
        Some(unsafe { std::slice::from_raw_parts(data, len) })
    }

    /// Copies only a view of writable memory: nobody can change an array that is unreferenced elsewhere, read-only, or
    /// owns its memory and is made read-only here.
    pub(crate) fn adopt(self) -> Result<Buffer> {
        self.adopt_or(|bytes| Buffer::concat([bytes]))
    }

    /// As [`adopt`](Self::adopt); `copy` copies the view.
    pub(crate) fn adopt_or(
        self,
        copy: impl FnOnce(&[u8]) -> std::result::Result<Buffer, SegmentError>,
    ) -> Result<Buffer> {
        let (data, flags, base) = self.fields();
        let len = self.len();
        let Some(data) = NonNull::new(data).filter(|_| len > 0) else {
            return Ok(Buffer::concat([])?);
        };
        let alone = self.is_alone();
        let mut fixed = flags & npyffi::NPY_ARRAY_WRITEABLE == 0 || alone && owns(flags);
        if !fixed && owns(flags) {
            // A later write raises NumPy's error.
            let setflags = self.array.as_any().call_method1("setflags", (false,));
            setflags?;
            fixed = true;
        }
        if let Some(base) = base.filter(|_| alone && !fixed)
            && let Ok(base) = base.cast_into::<PyUntypedArray>()
        {
            // SAFETY: reads a field of a live array's C struct. Two references: the view's and ours.
            fixed = owns(unsafe { (*base.as_array_ptr()).fields.flags })
                && references(base.as_any()) == 2;
        }
        let aligned = data
            .as_ptr()
            .addr()
            .is_multiple_of(self.dtype.size().min(16));
        let owner = Arc::new(PythonOwner::new(self.array.into_any().unbind()));
        // SAFETY: the array is C-contiguous with `len` bytes from `data` on; `owner` holds it, so NumPy neither frees
        // nor resizes the memory. Nobody writes there, or the next line copies the buffer.
        let buffer = unsafe { Buffer::from_owner(owner, data, len) };
        if fixed && aligned {
            return Ok(buffer);
        }
        Ok(copy(buffer.bytes())?)
    }
}
