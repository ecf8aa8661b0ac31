//! Lends successive blocks to Python functions as arrays.
//!
//! Creating a NumPy array takes longer than calling the function. So an [`ArrayLender`] shows all blocks in one array,
//! as memory borrowed without a reference count. An array still referenced after the call, even by a view, buffer or
//! weak reference, keeps its memory, and the next block gets a new array.

use std::ptr;

use isochrony_segment::{Buffer, DType};
use numpy::npyffi::{PyArray_Descr, PyArrayObject, PyArrayObject_fields, npy_intp};
use pyo3::ffi::{PyObject, PyObject_CallFunctionObjArgs};
use pyo3::prelude::*;

use super::array::{ArrayBase, shaped};
use super::returned_array::references;

/// Rows of `columns` values, `stride` values apart: overlapping windows share samples. Without `columns`: single
/// values.
pub(crate) struct Block<'a> {
    pub(crate) buffer: &'a Buffer,
    pub(crate) dtype: DType,
    pub(crate) rows: usize,
    pub(crate) columns: Option<usize>,
    pub(crate) stride: usize,
}

type Layout = ([npy_intp; 2], [npy_intp; 2], usize);

impl Block<'_> {
    /// Fails if it exceeds the buffer.
    fn layout(&self) -> PyResult<Layout> {
        let size = self.dtype.size();
        let columns = self.columns.unwrap_or(1);
        let needed = (self.rows.saturating_sub(1))
            .checked_mul(self.stride)
            .and_then(|before| before.checked_add(columns))
            .and_then(|values| values.checked_mul(size));
        if self.rows > 0 && needed.is_none_or(|needed| needed > self.buffer.len()) {
            let message = format!(
                "{} rows of {columns} values every {} do not lie in {} bytes",
                self.rows,
                self.stride,
                self.buffer.len()
            );
            return Err(pyo3::exceptions::PyValueError::new_err(message));
        }
        let shape = [self.rows as npy_intp, columns as npy_intp];
        let strides = [(self.stride * size) as npy_intp, size as npy_intp];
        Ok((shape, strides, 1 + usize::from(self.columns.is_some())))
    }
}

struct ReusableArray {
    array: Py<PyAny>,
    keeper: Py<ArrayBase>,
    dtype: DType,
    layout: Layout,
    /// NumPy never frees descriptors of built-in types.
    descr: *mut PyArray_Descr,
    flags: i32,
    aligned: bool,
}

// SAFETY: `descr` is compared, never followed.
unsafe impl Send for ReusableArray {}

impl ReusableArray {
    /// # Safety
    /// Before the borrow of the buffer ends, it is dropped or unreachable, or its keeper has the buffer.
    unsafe fn new(py: Python<'_>, block: &Block<'_>, layout: Layout) -> PyResult<Self> {
        let (mut shape, mut strides, dimensions) = layout;
        let dtype = block.dtype;
        let aligned = aligned(block.buffer, dtype);
        let keeper = Bound::new(py, ArrayBase::default())?;
        let data = block.buffer.as_ptr();
        // SAFETY: `Block::layout` checked that the last value lies in the buffer; the array is read-only; the caller
        // ensures that the keeper gets the buffer in time.
        let array = unsafe {
            let shape = &mut shape[..dimensions];
            shaped(py, &keeper, data, dtype, shape, Some(&mut strides), 0)?
        };
        let fields = fields(&array);
        // SAFETY: reads fields of a live array's C struct.
        let (descr, flags) = unsafe { ((*fields).descr, (*fields).flags) };
        Ok(Self {
            array: array.unbind(),
            keeper: keeper.unbind(),
            dtype,
            layout,
            descr,
            flags,
            aligned,
        })
    }

    fn is_alone(&self, py: Python<'_>) -> bool {
        let array = self.array.bind(py);
        // SAFETY: reads a field of a live array's C struct.
        references(array) == 1 && unsafe { (*fields(array)).weakreflist.is_null() }
    }

