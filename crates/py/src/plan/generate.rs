//! `isochrony.generate`: a recording whose samples a Python iterator yields.

use isochrony_flow::{
    Cause, GeneratedRecording, OpError, OpErrorKind, Plan, PlanError, SEGMENT_SAMPLES,
    SharedRecording,
};
use isochrony_segment::{Calibration, CopyPool, DType, SigSeg, Stream, StreamId};
use isochrony_time::{Fixed, Rate, TimebaseId};
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyTuple};
use serde_json::{Map, Value, json};

use super::function::Function;
use super::imports::Imports;
use super::nesting::Nesting;
use super::operator_error::failed;
use super::owner::ObjectKeeper;
use crate::errors::{Error, PackageError, Result};
use crate::interpreter::attach;
use crate::memory::ReturnedArray;

pub(super) struct Generator {
    pub(super) dtype: DType,
    pub(super) rate: Rate,
    pub(super) unit: String,
    pub(super) start: Option<Fixed>,
}

impl Generator {
    pub(super) fn scan(self, function: Function, segment: Option<u64>) -> Plan {
        Plan::scan_part(
            self.into_recording(function),
            None,
            segment.unwrap_or(SEGMENT_SAMPLES),
        )
    }

    fn into_recording(self, function: Function) -> SharedRecording {
        let Self {
            dtype,
            rate,
            unit,
            start,
        } = self;
        let grid = start.and_then(|start| TimebaseId::grid(start, rate).ok());
        let timebase = grid.unwrap_or(TimebaseId::CIVIL);
        let stream = Stream::new(function.shown.clone(), timebase, rate)
            .with_calibration(Calibration::identity(unit.as_str()))
            .intern();
        let form = move |function: Value| {
            let mut form = Map::new();
            form.insert("generate".into(), function);
            form.insert("dtype".into(), json!(dtype.name()));
            form.insert("rate".into(), json!(rate.to_string()));
            form.insert("unit".into(), json!(unit));
            let start = start.map(|start| start.to_bits().to_string());
            form.insert("start".into(), json!(start));
            form
        };
        let saved = function.saved("generate").ok().map(&form);
        let factory = function.object.clone();
        let mut generated = GeneratedRecording::new(dtype, stream, move || {
            let factory = factory.get()?;
            let nesting = Nesting::current().inside(&factory);
            let begun = attach(|py| -> Result<Py<PyIterator>> {
                let _guard = nesting.enter();
                Ok(factory.bind(py).call0()?.try_iter()?.unbind())
            });
            let iterator = begun.map_err(failed)?;
            let (mut end, mut blocks, mut copies) = (0, 0, CopyPool::default());
            Ok(Box::new(move || {
                attach(|py| {
                    let _guard = nesting.enter();
                    let to = (&mut end, &mut blocks);
                    next(py, &iterator, dtype, stream, to, &mut copies)
                })
            }))
        });
        if let Some(start) = start {
            generated = generated.starting(start);
        }
        if let Some(saved) = saved {
            generated = generated.saved_as(saved);
        }
        let generated = generated.sent_as(move |objects| function.sent(objects).map(&form));
        SharedRecording::new(generated.in_interpreter())
    }

    pub(super) fn from_saved(
        saved: &Map<String, Value>,
        imports: &Imports,
    ) -> std::result::Result<SharedRecording, PlanError> {
        let text = |key: &str| saved.get(key).and_then(Value::as_str).unwrap_or("");
        let unreadable = |why: String| PlanError::Unreadable { why };
        let mut named = Map::new();
        let function = saved.get("generate").cloned().unwrap_or_default();
        named.insert("function".into(), function);
        let rate = Rate::from_decimal_str(text("rate"));
        let start = match saved.get("start").and_then(Value::as_str) {
            Some(bits) => Some(Fixed::from_bits(
                bits.parse()
                    .map_err(|why| unreadable(format!("start: {why}")))?,
            )),
            None => None,
        };
        let generator = Self {
            dtype: DType::parse(text("dtype"))
                .map_err(|why| unreadable(why.to_string()))?
                .0,
            rate: rate.map_err(|why| unreadable(why.to_string()))?,
            unit: text("unit").into(),
            start,
        };
        Ok(generator.into_recording(Function::import(&named, imports)?))
    }
}

/// From an array, which begins at `end`, or a pair (index, array). Sets `end` to the index after it, and counts
/// `blocks`.
fn next(
    py: Python<'_>,
    iterator: &Py<PyIterator>,
    dtype: DType,
    stream: StreamId,
    (end, blocks): (&mut i64, &mut u64),
    copies: &mut CopyPool,
) -> std::result::Result<Option<SigSeg>, OpError> {
    let item = iterator.bind(py).clone().next().transpose();
    let Some(item) = item.map_err(|error| failed(Error::Python(error)))? else {
        return Ok(None);
    };
    let pair = item.cast::<PyTuple>().ok().filter(|pair| pair.len() == 2);
    let pair = pair.map(|pair| pair.extract::<(i64, Bound<'_, PyAny>)>());
    let (start, array) = match pair {
        Some(pair) => pair.map_err(|error| failed(Error::Python(error)))?,
        None => (*end, item),
    };
    let samples = ReturnedArray::of(array).map_err(failed)?;
    let refused = |message: String| Err(OpErrorKind::Failed(Cause::from(message)).into());
    if let Some(columns) = samples.columns {
        return refused(format!(
            "block {blocks} has shape ({}, {columns}), but samples are 1-D; yield one channel, such as block[:, 0]",
            samples.rows
        ));
    }
    if samples.dtype != dtype {
        return refused(format!(
            "block {blocks} has dtype {} where {dtype} was expected; convert it, or state dtype=",
            samples.dtype
        ));
    }
    *blocks += 1;
    let values = samples.adopt_or(|bytes| copies.copy(bytes));
    let values = values.map_err(failed)?;
    let segment = SigSeg::new(values, start, dtype, stream)?;
    *end = segment.end();
    Ok(Some(segment))
}

/// `kept` keeps the function alive.
pub(super) fn function(
    object: Py<PyAny>,
    shown: String,
    import: Option<String>,
    kept: &ObjectKeeper,
) -> Function {
    Function {
        object: kept.keep(object),
        shown,
        import,
    }
}

pub(super) fn dtype(text: &str) -> Result<DType> {
    DType::parse(text)
        .map(|(dtype, _)| dtype)
        .map_err(|error| PackageError::new("PlanError", error.code(), error.to_string()).into())
}
