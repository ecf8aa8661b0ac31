//! Python functions in plans: `isochrony.py` as a map or a filter, and `Plan.each`.
//!
//! What they do in a run lies in [`super::call`]. A function that can be imported is saved by module and name.

use std::sync::Arc;

use isochrony_flow::operators::dtype_in_unit;
use isochrony_flow::{
    Cause, Fields, OpError, OpErrorKind, Operator, OperatorFactory, Parallelism, PlanError,
    PortType, RunOptions, SharedFactory, SharedRecording,
};
use isochrony_segment::{Calibration, DType, StreamId};
use isochrony_workers::{PortableFunction, RemoteFunction};
use pyo3::prelude::*;
use serde_json::{Map, Value, json};

use super::call::Calling;
use super::columns::{fields, named};
use super::owner::Callable;
use super::running::RunContext;
use super::saved::Imports;
use crate::errors::Error;
use crate::interpreter::attach;
use crate::workers::{caller, host_function};

/// What becomes of what the function returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// One bool a window: which of them pass.
    Filter,
    /// Values of this type, so many a window (samples: one each).
    Map(DType, usize),
    /// Nothing.
    Each,
    /// Of a table its columns, by name; the rows have these fields.
    MapRows(Fields),
}

/// Who calls the function in a run on several workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnWorkers {
    /// Worker processes, if it can travel there and does not remember.
    Auto,
    /// The workers' threads.
    Threads,
    Processes,
    /// The caller's thread, in order.
    Inline,
}

impl OnWorkers {
    const NAMES: [(&'static str, Self); 4] = [
        ("auto", Self::Auto),
        ("threads", Self::Threads),
        ("processes", Self::Processes),
        ("inline", Self::Inline),
    ];

    pub(super) fn parse(text: &str) -> Result<Self, PlanError> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found
            .map(|&(_, way)| way)
            .ok_or_else(|| PlanError::Unreadable {
                why: format!("a function with on_workers={text:?}"),
            })
    }

    fn name(self) -> &'static str {
        let found = Self::NAMES.iter().find(|(_, way)| *way == self);
        found.map_or("auto", |&(name, _)| name)
    }
}

/// A Python function, and how plans name it.
#[derive(Clone)]
pub(super) struct Function {
    pub(super) object: Callable,
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

    /// A saved function, imported if that is allowed.
    pub(super) fn import(saved: &Map<String, Value>, imports: &Imports) -> Result<Self, PlanError> {
        Self::import_named(saved, "function", imports)
    }

