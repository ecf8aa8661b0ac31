//! Python functions in plans: `isochrony.py` as a map or a filter, and `Plan.each`.
//!
//! The run's thread attaches to the interpreter once a block, shows it the block as an array without a copy, and takes
//! over the array that comes back. A function that can be imported is saved by module and name.

use std::sync::Arc;

use isochrony_flow::ops::{dtype_in_unit, in_unit, pass_where};
use isochrony_flow::{
    Bound as BoundOp, Cause, Contract, Frames, Held, Item, Kept, Live, Next, OpError, OpErrorKind,
    Operator, Out, PlanError, Port, PortType,
};
use isochrony_segment::{Bool8, Calibration, DType, SigSeg, StreamId};
use pyo3::prelude::*;
use serde_json::{Map, Value, json};

use crate::errors::Error;
use crate::memory;

/// What becomes of what the function returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// One bool a window: which of them pass.
    Filter,
    /// Values of this type, so many a window (samples: one each).
    Map(DType, usize),
    /// Nothing.
    Each,
}

/// A Python function, and how plans name it.
#[derive(Clone)]
pub(super) struct Function {
    pub(super) object: Arc<Py<PyAny>>,
    /// As printed.
    pub(super) shown: String,
    /// `module:name`, if it can be imported by that.
    pub(super) import: Option<String>,
}

impl Function {
    /// As a saved plan has it.
    pub(super) fn saved(&self, operator: &str) -> Result<Value, PlanError> {
        self.import
            .as_ref()
            .map(|name| json!(name))
            .ok_or_else(|| PlanError::NotSaveable {
                operator: format!("{operator}({})", self.shown),
                what: "a Python function that cannot be imported by name",
                mend: "define it with def at the top of a module that can be imported",
            })
    }

    /// A saved function, imported.
    pub(super) fn import(saved: &Map<String, Value>) -> Result<Self, PlanError> {
        let name = saved.get("function").and_then(Value::as_str).unwrap_or("");
        Python::attach(|py| -> PyResult<Self> {
            let functions = py.import("isochrony.functions")?;
            let object = functions.getattr("imported")?.call1((name,))?;
            let shown = functions.getattr("shown")?.call1((&object,))?.extract()?;
            Ok(Self {
                object: Arc::new(object.unbind()),
                shown,
                import: Some(name.into()),
            })
        })
        .map_err(|error| PlanError::Unreadable {
            why: format!("function {name:?} cannot be imported ({error}); install its module, or set PYTHONPATH"),
        })
    }
}

/// An operator that calls a Python function.
#[derive(Clone)]
pub(super) struct PythonOperator {
    pub(super) function: Function,
    pub(super) how: Use,
    /// Counts instead of values in the unit.
    pub(super) counts: bool,
    /// Stream of what comes out.
    pub(super) stream: Option<StreamId>,
}

impl PythonOperator {
    pub(super) fn kept(function: Function, how: Use, counts: bool) -> Kept {
        Kept::new(Self {
            function,
            how,
            counts,
            stream: None,
        })
    }

    /// A saved one.
    pub(super) fn revive(saved: &Map<String, Value>, how: &str) -> Result<Kept, PlanError> {
        let unreadable = |why: String| PlanError::Unreadable { why };
        let counts = saved.get("counts").and_then(Value::as_bool);
        let kind = saved.get("as").and_then(Value::as_str).unwrap_or(how);
        let how = match kind {
            "filter" => Use::Filter,
            "each" => Use::Each,
            "map" => {
                let dtype = saved.get("dtype").and_then(Value::as_str).unwrap_or("");
                let dtype = DType::parse(dtype).map_err(|why| unreadable(why.to_string()))?;
                let width = saved.get("width").and_then(Value::as_u64);
                Use::Map(dtype.0, width.unwrap_or(1) as usize)
            }
            other => return Err(unreadable(format!("a function used as {other:?}"))),
        };
        Ok(Self::kept(
            Function::import(saved)?,
            how,
            counts.unwrap_or(false),
        ))
    }

    fn wrong_input(&self, port: &PortType, expected: &'static str) -> PlanError {
        PlanError::InputType {
            operator: self.name(),
            expected,
            got: port.to_string(),
            mend: "put rewindow(...) before it",
        }
    }

