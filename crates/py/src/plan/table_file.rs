//! `Plan.sink_parquet` and `Plan.sink_ipc`: files of columns, written by pyarrow.
//!
//! `isochrony.tables.files.TableFile` gets record batches through Arrow's stream interface without a copy; the thread
//! attaches once per batch.

use std::sync::Arc;

use isochrony_flow::arrow::RecordBatch;
use isochrony_flow::{
    BatchEncoder, Cause, Item, OpError, OpErrorKind, PlanError, PortType, SharedFactory,
    SharedRecording, Sink, SinkFactory, SinkWriter,
};
use pyo3::prelude::*;
use serde_json::{Map, Value};

use super::NativePlan;
use super::operator_error::failed;
use crate::errors::{Error, PackageError, Result};
use crate::interpreter::attach;
use crate::table::NativeTable;

struct TableTarget {
    name: &'static str,
    /// `path` and options.
    saved: Map<String, Value>,
}

pub(super) const NAMES: [&str; 2] = ["sink_parquet", "sink_ipc"];

impl TableTarget {
    fn kept(
        name: &str,
        saved: Map<String, Value>,
    ) -> std::result::Result<SharedFactory, PlanError> {
        let known = NAMES.into_iter().find(|known| *known == name);
        let name = known.ok_or_else(|| PlanError::UnknownOperator {
            name: name.into(),
            known: NAMES.join(", "),
        })?;
        Ok(SharedFactory::new(SinkFactory::new(Self { name, saved })))
    }
}

pub(super) fn from_saved(
    name: &str,
    saved: &Map<String, Value>,
) -> std::result::Result<SharedFactory, PlanError> {
    TableTarget::kept(name, saved.clone())
}

fn raised(error: PyErr) -> OpError {
    failed(Error::Python(error))
}

impl Sink for TableTarget {
    fn name(&self) -> &'static str {
        self.name
    }

    fn label(&self) -> String {
        let path = self.saved.get("path").and_then(Value::as_str);
        format!("{}({})", self.name, path.unwrap_or_default())
    }

    fn accepts(&self, port: &PortType) -> std::result::Result<(), PlanError> {
        BatchEncoder::accepts(self.name, port)
    }

    fn open(
        &self,
        port: &PortType,
        reads: Option<&SharedRecording>,
    ) -> std::result::Result<Box<dyn SinkWriter>, OpError> {
        let clock = reads.zip(port.stream());
        let clock = clock.and_then(|(recording, stream)| recording.clock_of(stream));
        // Plans without the option wrote counts.
        let counts = self.saved.get("counts").and_then(Value::as_bool);
        let batches = match counts.unwrap_or(true) {
            true => BatchEncoder::new(port, clock),
            false => BatchEncoder::of_values(port, clock),
        };
        let empty = RecordBatch::new_empty(batches.schema().clone());
        let options = serde_json::to_string(&self.saved);
        let options = options.map_err(|why| OpErrorKind::Failed(Cause::from(why)))?;
        let file = attach(|py| -> PyResult<Py<PyAny>> {
            let class = py.import("isochrony.tables.files")?.getattr("TableFile")?;
            let empty = Bound::new(py, NativeTable::from(empty))?;
            Ok(class.call1((self.name, options, empty))?.unbind())
        });
        Ok(Box::new(TableOut {
            batches,
            file: Arc::new(file.map_err(raised)?),
            finished: false,
        }))
    }

    fn saved(&self) -> std::result::Result<Map<String, Value>, PlanError> {
        Ok(self.saved.clone())
    }
}

struct TableOut {
    batches: BatchEncoder,
    file: Arc<Py<PyAny>>,
    finished: bool,
}

impl SinkWriter for TableOut {
    fn write(&mut self, item: &Item) -> std::result::Result<u64, OpError> {
        if let Some(batch) = self.batches.batch(item)? {
            attach(|py| -> PyResult<()> {
                let batch = Bound::new(py, NativeTable::from(batch))?;
                self.file.call_method1(py, "write", (batch,)).map(drop)
            })
            .map_err(raised)?;
        }
        Ok(0)
    }

    fn commit(&mut self) -> std::result::Result<(), OpError> {
        Ok(())
    }

    fn finish(&mut self) -> std::result::Result<(), OpError> {
        attach(|py| self.file.call_method0(py, "finish")).map_err(raised)?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for TableOut {
    fn drop(&mut self) {
        if !self.finished {
            attach(|py| {
                if let Err(error) = self.file.call_method0(py, "abandon") {
                    // The run has failed already and reports why.
                    error.write_unraisable(py, None);
                }
            });
        }
    }
}

#[pymethods]
impl NativePlan {
    /// Writes to a file of columns; `options` is a JSON object with the path.
    fn table_file(&self, py: Python<'_>, name: &str, options: &str) -> Result<Self> {
        let options = super::parameters(name, options)?;
        let kept = TableTarget::kept(name, options)?;
        self.then_factory(py, kept)
    }

    /// Writes samples to a WAV file; `options` is a JSON object as in saved plans.
    fn wav_file(&self, py: Python<'_>, options: &str) -> Result<Self> {
        let options = super::parameters("sink_wav", options)?;
        let kept = isochrony_flow::WavSink::resolve(&options).map_err(|error| {
            let message = error.to_string();
            Error::from(PackageError::new("OptionError", "bad_option", message))
        })?;
        self.then_factory(py, kept)
    }
}
