//! Memory blocks filled by Python functions through arrays.

use isochrony_segment::{Buffer, DType};
use isochrony_tasklets::BlockPool;
use numpy::npyffi::{self, PyArrayObject, npy_intp};
use pyo3::prelude::*;

use super::array::over;
use super::returned_array::{ReturnedArray, references};
use crate::errors::Result;

pub(crate) struct FillableArray {
    array: Py<PyAny>,
    /// The same memory, not read while the array is reachable.
    block: Buffer,
}

impl FillableArray {
    /// Copies a shared block first.
    pub(crate) fn new(py: Python<'_>, mut block: Buffer, dtype: DType) -> Result<Self> {
        let len = block.make_mut()?.len() / dtype.size();
        let flags = npyffi::NPY_ARRAY_WRITEABLE;
        // SAFETY: no larger than the block, owned memory with one reference after `make_mut`. This clone is read only
        // after `fill` found the array unreachable.
        let array = unsafe { over(py, block.clone(), dtype, &mut [len as npy_intp], flags)? };
        Ok(Self {
            array: array.unbind(),
            block,
        })
    }

    pub(crate) fn array<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.array.bind(py).clone()
    }

    pub(crate) fn into_block(self) -> Buffer {
        self.block
    }

    /// The content; a copy if an array or view survives.
    pub(crate) fn fill(self, py: Python<'_>, pool: &BlockPool) -> Result<Buffer> {
        let array = self.array.into_bound(py);
        let object = array.as_ptr().cast::<PyArrayObject>();
        // SAFETY: reads a field of a live array's C struct.
        let unseen = unsafe { (*object).fields.weakreflist.is_null() };
        if unseen && references(&array) == 1 {
            // Also drops the base's reference to the block.
            drop(array);
            return Ok(self.block);
        }
        let copy = pool.copy_of(self.block.bytes())?;
        pool.give(self.block);
        Ok(copy)
    }
}

/// Of a returned array, if it owns its memory and is unreferenced, else a copy.
pub(crate) fn take_memory(array: Bound<'_, PyAny>, pool: &BlockPool) -> Result<Buffer> {
    let returned = ReturnedArray::of(array)?;
    if returned.is_only_holder() {
        return returned.adopt();
    }
    Ok(pool.copy_of(returned.bytes())?)
}