    /// Values as the function sees them.
    fn values(
        &self,
        buffer: &isochrony_segment::Buffer,
        dtype: DType,
        stream: StreamId,
        out: &mut Out<'_>,
    ) -> Result<(isochrony_segment::Buffer, DType), OpError> {
        if self.counts {
            return Ok((buffer.clone(), dtype));
        }
        in_unit(buffer, dtype, stream, out)
    }

    fn of_frames(&self, frames: &Frames, out: &mut Out<'_>) -> Result<Called, OpError> {
        let (values, dtype) =
            self.values(frames.buffer(), frames.dtype(), frames.stream_id(), out)?;
        let (count, width) = (frames.count() as usize, frames.width());
        self.call(frames.start(), |py| {
            memory::rows(py, values, dtype, count, width, frames.stride())
        })
    }

    fn of_samples(&self, samples: &SigSeg, out: &mut Out<'_>) -> Result<Called, OpError> {
        let joined = samples.materialise()?;
        let Some(buffer) = joined.buffers().next() else {
            return Ok(None);
        };
        let (values, dtype) = self.values(buffer, samples.dtype(), samples.stream_id(), out)?;
        self.call(samples.start(), |py| memory::view(py, values, dtype))
    }

    fn call(
        &self,
        start: i64,
        argument: impl for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>>,
    ) -> Result<Called, OpError> {
        Python::attach(|py| -> crate::errors::Result<Called> {
            let function = self.function.object.bind(py);
            let argument = argument(py)?;
            if self.how == Use::Each {
                function.call1((argument, start))?;
                return Ok(None);
            }
            memory::returned(function.call1((argument,))?).map(Some)
        })
        .map_err(failed)
    }

    /// Whether what came back is what was promised.
    fn check(
        &self,
        returned: &memory::Returned,
        dtype: DType,
        rows: usize,
        columns: Option<usize>,
    ) -> Result<(), OpError> {
        let shape = |rows: usize, columns: Option<usize>| match columns {
            Some(columns) => format!("({rows}, {columns})"),
            None => format!("({rows},)"),
        };
        let flat = returned.columns.is_none() && columns == Some(1);
        if returned.dtype == dtype && returned.rows == rows && (flat || returned.columns == columns)
        {
            return Ok(());
        }
        let either = if columns == Some(1) {
            format!("{} or ", shape(rows, None))
        } else {
            String::new()
        };
        let message = format!(
            "{} returned {} of shape {} for {rows} rows, where {dtype} of shape {either}{} was promised; {}",
            self.function.shown,
            returned.dtype,
            shape(returned.rows, returned.columns),
            shape(rows, columns),
            if self.how == Use::Filter {
                "return one bool a window"
            } else {
                "return that, or state dtype= and width= in isochrony.py"
            }
        );
        Err(OpErrorKind::Failed(Cause::from(message)).into())
    }
}

/// What came back, where the function gives something.
type Called = Option<memory::Returned>;

/// An exception as an operator's error; it becomes the cause of the run's.
pub(super) fn failed(error: Error) -> OpError {
    let cause: Cause = match error {
        Error::Python(error) => Box::new(error),
        Error::Ours(raised) => raised.message().to_owned().into(),
    };
    OpErrorKind::Failed(cause).into()
}

impl Held for PythonOperator {
    fn name(&self) -> &'static str {
        if self.how == Use::Each { "each" } else { "py" }
    }

    fn label(&self) -> String {
        let shown = &self.function.shown;
        match self.how {
            Use::Filter => format!("filter(py({shown}))"),
            Use::Map(..) => format!("map(py({shown}))"),
            Use::Each => format!("each({shown})"),
        }
    }

    fn make(&self, _: Option<&Live>) -> Result<Box<dyn Operator>, PlanError> {
        Ok(Box::new(self.clone()))
    }

    fn saved(&self) -> Result<Map<String, Value>, PlanError> {
        let mut saved = Map::new();
        saved.insert("function".into(), self.function.saved(self.name())?);
        let how = match self.how {
            Use::Filter => "filter",
            Use::Map(..) => "map",
            Use::Each => "each",
        };
        saved.insert("as".into(), json!(how));
        if let Use::Map(dtype, width) = self.how {
            saved.insert("dtype".into(), json!(dtype.name()));
            saved.insert("width".into(), json!(width));
        }
        saved.insert("counts".into(), json!(self.counts));
        Ok(saved)
    }
}