    /// Whether the array suits this block and is unchanged: a function may set its shape or dtype.
    fn fits(
        &self,
        py: Python<'_>,
        block: &Block<'_>,
        (shape, strides, dimensions): Layout,
    ) -> bool {
        let fields = fields(self.array.bind(py));
        // SAFETY: the array lives; `dimensions` and `strides` have `nd` values, compared first.
        unsafe {
            (*fields).nd as usize == dimensions
                && (0..dimensions).all(|at| {
                    *(*fields).dimensions.add(at) == shape[at]
                        && *(*fields).strides.add(at) == strides[at]
                })
                && ptr::eq((*fields).descr, self.descr)
                && ptr::eq((*fields).base, self.keeper.as_ptr())
                && (*fields).flags == self.flags
                && self.layout == (shape, strides, dimensions)
                && self.dtype == block.dtype
                && self.aligned == aligned(block.buffer, block.dtype)
        }
    }

    /// Points the array at another block that it fits.
    ///
    /// # Safety
    /// As for `new`; and nobody else can reach the array.
    unsafe fn show(&self, py: Python<'_>, buffer: &Buffer) {
        let data = buffer.as_ptr().cast_mut().cast();
        // SAFETY: the interpreter is attached and nobody else refers to the array, so nobody reads the field. The block
        // lies in the buffer, as the first one.
        unsafe { (*fields(self.array.bind(py))).data = data };
    }
}

fn fields(array: &Bound<'_, PyAny>) -> *mut PyArrayObject_fields {
    let array = array.as_ptr().cast::<PyArrayObject>();
    // SAFETY: the address of a field of a live array.
    unsafe { &raw mut (*array).fields }
}

fn aligned(buffer: &Buffer, dtype: DType) -> bool {
    buffer.as_ptr().addr().is_multiple_of(dtype.align())
}

#[derive(Default)]
pub(crate) struct ArrayLender {
    view: Option<ReusableArray>,
}

/// When dropped, a referenced array keeps the memory.
struct Loan<'a, 'py> {
    py: Python<'py>,
    lender: &'a mut ArrayLender,
    buffer: &'a Buffer,
}

impl Drop for Loan<'_, '_> {
    fn drop(&mut self) {
        let py = self.py;
        // The garbage collector does not track arrays, so nobody reads an unreferenced one: its memory may be freed.
        if let Some(kept) = self.lender.view.take_if(|view| !view.is_alone(py)) {
            kept.keeper.get().keep(self.buffer.clone());
        }
    }
}

impl ArrayLender {
    /// Calls `look` with a read-only array over a block, without a copy. A surviving array keeps the memory.
    pub(crate) fn show<'py, T>(
        &mut self,
        py: Python<'py>,
        block: &Block<'_>,
        look: impl FnOnce(&Bound<'py, PyAny>) -> T,
    ) -> PyResult<T> {
        let layout = block.layout()?;
        let fits = |view: &&ReusableArray| view.is_alone(py) && view.fits(py, block, layout);
        match self.view.as_ref().filter(fits) {
            // SAFETY: it is alone; the loan below keeps the promise, also if `look` panics: only it sees the array.
            Some(view) => unsafe { view.show(py, block.buffer) },
            // SAFETY: as above.
            None => self.view = Some(unsafe { ReusableArray::new(py, block, layout)? }),
        }
        let loan = Loan {
            py,
            lender: self,
            buffer: block.buffer,
        };
        let array = loan.lender.view.as_ref().map(|view| view.array.bind(py));
        // This reference is dropped before the loan.
        let array = array.cloned().unwrap_or_else(|| py.None().into_bound(py));
        Ok(look(&array))
    }
}

pub(crate) fn call<'py>(
    function: &Bound<'py, PyAny>,
    argument: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the interpreter is attached, both objects live, and null ends the arguments. The result is a new
    // reference, or null with an exception set.
    unsafe {
        let end = ptr::null_mut::<PyObject>();
        let result = PyObject_CallFunctionObjArgs(function.as_ptr(), argument.as_ptr(), end);
        Bound::from_owned_ptr_or_err(function.py(), result)
    }
}
