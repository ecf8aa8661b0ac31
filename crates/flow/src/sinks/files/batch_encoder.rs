//! Encodes items as Arrow record batches, for columnar files.
//!
//! | items | columns |
//! |---|---|
//! | rows | the fields |
//! | samples | `index`, `time`, and one named by the last part of the signal's name |
//! | windows | `start`, `end`, `time`, and `value`, or a list `values` if a window has several |
//! | ranges | `start`, `end`, `time` |
//!
//! Times are timestamps in ns, UTC; without civil time there is no column. The schema's metadata has
//! `isochrony.signal`, `isochrony.rate` (exact, in Hz), `isochrony.timebase`, `isochrony.unit` and, for counts,
//! `isochrony.scale` and `isochrony.offset`; a column's has its `unit`.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::MutableBuffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use isochrony_segment::{Buffer, Sample, SigSeg, Stream, dispatch};

use crate::operators::rows::{integer, times};
use crate::operators::wrong_input;
use crate::plan::rows::columns::{column_from_bytes, list_column};
use crate::plan::rows::{END, START, TIME};
use crate::{Clock, Fields, Frames, Item, OpError, OpErrorKind, PlanError, PortType};

const INDEX: &str = "index";

/// Encodes the items of a port.
pub struct BatchEncoder {
    schema: SchemaRef,
    port: PortType,
    clock: Option<Arc<dyn Clock>>,
    calibrates: bool,
}

impl BatchEncoder {
    /// Checks that a port's items have columns.
    ///
    /// # Errors
    /// [`PlanError::InputType`] for a count, a single number.
    pub fn accepts(operator: &'static str, port: &PortType) -> Result<(), PlanError> {
        match port {
            PortType::Count => Err(wrong_input(
                operator,
                "samples, windows, ranges or rows",
                port,
                "collect() gives a count",
            )),
            _ => Ok(()),
        }
    }

    /// `clock`: of the recording of the items' indices.
    #[must_use]
    pub fn new(port: &PortType, clock: Option<Arc<dyn Clock>>) -> Self {
        let stream = port.stream();
        let whole = |name: &str| Field::new(name, DataType::Int64, false);
        let time = clock
            .as_ref()
            .map(|_| Field::new(TIME, Fields::civil(), true));
        let unit = |field: Field| match stream.map(|stream| stream.calibration.unit()) {
            Some(unit) if !unit.is_empty() && !counts(port, stream) => {
                field.with_metadata(HashMap::from([("unit".to_owned(), unit.to_owned())]))
            }
            _ => field,
        };
        let mut fields: Vec<Field> = Vec::new();
        match *port {
            PortType::Samples { dtype, .. } => {
                fields.push(whole(INDEX));
                fields.extend(time);
                let name = stream.map_or("", |stream| &*stream.name);
                let name = match name.rsplit('/').next().unwrap_or_default() {
                    "" | INDEX | TIME => "value",
                    name => name,
                };
                fields.push(unit(Field::new(name, Fields::arrow_type(dtype), false)));
            }
            PortType::Frames { dtype, width, .. } => {
                fields.extend([whole(START), whole(END)]);
                fields.extend(time);
                let value = Fields::arrow_type(dtype);
                let field = match i32::try_from(width).unwrap_or(i32::MAX) {
                    1 => Field::new("value", value, false),
                    width => {
                        let item = Arc::new(Field::new("item", value, false));
                        Field::new("values", DataType::FixedSizeList(item, width), false)
                    }
                };
                fields.push(unit(field));
            }
            PortType::Ranges { .. } => {
                fields.extend([whole(START), whole(END)]);
                fields.extend(time);
            }
            PortType::Rows { fields: rows, .. } => {
                let known = rows.schema().fields().iter();
                fields.extend(known.map(|field| field.as_ref().clone()));
            }
            PortType::Count => {}
        }
        let metadata = stream.map_or_else(HashMap::new, |stream| metadata(port, stream));
        Self {
            schema: Arc::new(Schema::new_with_metadata(fields, metadata)),
            port: *port,
            clock,
            calibrates: false,
        }
    }

    /// As [`new`](Self::new), with counts converted to values in their unit.
    #[must_use]
    pub fn of_values(port: &PortType, clock: Option<Arc<dyn Clock>>) -> Self {
        Self {
            calibrates: Self::gives_counts(port),
            ..Self::new(&in_unit(port), clock)
        }
    }

    /// Whether a port's items are calibrated counts.
    #[must_use]
    pub fn gives_counts(port: &PortType) -> bool {
        counts(port, port.stream())
    }