/// The same stream in no known unit.
pub(super) fn unitless(stream: StreamId) -> StreamId {
    let stream = stream.get().clone();
    stream.with_calibration(Calibration::default()).intern()
}

impl Operator for PythonOperator {
    fn bind(&mut self, inputs: &[PortType]) -> Result<BoundOp, PlanError> {
        let [port] = inputs else {
            return Err(PlanError::Inputs {
                operator: self.name(),
                expected: "1".into(),
                got: inputs.len(),
            });
        };
        self.stream = port.stream_id().map(unitless);
        let bound = match (self.how, *port, self.stream) {
            (Use::Each, ..) => BoundOp::new([*port]).contract(Contract::Sequential),
            (Use::Filter, PortType::Frames { .. }, _) => BoundOp::new([*port]).data_dependent(),
            (Use::Map(dtype, width), PortType::Frames { window, hop, .. }, Some(stream)) => {
                BoundOp::new([PortType::Frames {
                    dtype,
                    stream,
                    window,
                    hop,
                    width,
                }])
            }
            (Use::Map(dtype, _), PortType::Samples { .. }, Some(stream)) => {
                BoundOp::new([PortType::Samples { dtype, stream }])
            }
            (Use::Filter, ..) => return Err(self.wrong_input(port, "windows")),
            _ => return Err(self.wrong_input(port, "samples or windows")),
        };
        Ok(bound.in_interpreter())
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        match (&*item, self.how) {
            (Item::Frames(frames), Use::Filter) => {
                let count = frames.count() as usize;
                let Some(flags) = self.of_frames(frames, out)? else {
                    return Ok(Next::Taken);
                };
                self.check(&flags, DType::Bool, count, Some(1))?;
                pass_where(
                    frames,
                    flags.buffer.samples::<Bool8>().unwrap_or_default(),
                    out,
                )
            }
            (Item::Frames(frames), Use::Map(dtype, width)) => {
                let (count, stream) = (frames.count() as usize, self.stream);
                if let (Some(rows), Some(stream)) = (self.of_frames(frames, out)?, stream) {
                    self.check(&rows, dtype, count, Some(width))?;
                    if let Some(rows) = frames.with_rows(rows.buffer, dtype, width, stream) {
                        *item = rows.into();
                    }
                }
                Ok(Next::Tail)
            }
            (Item::Samples(samples), Use::Map(dtype, _)) => {
                let (count, stream) = (samples.len() as usize, self.stream);
                if let (Some(values), Some(stream)) = (self.of_samples(samples, out)?, stream) {
                    self.check(&values, dtype, count, None)?;
                    *item = SigSeg::new(values.buffer, samples.start(), dtype, stream)?.into();
                }
                Ok(Next::Tail)
            }
            (Item::Frames(frames), Use::Each) => {
                self.of_frames(frames, out)?;
                Ok(Next::Tail)
            }
            (Item::Samples(samples), Use::Each) => {
                self.of_samples(samples, out)?;
                Ok(Next::Tail)
            }
            (Item::Ranges(ranges), Use::Each) => {
                let ends: Vec<[i64; 2]> = ranges
                    .ranges
                    .iter()
                    .map(|range| [range.start, range.end])
                    .collect();
                let start = ends.first().map_or(0, |first| first[0]);
                let buffer = isochrony_segment::Buffer::copy_of(ends.as_flattened())?;
                self.call(start, |py| {
                    memory::rows(py, buffer, DType::I64, ends.len(), 2, 2)
                })?;
                Ok(Next::Tail)
            }
            (other, _) => Err(OpErrorKind::WrongItem {
                expected: "samples or frames",
                got: other.kind(),
            }
            .into()),
        }
    }
}

/// Type and width of a window's values as a function sees them; 0 values of samples without windows.
pub(super) fn seen(port: &PortType, counts: bool) -> Option<(DType, usize)> {
    let (dtype, stream) = (port.dtype()?, port.stream_id()?);
    let dtype = if counts {
        dtype
    } else {
        dtype_in_unit(dtype, stream)
    };
    let width = match *port {
        PortType::Frames { width, .. } => width,
        _ => 0,
    };
    Some((dtype, width))
}
