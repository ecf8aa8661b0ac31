//! Results of runs: numbers, arrays over the engine's memory, tables.

use isochrony_flow::{Plan, PlanOutput};
use isochrony_segment::{BufferMut, DType};
use pyo3::prelude::*;

use crate::errors::{PackageError, Result};
use crate::memory;
use crate::table::NativeTable;

/// A result; for an array also start index and row count of each contiguous part.
pub(crate) type GatheredObject<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>);

pub(crate) fn object<'py>(
    py: Python<'py>,
    plan: &Plan,
    gathered: PlanOutput,
) -> Result<GatheredObject<'py>> {
    let object = match gathered {
        PlanOutput::Count(count) => Ok(count.into_pyobject(py).map_err(PyErr::from)?.into_any()),
        PlanOutput::Array(array) => {
            // Fits: the rows were in memory.
            let columns = array.shape.get(1).map(|&columns| columns as usize);
            let mut parts = BufferMut::zeroed_samples::<i64>(2 * array.parts.len())?;
            let pairs = parts.samples_mut::<i64>().chunks_exact_mut(2);
            for (pair, (start, rows)) in pairs.zip(array.parts) {
                pair.copy_from_slice(&[start, rows.cast_signed()]);
            }
            let parts = memory::own(py, parts, DType::I64, Some(2))?;
            let object = memory::gathered(py, array.bytes, array.dtype, columns)?;
            return Ok((object, Some(parts)));
        }
        PlanOutput::Ranges(ranges) => {
            let mut ends = BufferMut::zeroed_samples::<i64>(2 * ranges.len())?;
            for (pair, range) in ends.samples_mut::<i64>().chunks_exact_mut(2).zip(ranges) {
                pair.copy_from_slice(&[range.start, range.end]);
            }
            Ok(memory::own(py, ends, DType::I64, Some(2))?)
        }
        PlanOutput::Rows(batch) => Ok(Bound::new(py, NativeTable::from(batch))?.into_any()),
        _ => Err(PackageError::new(
            "PlanError",
            "input_type",
            format!(
                "{} cannot be gathered; end the plan with count",
                plan.port()
            ),
        )
        .into()),
    };
    object.map(|object| (object, None))
}
