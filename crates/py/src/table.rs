//! Tables of rows: the native half of `isochrony.Table`.

use isochrony_flow::arrow::RecordBatch;
use isochrony_flow::arrow::array::Array;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::errors::{PackageError, Result};
use crate::memory;

/// Rows of a plan as Arrow; `isochrony.Table`, its public class, wraps it.
#[pyclass(frozen, module = "isochrony._native")]
pub(crate) struct NativeTable {
    batch: RecordBatch,
}

impl From<RecordBatch> for NativeTable {
    fn from(batch: RecordBatch) -> Self {
        Self { batch }
    }
}

#[pymethods]
impl NativeTable {
    /// Names of the columns, in order.
    #[getter]
    fn names(&self) -> Vec<&str> {
        let fields = self.batch.schema_ref().fields().iter();
        fields.map(|field| field.name().as_str()).collect()
    }

    /// Unit of each column that has one.
    #[getter]
    fn units<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let units = PyDict::new(py);
        for field in self.batch.schema_ref().fields() {
            if let Some(unit) = field.metadata().get("unit") {
                units.set_item(field.name(), unit.to_string())?;
            }
        }
        Ok(units)
    }

    /// Number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// A column as a read-only array; numbers and times are not copied.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> Result<Bound<'py, PyAny>> {
        let Some(column) = self.batch.column_by_name(name) else {
            return Err(PackageError::new(
                "PlanError",
                "unknown_field",
                format!(
                    "the table has no column {name:?}; it has {}",
                    self.names().join(", ")
                ),
            )
            .into());
        };
        memory::column(py, column.as_ref() as &dyn Array)
    }

    /// Arrow's schema interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyCapsule>> {
        memory::schema_capsule(py, self.batch.schema_ref())
    }

    /// Arrow's stream interface: one block, not copied.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        memory::stream_capsule(py, &self.batch)
    }
}