    /// Columns and metadata.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Converts an item; None if it is empty.
    ///
    /// # Errors
    /// A time outside the range of nanoseconds since 1970.
    pub fn batch(&self, item: &Item) -> Result<Option<RecordBatch>, OpError> {
        let columns = match item {
            Item::Rows(rows) => rows.batch().columns().to_vec(),
            Item::Samples(samples) => self.samples(samples)?,
            Item::Frames(frames) => self.frames(frames)?,
            Item::Ranges(ranges) => {
                let starts: Vec<i64> = ranges.ranges.iter().map(|range| range.start).collect();
                let ends = ranges.ranges.iter().map(|range| range.end).collect();
                self.indices(starts, Some(ends))?
            }
            Item::Partial(_) | Item::Taken => Vec::new(),
        };
        if columns.first().is_none_or(|column| column.is_empty()) {
            return Ok(None);
        }
        let batch = RecordBatch::try_new(self.schema.clone(), columns);
        Ok(Some(batch.map_err(OpErrorKind::from)?))
    }

    fn indices(&self, starts: Vec<i64>, ends: Option<Vec<i64>>) -> Result<Vec<ArrayRef>, OpError> {
        let times = self.clock.as_deref().map(|clock| times(clock, &starts));
        let mut columns = vec![integer(starts)];
        columns.extend(ends.map(integer));
        if let Some(times) = times {
            columns.push(Arc::new(times?));
        }
        Ok(columns)
    }

    fn samples(&self, samples: &SigSeg) -> Result<Vec<ArrayRef>, OpError> {
        let mut columns = self.indices(samples.range().collect(), None)?;
        let samples = &match self.calibrates {
            true => samples.to_physical()?,
            false => samples.clone(),
        };
        let mut values =
            MutableBuffer::with_capacity(samples.len() as usize * samples.dtype().size());
        for buffer in samples.buffers() {
            values.extend_from_slice(buffer.bytes());
        }
        columns.push(column_from_bytes(samples.dtype(), values, None).map_err(OpErrorKind::from)?);
        Ok(columns)
    }

    fn frames(&self, frames: &Frames) -> Result<Vec<ArrayRef>, OpError> {
        let starts: Vec<i64> = (0..frames.count())
            .map(|k| frames.window_start(k))
            .collect();
        let end = |start: &i64| start.saturating_add_unsigned(frames.window());
        let ends = starts.iter().map(end).collect();
        let mut columns = self.indices(starts, Some(ends))?;
        let PortType::Frames { dtype, width, .. } = self.port else {
            return Err(wrong());
        };
        let mut samples = SigSeg::new(
            frames.buffer().clone(),
            0,
            frames.dtype(),
            frames.stream_id(),
        )?;
        if self.calibrates {
            samples = samples.to_physical()?;
        }
        if frames.width() != width {
            // A column of fixed-size lists has no room for it.
            return Err(OpErrorKind::ShortWindow {
                got: frames.width(),
                width,
            }
            .into());
        }
        if samples.dtype() != dtype {
            return Err(wrong());
        }
        let (row, stride) = (width * dtype.size(), frames.stride() * dtype.size());
        let mut values = MutableBuffer::with_capacity(frames.count() as usize * row);
        let bytes = samples.buffers().next().map_or(&[][..], Buffer::bytes);
        if row == stride {
            values.extend_from_slice(bytes);
        } else {
            for at in (0..frames.count() as usize).map(|k| k * stride) {
                values.extend_from_slice(&bytes[at..at + row]);
            }
        }
        let made = match i32::try_from(width) {
            Ok(1) => column_from_bytes(dtype, values, None),
            width => list_column(dtype, width.unwrap_or(i32::MAX), values),
        };
        columns.push(made.map_err(OpErrorKind::from)?);
        Ok(columns)
    }
}

fn wrong() -> OpError {
    OpErrorKind::WrongItem {
        expected: "what the file's columns are made for",
        got: "another",
    }
    .into()
}

fn counts(port: &PortType, stream: Option<&Stream>) -> bool {
    let stored = matches!(port, PortType::Samples { .. } | PortType::Frames { .. });
    stored && stream.is_some_and(|stream| !stream.calibration.is_identity())
}

fn in_unit(port: &PortType) -> PortType {
    let mut port = *port;
    if let PortType::Samples { dtype, stream } | PortType::Frames { dtype, stream, .. } = &mut port
        && !stream.get().calibration.is_identity()
    {
        *dtype = dispatch!(*dtype, T => <<T as Sample>::Physical as Sample>::DTYPE);
        *stream = stream.physical();
    }
    port
}

fn metadata(port: &PortType, stream: &Stream) -> HashMap<String, String> {
    let mut all = vec![
        ("signal", stream.name.to_string()),
        ("rate", stream.rate.to_string()),
        ("timebase", stream.timebase.0.to_string()),
        ("unit", stream.calibration.unit().to_owned()),
    ];
    if counts(port, Some(stream)) {
        all.push(("scale", stream.calibration.scale().to_string()));
        all.push(("offset", stream.calibration.offset().to_string()));
    }
    if let PortType::Frames { window, hop, .. } = port {
        all.push(("window", window.to_string()));
        all.push(("hop", hop.to_string()));
    }
    let all = all.into_iter().filter(|(_, value)| !value.is_empty());
    all.map(|(key, value)| (format!("isochrony.{key}"), value))
        .collect()
}