    /// The same of one that is saved by another name. No other code imports what a saved plan names.
    pub(super) fn import_named(
        saved: &Map<String, Value>,
        key: &str,
        imports: &Imports,
    ) -> Result<Self, PlanError> {
        let name = saved.get(key).and_then(Value::as_str).unwrap_or("");
        if !imports.allowed.contains(name) {
            let why = format!("function {name:?} is not allowed; allow it with allow_functions=");
            return Err(PlanError::Unreadable { why });
        }
        attach(|py| -> PyResult<Self> {
            let functions = py.import("isochrony.functions")?;
            let object = functions.getattr("imported")?.call1((name,))?;
            let shown = functions.getattr("shown")?.call1((&object,))?.extract()?;
            Ok(Self {
                object: imports.kept.keep(object.unbind()),
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
    pub(super) on_workers: OnWorkers,
    /// It remembers: it is called in order, in one place.
    pub(super) sequential: bool,
    /// Makes what it remembers, at the beginning of each stretch without a gap.
    pub(super) state: Option<Function>,
    /// Called where a stretch ends.
    pub(super) on_break: Option<Function>,
}

impl PythonOperator {
    /// How its function travels in a run; or why not.
    fn portable(&self, run: &RunOptions<'_>) -> Result<Arc<PortableFunction>, String> {
        let object = self.function.object.get();
        let object = host_function(&object.map_err(|error| error.to_string())?);
        match RunContext::processes(run) {
            Some(processes) => processes.function(object),
            None => PortableFunction::new(object, None).map(Arc::new),
        }
    }

    /// What calls the function in worker processes, where it is to be called there.
    fn remote(&self, run: &RunOptions<'_>) -> Option<RemoteFunction> {
        let processes = RunContext::processes(run)?;
        let wanted = match self.on_workers {
            OnWorkers::Auto => !self.sequential,
            OnWorkers::Processes => true,
            OnWorkers::Threads | OnWorkers::Inline => false,
        };
        // What goes on in the caller's thread goes on in this process, but for what was asked to go on elsewhere.
        let here = matches!(self.how, Use::Each | Use::MapRows(_));
        if here || !wanted || run.worker.is_none() && !self.sequential {
            return None;
        }
        let object = self.function.object.get().ok()?;
        let function = processes.function(host_function(&object)).ok()?;
        let shown = &self.function.shown;
        let is_stateless = !self.sequential;
        Some(RemoteFunction::of_blocks(
            processes,
            function,
            shown,
            caller(run),
            is_stateless,
        ))
    }

    /// A saved one.
    pub(super) fn revive(
        saved: &Map<String, Value>,
        how: &str,
        imports: &Imports,
    ) -> Result<SharedFactory, PlanError> {
        let unreadable = |why: String| PlanError::Unreadable { why };
        let flag = |name| saved.get(name).and_then(Value::as_bool).unwrap_or(false);
        let kind = saved.get("as").and_then(Value::as_str).unwrap_or(how);
        let how = match kind {
            "filter" => Use::Filter,
            "each" => Use::Each,
            "map_rows" => Use::MapRows(fields(saved.get("fields"))?),
            "map" => {
                let dtype = saved.get("dtype").and_then(Value::as_str).unwrap_or("");
                let dtype = DType::parse(dtype).map_err(|why| unreadable(why.to_string()))?;
                let width = saved.get("width").and_then(Value::as_u64);
                Use::Map(dtype.0, width.unwrap_or(1) as usize)
            }
            other => return Err(unreadable(format!("a function used as {other:?}"))),
        };
        let on_workers = saved.get("on_workers").and_then(Value::as_str);
        let other = |key| match saved.contains_key(key) {
            true => Function::import_named(saved, key, imports).map(Some),
            false => Ok(None),
        };
        Ok(SharedFactory::new(Self {
            function: Function::import(saved, imports)?,
            state: other("state")?,
            on_break: other("on_break")?,
            how,
            counts: flag("counts"),
            on_workers: OnWorkers::parse(on_workers.unwrap_or("auto"))?,
            sequential: flag("sequential"),
        }))
    }

    pub(super) fn wrong_input(&self, port: &PortType, expected: &'static str) -> PlanError {
        PlanError::InputType {
            operator: self.name(),
            expected,
            got: port.to_string(),
            mend: "put rewindow(...) before it",
        }
    }
}

/// An exception as an operator's error; it becomes the cause of the run's.
pub(super) fn failed(error: Error) -> OpError {
    OpErrorKind::Failed(cause(error)).into()
}

/// An exception as a cause.
pub(super) fn cause(error: Error) -> Cause {
    match error {
        Error::Python(error) => Box::new(error),
        Error::Ours(raised) => raised.message().to_owned().into(),
    }
}

impl OperatorFactory for PythonOperator {
    fn name(&self) -> &'static str {
        if self.how == Use::Each { "each" } else { "py" }
    }

    fn label(&self) -> String {
        let shown = &self.function.shown;
        match self.how {
            Use::Filter => format!("filter(py({shown}))"),
            Use::Map(..) | Use::MapRows(_) => format!("map(py({shown}))"),
            Use::Each => format!("each({shown})"),
        }
    }

    fn make(&self, _: Option<&SharedRecording>) -> Result<Box<dyn Operator>, PlanError> {
        Ok(Box::new(Calling::unbound(self.clone())))
    }

    fn make_for(
        &self,
        _: Option<&SharedRecording>,
        run: &RunOptions<'_>,
    ) -> Result<Box<dyn Operator>, PlanError> {
        let remote = self.remote(run);
        let calling = Calling::new(self.clone(), remote, &RunContext::nesting(run));
        calling
            .map(|calling| Box::new(calling) as _)
            .map_err(|error| PlanError::Unreadable {
                why: error.to_string(),
            })
    }

    fn parallelism(&self, run: &RunOptions<'_>) -> Parallelism {
        let caller = |why: &str| Parallelism::CallingThread(why.to_owned());
        match (self.how, self.on_workers, self.sequential) {
            (Use::Each, ..) => caller("is shown everything in order"),
            (_, OnWorkers::Inline, _) => caller("was given on_workers=\"inline\""),
            (_, OnWorkers::Processes, true) => {
                Parallelism::CallingThread(match self.portable(run) {
                    Ok(function) => format!(
                        "remembers, in one worker process; {}",
                        function.description()
                    ),
                    Err(why) => why,
                })
            }
            (_, _, true) if self.state.is_none() && self.on_break.is_none() => caller(
                "remembers what came before, also across gaps (sequential=True without state= or on_break=)",
            ),
            (_, _, true) => caller("remembers what came before, and is told of gaps"),
            (Use::MapRows(_), ..) => caller("is called with rows, in order"),
            (_, OnWorkers::Threads, _) => {
                Parallelism::Workers("in the workers' threads: on_workers=\"threads\"".into())
            }
            (_, OnWorkers::Auto | OnWorkers::Processes, _) => match self.portable(run) {
                Ok(function) => {
                    Parallelism::Workers(format!("in worker processes: {}", function.description()))
                }
                Err(why) => Parallelism::CallingThread(why),
            },
        }
    }

    fn saved(&self) -> Result<Map<String, Value>, PlanError> {
        let mut saved = Map::new();
        saved.insert("function".into(), self.function.saved(self.name())?);
        let how = match self.how {
            Use::Filter => "filter",
            Use::Map(..) => "map",
            Use::Each => "each",
            Use::MapRows(_) => "map_rows",
        };
        saved.insert("as".into(), json!(how));
        if let Use::MapRows(fields) = self.how {
            saved.insert("fields".into(), named(fields));
        }
        for (key, function) in [("state", &self.state), ("on_break", &self.on_break)] {
            if let Some(function) = function {
                saved.insert(key.into(), function.saved(self.name())?);
            }
        }
        if let Use::Map(dtype, width) = self.how {
            saved.insert("dtype".into(), json!(dtype.name()));
            saved.insert("width".into(), json!(width));
        }
        saved.insert("counts".into(), json!(self.counts));
        if self.on_workers != OnWorkers::Auto {
            saved.insert("on_workers".into(), json!(self.on_workers.name()));
        }
        if self.sequential {
            saved.insert("sequential".into(), json!(true));
        }
        Ok(saved)
    }
}

/// The same stream in no known unit.
pub(super) fn unitless(stream: StreamId) -> StreamId {
    let stream = stream.get().clone();
    stream.with_calibration(Calibration::default()).intern()
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
