//! A port type for another process: interned parts, such as streams and fields, travel by value.

use std::collections::HashMap;

use arrow_ipc::convert::{IpcSchemaEncoder, try_fb_to_schema};
use arrow_ipc::root_as_schema;
use isochrony_segment::{Calibration, DType, Stream, StreamId};
use isochrony_time::{Rate, TimeError, TimebaseDefinition, TimebaseId};
use serde::{Deserialize, Serialize};

use crate::{Fields, PortType};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PortForm {
    items: ItemsForm,
    stream: Option<StreamForm>,
}

#[derive(Debug, Serialize, Deserialize)]
enum ItemsForm {
    Samples(DType),
    Frames {
        dtype: DType,
        window: u64,
        hop: u64,
        width: usize,
    },
    Ranges,
    Rows(Vec<u8>),
}

#[derive(Debug, Serialize, Deserialize)]
struct StreamForm {
    name: String,
    /// Equal for equal timebases of the sending process.
    timebase: u32,
    definition: TimebaseDefinition,
    /// The original timebase, if resampled.
    origin: Option<TimebaseDefinition>,
    rate: Rate,
    /// Scale and offset, as bits: decimal numbers are rounded.
    calibration: (u64, u64),
    unit: String,
}

/// Timebases of this process, by number in the sending one.
pub(super) type Timebases = HashMap<u32, TimebaseId>;

impl PortForm {
    /// None for a count.
    pub(super) fn of(port: PortType) -> Option<Self> {
        let items = match port {
            PortType::Samples { dtype, .. } => ItemsForm::Samples(dtype),
            PortType::Frames {
                dtype,
                window,
                hop,
                width,
                ..
            } => ItemsForm::Frames {
                dtype,
                window,
                hop,
                width,
            },
            PortType::Ranges { .. } => ItemsForm::Ranges,
            PortType::Rows { fields, .. } => {
                let mut encoder = IpcSchemaEncoder::new();
                let schema = encoder.schema_to_fb(fields.schema());
                ItemsForm::Rows(schema.finished_data().to_vec())
            }
            PortType::Count => return None,
        };
        Some(Self {
            items,
            stream: port.stream().map(StreamForm::of),
        })
    }

    pub(super) fn port(&self, timebases: &mut Timebases) -> Result<PortType, String> {
        let stream = self.stream.as_ref();
        let stream = stream.map(|form| form.stream(timebases)).transpose()?;
        let needed = || stream.ok_or_else(|| "its stream is missing".to_owned());
        Ok(match &self.items {
            &ItemsForm::Samples(dtype) => PortType::Samples {
                dtype,
                stream: needed()?,
            },
            &ItemsForm::Frames {
                dtype,
                window,
                hop,
                width,
            } => PortType::Frames {
                dtype,
                stream: needed()?,
                window,
                hop,
                width,
            },
            ItemsForm::Ranges => PortType::Ranges { stream: needed()? },
            ItemsForm::Rows(schema) => {
                let schema = root_as_schema(schema).map_err(|why| why.to_string())?;
                let schema = try_fb_to_schema(schema).map_err(|why| why.to_string())?;
                PortType::Rows {
                    fields: Fields::of(schema),
                    stream,
                }
            }
        })
    }
}

impl StreamForm {
    fn of(stream: &Stream) -> Self {
        let definition = stream.timebase.definition();
        let origin = match definition {
            TimebaseDefinition::Resampled { origin, .. } => Some(origin.definition()),
            _ => None,
        };
        Self {
            name: stream.name.clone(),
            timebase: stream.timebase.0,
            definition,
            origin,
            rate: stream.rate,
            calibration: (
                stream.calibration.scale().to_bits(),
                stream.calibration.offset().to_bits(),
            ),
            unit: stream.calibration.unit().to_owned(),
        }
    }

    fn stream(&self, timebases: &mut Timebases) -> Result<StreamId, String> {
        let text = |why: TimeError| why.to_string();
        let mut known = |number: u32, definition: TimebaseDefinition| match definition {
            TimebaseDefinition::Global(timebase) => Ok(timebase),
            TimebaseDefinition::Grid { start, rate } => TimebaseId::grid(start, rate).map_err(text),
            TimebaseDefinition::Unique => match timebases.get(&number) {
                Some(&timebase) => Ok(timebase),
                None => {
                    let new = TimebaseId::unique().map_err(text)?;
                    timebases.insert(number, new);
                    Ok(new)
                }
            },
            TimebaseDefinition::Resampled { .. } => Err("its timebase has no origin".into()),
        };
        let timebase = match (self.definition, self.origin) {
            (TimebaseDefinition::Resampled { origin, ratio }, Some(definition)) => {
                known(origin.0, definition)?
                    .resampled(ratio)
                    .map_err(text)?
            }
            (definition, _) => known(self.timebase, definition)?,
        };
        let (scale, offset) = self.calibration;
        let (scale, offset) = (f64::from_bits(scale), f64::from_bits(offset));
        let calibration = Calibration::new(scale, offset, self.unit.clone());
        let calibration = calibration.map_err(|why| why.to_string())?;
        let stream = Stream::new(self.name.clone(), timebase, self.rate);
        Ok(stream.with_calibration(calibration).intern())
    }
}
