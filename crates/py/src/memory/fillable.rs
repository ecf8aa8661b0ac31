//! Blocks that Python functions are handed to fill, as arrays.

use isochrony_segment::{Buffer, DType};
use isochrony_tasklets::BlockPool;
use numpy::npyffi::{self, PyArrayObject, npy_intp};
use pyo3::prelude::*;

use super::array::over;
use super::returned::{ReturnedArray, references};
use crate::errors::Result;

/// A block, and the array by which it is filled.
pub(crate) struct FillableArray {
    array: Py<PyAny>,
    /// The same memory, which is not looked into as long as anybody may write there.
    block: Buffer,
}

impl FillableArray {
    /// Hands a block out as a writable 1-D array of all of it, holding what was left in it. Memory that somebody else
    /// refers to is replaced by a copy first.
    pub(crate) fn new(py: Python<'_>, mut block: Buffer, dtype: DType) -> Result<Self> {
        let len = block.make_mut()?.len() / dtype.size();
        let flags = npyffi::NPY_ARRAY_WRITEABLE;
        // SAFETY: the array has no more bytes than the block, which `make_mut` found to be owned memory with one
        // reference. The clone that stays here is not looked into before `fill` found that nobody can reach the array.
        let array = unsafe { over(py, block.clone(), dtype, &mut [len as npy_intp], flags)? };
        Ok(Self {
            array: array.unbind(),
            block,
        })
    }

    pub(crate) fn array<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.array.bind(py).clone()
    }

    /// The block, which whoever kept the array looks into still.
    pub(crate) fn into_block(self) -> Buffer {
        self.block
    }

    /// What was filled in, a block of the pool: who kept the array, or a view of it, keeps the memory, and a copy is taken.
    pub(crate) fn fill(self, py: Python<'_>, pool: &BlockPool) -> Result<Buffer> {
        let array = self.array.into_bound(py);
        let object = array.as_ptr().cast::<PyArrayObject>();
        // SAFETY: reads a field of a live array's C struct.
        let unseen = unsafe { (*object).fields.weakreflist.is_null() };
        if unseen && references(&array) == 1 {
            // With it goes its keeper, and that one's reference.
            drop(array);
            return Ok(self.block);
        }
        let copy = pool.copy_of(self.block.bytes())?;
        pool.give(self.block);
        Ok(copy)
    }
}

/// The memory of an array that a function lets go of: itself if nobody else holds it and it owns it, else a copy in a
/// block of the pool.
pub(crate) fn take_memory(array: Bound<'_, PyAny>, pool: &BlockPool) -> Result<Buffer> {
    let returned = ReturnedArray::of(array)?;
    if returned.is_only_holder() {
        return returned.adopt();
    }
    Ok(pool.copy_of(returned.bytes())?)
}
