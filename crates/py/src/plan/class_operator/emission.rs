//! Converts an instance's output to items.

use arrow_array::RecordBatch;
use isochrony_flow::{Frames, Item, OpError, Out, PortType, Ranges, Rows};
use isochrony_segment::{Buffer, DType, SigSeg};
use pyo3::prelude::*;

use super::running_instance::RunningInstance;
use crate::interpreter::attach;
use crate::memory::ReturnedArray;
use crate::plan::columns::column;
use crate::plan::operator_error::{failed, raised, refused};

/// Output, first index, values.
type EmittedItem<'py> = (u16, Option<i64>, Bound<'py, PyAny>);

impl RunningInstance {
    pub(super) fn call(
        &mut self,
        method: &str,
        arguments: impl for<'py> FnOnce(&Self, Python<'py>) -> Result<Bound<'py, PyAny>, OpError>,
    ) -> Result<Vec<(u16, Item)>, OpError> {
        attach(|py| {
            let _inside = self.inside.enter();
            let arguments = arguments(self, py)?;
            let running = self.running.bind(py);
            let emitted = running.call_method1(method, (arguments,)).map_err(raised)?;
            let emitted: Vec<EmittedItem<'_>> = emitted.extract().map_err(raised)?;
            let mut items = Vec::with_capacity(emitted.len());
            for (output, start, values) in emitted {
                let item = self.item(py, output, start, values)?;
                items.extend(item.map(|item| (output, item)));
            }
            Ok(items)
        })
    }

    fn item(
        &mut self,
        py: Python<'_>,
        output: u16,
        start: Option<i64>,
        values: Bound<'_, PyAny>,
    ) -> Result<Option<Item>, OpError> {
        let at = usize::from(output);
        let Some(&port) = self.outputs.get(at).filter(|_| !self.passes) else {
            let have = if self.passes { 0 } else { self.outputs.len() };
            return Err(refused(format!(
                "got an item for output {output}, but outputs() returned {have} output(s); number them from 0"
            )));
        };
        let start = start.unwrap_or(match self.ends[at] {
            i64::MIN => 0,
            end => end,
        });
        let item: Item = match port {
            PortType::Samples { dtype, stream } => {
                let (values, _) = self.values(values, dtype, None)?;
                SigSeg::new(values, start, dtype, stream)?.into()
            }
            PortType::Frames {
                dtype,
                stream,
                window,
                hop,
                width,
            } => {
                let (values, _) = self.values(values, dtype, Some(width))?;
                let frames = Frames::computed(start, (window, hop), values, dtype, width, stream);
                let wrong = || {
                    refused("the rows of windows are not consecutive; emit them in order".into())
                };
                frames.ok_or_else(wrong)?.into()
            }
            PortType::Ranges { stream } => {
                let (values, _) = self.values(values, DType::I64, Some(2))?;
                let ends = values.samples::<i64>().unwrap_or_default();
                let ranges = ends.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect();
                Item::Ranges(in_order(Ranges { stream, ranges })?)
            }
            PortType::Rows { fields, stream } => {
                let rows = values.len().map_err(raised)?;
                let columns = fields.schema().fields().iter().map(|field| {
                    let values = values.get_item(field.name()).map_err(raised)?;
                    let count = values.len().map_err(raised)?;
                    column(py, values, field, count, "emit")
                });
                let columns = columns.collect::<Result<Vec<_>, OpError>>()?;
                if rows != columns.len() {
                    return Err(refused(format!(
                        "emitted rows of {rows} columns, but outputs() states {}: {}; emit the columns that it states",
                        columns.len(),
                        fields.names()
                    )));
                }
                let batch = RecordBatch::try_new(fields.schema().clone(), columns)?;
                rows_of(batch, start, stream.is_some())?.into()
            }
            PortType::Count => return Ok(None),
            _ => return Ok(None),
        };
        let begins = item.range().map(|range| range.start);
        let empty = item.samples() == 0
            && match &item {
                Item::Rows(rows) => rows.count() == 0,
                Item::Ranges(ranges) => ranges.ranges.is_empty(),
                _ => true,
            };
        if empty {
            return Ok(None);
        }
        if let Some(begins) = begins {
            // Ranges and rows may overlap, but are ordered by start.
            let least = self.min_index.max(self.ends[at]);
            if begins < least {
                return Err(refused(format!(
                    "got an item that begins at index {begins}, but items from index {least} on are expected; emit in order, \
                     and state the largest delay in samples: lag = {}",
                    least
                        .saturating_sub(begins)
                        .saturating_add_unsigned(self.lag)
                )));
            }
            let next = match &item {
                Item::Ranges(ranges) => ranges.ranges.last().map(|range| range.start),
                other => other.extent().map(|(_, next)| next),
            };
            self.ends[at] = next.unwrap_or(begins);
        }
        Ok(Some(item))
    }

    fn values(
        &self,
        values: Bound<'_, PyAny>,
        dtype: DType,
        width: Option<usize>,
    ) -> Result<(Buffer, usize), OpError> {
        let returned = ReturnedArray::of(values).map_err(failed)?;
        let (rows, columns) = (returned.rows, returned.columns);
        let fits = columns == width || columns.is_none() && width == Some(1);
        if returned.dtype != dtype || !fits {
            let shape = |columns: Option<usize>| match columns {
                Some(columns) => format!("(n, {columns})"),
                None => "(n,)".into(),
            };
            return Err(refused(format!(
                "emitted {} of shape {}, but outputs() states {dtype} of shape {}; emit what it states, or change it",
                returned.dtype,
                shape(columns),
                shape(width)
            )));
        }
        Ok((returned.adopt().map_err(failed)?, rows))
    }
}

fn in_order(ranges: Ranges) -> Result<Ranges, OpError> {
    if let Some(range) = ranges.ranges.iter().find(|range| range.end < range.start) {
        return Err(refused(format!(
            "the emitted range [{}, {}] ends before it starts; emit pairs of start and end",
            range.start, range.end
        )));
    }
    let mut pairs = ranges.ranges.windows(2);
    if let Some(pair) = pairs.find(|pair| pair[1].start < pair[0].start) {
        return Err(refused(format!(
            "the starts of the emitted ranges go back, from {} to {}; emit them in order",
            pair[0].start, pair[1].start
        )));
    }
    Ok(ranges)
}

fn rows_of(batch: RecordBatch, start: i64, indexed: bool) -> Result<Rows, OpError> {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    if !indexed {
        return Ok(Rows::without_index(batch));
    }
    let ends = |name: &str| {
        let column = batch.column_by_name(name)?;
        Some(column.as_primitive_opt::<Int64Type>()?.values().clone())
    };
    let (starts, ends) = (ends("start"), ends("end"));
    let ordered = |starts: &[i64]| starts.windows(2).all(|pair| pair[0] <= pair[1]);
    if starts.as_ref().is_some_and(|starts| !ordered(starts)) {
        let message = "the column \"start\" of the emitted rows goes back; emit rows in order";
        return Err(refused(message.into()));
    }
    let first = starts.as_ref().and_then(|starts| starts.first().copied());
    let last = starts.as_ref().and_then(|starts| starts.last().copied());
    let end = ends.as_ref().and_then(|ends| ends.iter().max().copied());
    let start = first.unwrap_or(start);
    let next = last.unwrap_or(start);
    Ok(Rows::new(batch, start..end.unwrap_or(next).max(next), next))
}

pub(super) fn emit(items: Vec<(u16, Item)>, out: &mut Out<'_>) -> Result<(), OpError> {
    for (output, mut item) in items {
        out.emit(output, &mut item)?;
    }
    Ok(())
}
