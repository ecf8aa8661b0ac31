//! Inputs of an instance as Python objects.

use isochrony_flow::operators::in_unit;
use isochrony_flow::{Item, OpError, OpErrorKind, Out, PortType};
use isochrony_segment::{Buffer, DType, StreamId};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::running_instance::RunningInstance;
use crate::memory::{ArrayLender, Block};
use crate::plan::columns::{describe_fields, table};
use crate::plan::function::seen;
use crate::plan::operator_error::raised;

pub(super) fn described_port<'py>(
    py: Python<'py>,
    at: usize,
    port: &PortType,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("kind", port.kind())?;
    dict.set_item("input", at)?;
    for (key, counts) in [("dtype", false), ("stored", true)] {
        let dtype = seen(port, counts).map(|(dtype, _)| dtype.name());
        dict.set_item(key, dtype)?;
    }
    if let Some(stream) = port.stream() {
        dict.set_item("name", &stream.name)?;
        dict.set_item("unit", stream.calibration.unit())?;
        dict.set_item("rate", stream.rate.to_f64())?;
    }
    if let PortType::Frames {
        window, hop, width, ..
    } = port
    {
        dict.set_item("window", window)?;
        dict.set_item("hop", hop)?;
        dict.set_item("width", width)?;
    }
    if let PortType::Rows { fields, .. } = port {
        dict.set_item("fields", describe_fields(*fields))?;
    }
    Ok(dict)
}

impl RunningInstance {
    /// Values, start, end and input number.
    pub(super) fn block<'py>(
        &self,
        py: Python<'py>,
        input: usize,
        item: &Item,
        out: &mut Out<'_>,
    ) -> Result<Bound<'py, PyAny>, OpError> {
        let (values, range) = match item {
            Item::Samples(samples) => {
                let samples = samples.materialise()?;
                let empty = Buffer::concat([])?;
                let own = samples.buffers().next().unwrap_or(&empty);
                let (buffer, dtype) =
                    self.in_unit(own, samples.dtype(), samples.stream_id(), out)?;
                let block = Block {
                    buffer: &buffer,
                    dtype,
                    rows: samples.len() as usize,
                    columns: None,
                    stride: 1,
                };
                (shown(py, &block)?, Some(samples.range()))
            }
            Item::Frames(frames) => {
                let (buffer, dtype) =
                    self.in_unit(frames.buffer(), frames.dtype(), frames.stream_id(), out)?;
                let block = Block {
                    buffer: &buffer,
                    dtype,
                    rows: frames.count() as usize,
                    columns: Some(frames.width()),
                    stride: frames.stride(),
                };
                (shown(py, &block)?, item.range())
            }
            Item::Ranges(ranges) => {
                let ends = ranges.ranges.iter().map(|range| [range.start, range.end]);
                let ends: Vec<[i64; 2]> = ends.collect();
                let block = Block {
                    buffer: &Buffer::copy_of(ends.as_flattened())?,
                    dtype: DType::I64,
                    rows: ends.len(),
                    columns: Some(2),
                    stride: 2,
                };
                (shown(py, &block)?, item.range())
            }
            Item::Rows(rows) => (table(py, rows.batch()).map_err(raised)?, rows.covers()),
            other => {
                return Err(OpErrorKind::WrongItem {
                    expected: "samples, frames, ranges or rows",
                    got: other.kind(),
                }
                .into());
            }
        };
        let (start, end) = range.map_or((None, None), |range| (Some(range.start), Some(range.end)));
        let block = (values, start, end, input).into_pyobject(py);
        Ok(block.map_err(raised)?.into_any())
    }

    fn in_unit(
        &self,
        buffer: &Buffer,
        dtype: DType,
        stream: StreamId,
        out: &mut Out<'_>,
    ) -> Result<(Buffer, DType), OpError> {
        if self.counts || stream.get().calibration.is_identity() {
            return Ok((buffer.clone(), dtype));
        }
        in_unit(buffer, dtype, stream, out)
    }
}

fn shown<'py>(py: Python<'py>, block: &Block<'_>) -> Result<Bound<'py, PyAny>, OpError> {
    let mut lender = ArrayLender::default();
    lender.show(py, block, Clone::clone).map_err(raised)
}
