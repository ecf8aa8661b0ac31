//! `isochrony.jit`: functions compiled by Numba, called without the interpreter.

use std::sync::Arc;

use isochrony_flow::operators::{forward_where, in_unit};
use isochrony_flow::{
    Cause, Frames, Item, Next, OpError, OpErrorKind, Operator, OperatorFactory, OperatorProperties,
    Out, Parallelism, PlanError, Port, PortType, RunOptions, SentObjects, SharedFactory,
    SharedRecording,
};
use isochrony_segment::{Bool8, DType, StreamId};
use pyo3::prelude::*;
use serde_json::{Map, Value, json};

use super::function::{Function, seen, unitless};
use super::imports::Imports;
use crate::errors::{Error, PackageError, Result};
use crate::memory::CompiledFunction;

#[derive(Clone)]
pub(super) struct JitOperator {
    function: Function,
    compiled: Arc<CompiledFunction>,
    input: (DType, usize),
    /// Results select windows.
    filter: bool,
    dtype: DType,
    width: usize,
    counts: bool,
    stream: Option<StreamId>,
}

impl JitOperator {
    pub(super) fn kept(
        py: Python<'_>,
        function: Function,
        port: &PortType,
        result: Option<(DType, usize)>,
        counts: bool,
    ) -> Result<SharedFactory> {
        let Some(input) = seen(port, counts).filter(|&(_, width)| width > 0) else {
            return Err(PlanError::InputType {
                operator: "jit",
                expected: "windows",
                got: port.to_string(),
                mend: "put rewindow(...) before it",
            }
            .into());
        };
        let (dtype, width) = result.unwrap_or((DType::Bool, 1));
        let object = function
            .object
            .get()
            .map_err(|error| PackageError::new("PlanError", error.code(), error.to_string()))?;
        let compiled = CompiledFunction::new(object.bind(py), input.0, dtype, width)?;
        Ok(SharedFactory::new(Self {
            function,
            compiled: Arc::new(compiled),
            input,
            filter: result.is_none(),
            dtype,
            width,
            counts,
            stream: None,
        }))
    }

    pub(super) fn from_saved(
        saved: &Map<String, Value>,
        inputs: &[PortType],
        imports: &Imports,
    ) -> std::result::Result<SharedFactory, PlanError> {
        let unreadable = |why: String| PlanError::Unreadable { why };
        let text = |key: &str| saved.get(key).and_then(Value::as_str).unwrap_or("");
        let result = match text("as") {
            "filter" => None,
            _ => {
                let dtype =
                    DType::parse(text("dtype")).map_err(|why| unreadable(why.to_string()))?;
                let width = saved.get("width").and_then(Value::as_u64);
                Some((dtype.0, width.unwrap_or(1) as usize))
            }
        };
        let counts = saved.get("counts").and_then(Value::as_bool);
        let function = Function::import(saved, imports)?;
        let Some(port) = inputs.first() else {
            return Err(unreadable("jit has no input".into()));
        };
        crate::interpreter::attach(|py| {
            Self::kept(py, function, port, result, counts.unwrap_or(false))
        })
        .map_err(|error| match error {
            Error::Python(error) => unreadable(error.to_string()),
            Error::Package(raised) => unreadable(raised.message().to_owned()),
        })
    }

    fn form(&self, function: Value) -> Map<String, Value> {
        let mut saved = Map::new();
        saved.insert("function".into(), function);
        saved.insert(
            "as".into(),
            json!(if self.filter { "filter" } else { "map" }),
        );
        if !self.filter {
            saved.insert("dtype".into(), json!(self.dtype.name()));
            saved.insert("width".into(), json!(self.width));
        }
        saved.insert("counts".into(), json!(self.counts));
        saved
    }

    fn run(
        &self,
        frames: &Frames,
        out: &mut [u8],
        run: &mut Out<'_>,
    ) -> std::result::Result<(), OpError> {
        let (values, dtype) = if self.counts {
            (frames.buffer().clone(), frames.dtype())
        } else {
            in_unit(frames.buffer(), frames.dtype(), frames.stream_id(), run)?
        };
        let sizes = [
            frames.count() as usize,
            frames.width(),
            frames.stride(),
            dtype.size(),
        ];
        let row = self.width * self.dtype.size();
        let shown = &self.function.shown;
        let message = match self.compiled.call(values.bytes(), sizes, out, row) {
            Some(1) => return Ok(()),
            // Numba prints an exception and leaves 0; a status s is returned as 2 s + 1.
            Some(0) => {
                format!("{shown} raised an exception, which Numba has printed; fix the function")
            }
            Some(status) => format!(
                "{shown} returned status {}; return 0 for success",
                status >> 1
            ),
            None => format!("{shown} got a block of another shape than its rows"),
        };
        Err(OpErrorKind::Failed(Cause::from(message)).into())
    }
}

impl OperatorFactory for JitOperator {
    fn name(&self) -> &'static str {
        "jit"
    }

    fn label(&self) -> String {
        let how = if self.filter { "filter" } else { "map" };
        format!("{how}(jit({}))", self.function.shown)
    }

    fn make(
        &self,
        _: Option<&SharedRecording>,
    ) -> std::result::Result<Box<dyn Operator>, PlanError> {
        Ok(Box::new(self.clone()))
    }

    fn parallelism(&self, _: &RunOptions<'_>) -> Parallelism {
        Parallelism::Workers("in the workers' threads: compiled, it needs no interpreter".into())
    }

    fn saved(&self) -> std::result::Result<Map<String, Value>, PlanError> {
        Ok(self.form(self.function.saved("jit")?))
    }

    fn sent(
        &self,
        objects: &mut SentObjects,
    ) -> std::result::Result<Map<String, Value>, PlanError> {
        Ok(self.form(self.function.sent(objects)?))
    }
}

impl Operator for JitOperator {
    fn bind(&mut self, inputs: &[PortType]) -> std::result::Result<OperatorProperties, PlanError> {
        let port = inputs.first().copied();
        let Some(port) = port.filter(|port| seen(port, self.counts) == Some(self.input)) else {
            return Err(PlanError::InputType {
                operator: "jit",
                expected: "the windows that its function was compiled for",
                got: port.map_or_else(|| "nothing".into(), |port| port.to_string()),
                mend: "build the plan again",
            });
        };
        self.stream = port.stream_id().map(unitless);
        Ok(match (port, self.stream) {
            (PortType::Frames { window, hop, .. }, Some(stream)) if !self.filter => {
                OperatorProperties::new([PortType::Frames {
                    dtype: self.dtype,
                    stream,
                    window,
                    hop,
                    width: self.width,
                }])
            }
            _ => OperatorProperties::new([port]).data_dependent(),
        })
    }

    fn process(
        &mut self,
        _: Port,
        item: &mut Item,
        out: &mut Out<'_>,
    ) -> std::result::Result<Next, OpError> {
        let (Item::Frames(frames), Some(stream)) = (&*item, self.stream) else {
            return Err(OpErrorKind::WrongItem {
                expected: "frames",
                got: item.kind(),
            }
            .into());
        };
        let mut block = out.alloc(self.dtype, frames.count() as usize * self.width)?;
        self.run(frames, block.bytes_mut(), out)?;
        let results = out.seal(block);
        if self.filter {
            return forward_where(frames, results.samples::<Bool8>().unwrap_or_default(), out);
        }
        if let Some(rows) = frames.with_rows(results, self.dtype, self.width, stream) {
            *item = rows.into();
        }
        Ok(Next::Forward)
    }
}
