//! Calls functions compiled by Numba.

use isochrony_segment::DType;
use pyo3::prelude::*;

/// Rows, count, values of a row, stride, results.
type Entry = unsafe extern "C" fn(*const u8, i64, i64, i64, *mut u8) -> i64;

pub(crate) struct CompiledFunction {
    entry: Entry,
    _keeper: Py<PyAny>,
}

impl CompiledFunction {
    /// For rows of one dtype; gives `width` values of another for each.
    pub(crate) fn new(
        function: &Bound<'_, PyAny>,
        given: DType,
        wanted: DType,
        width: usize,
    ) -> PyResult<Self> {
        let compiling = function.py().import("isochrony.functions.compiling")?;
        let arguments = (function, given.name(), wanted.name(), width);
        let keeper = compiling.getattr("compiled")?.call1(arguments)?;
        let address: usize = keeper.getattr("address")?.extract()?;
        // SAFETY: `isochrony.functions.compiling.compiled` gives the address of a C function of this signature, whose
        // code its object keeps, and which sees arrays of `(count - 1) * stride + width` values and of `count` results.
        let entry = unsafe { std::mem::transmute::<usize, Entry>(address) };
        Ok(Self {
            entry,
            _keeper: keeper.unbind(),
        })
    }

    /// Calls the function for `count` rows of `width` values of `size` bytes, `stride` values apart. None if they
    /// exceed `values`, or results of `result` bytes exceed `out`.
    pub(crate) fn call(
        &self,
        values: &[u8],
        [count, width, stride, size]: [usize; 4],
        out: &mut [u8],
        result: usize,
    ) -> Option<i64> {
        let values_needed = count.checked_sub(1)?.checked_mul(stride)?;
        let bytes_needed = values_needed.checked_add(width)?.checked_mul(size)?;
        if bytes_needed > values.len() || count.checked_mul(result)? > out.len() {
            return None;
        }
        let [rows, width, stride] = [count, width, stride].map(|n| n as i64);
        // SAFETY: the lengths were checked above; the code lives as long as `_keeper`. The function takes the
        // interpreter by itself where it reports an exception.
        Some(unsafe { (self.entry)(values.as_ptr(), rows, width, stride, out.as_mut_ptr()) })
    }
}
