//! Creates, prints and saves an operator that calls a Python function; decides where.

use std::sync::Arc;

use isochrony_flow::{
    FunctionPlace, Operator, OperatorFactory, Parallelism, PlanError, RunOptions, SentObjects,
    SharedFactory, SharedRecording,
};
use isochrony_segment::DType;
use isochrony_workers::{PortableFunction, RemoteFunction};
use serde_json::{Map, Value, json};

use super::call::FunctionCaller;
use super::declaration::{FunctionRole, PythonOperator, parse_place};
use crate::plan::columns::{fields_from_json, fields_to_json};
use crate::plan::function::Function;
use crate::plan::imports::Imports;
use crate::plan::run_context::RunContext;
use crate::workers::{call_context, host_function};

impl PythonOperator {
    /// The function for worker processes, or why it cannot be sent there.
    fn portable(&self, run: &RunOptions<'_>) -> Result<Arc<PortableFunction>, String> {
        let object = self.function.object.get();
        let object = host_function(&object.map_err(|error| error.to_string())?);
        match RunContext::processes(run) {
            Some(processes) => processes.function(object),
            None => PortableFunction::new(object, None).map(Arc::new),
        }
    }

    fn remote(&self, run: &RunOptions<'_>) -> Option<RemoteFunction> {
        let processes = RunContext::processes(run)?;
        let wanted = match self.on_workers {
            FunctionPlace::Auto | FunctionPlace::Any => !self.sequential,
            FunctionPlace::Processes => true,
            FunctionPlace::Threads | FunctionPlace::Inline => false,
        };
        // Unless processes are requested.
        let here = matches!(self.role, FunctionRole::Each | FunctionRole::MapRows(_));
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
            call_context(run),
            is_stateless,
        ))
    }

    /// `function_form` encodes a function.
    fn form(
        &self,
        function_form: &mut dyn FnMut(&Function) -> Result<Value, PlanError>,
    ) -> Result<Map<String, Value>, PlanError> {
        let mut form = Map::new();
        form.insert("function".into(), function_form(&self.function)?);
        let how = match self.role {
            FunctionRole::Filter => "filter",
            FunctionRole::Map(..) => "map",
            FunctionRole::Each => "each",
            FunctionRole::MapRows(_) => "map_rows",
        };
        form.insert("as".into(), json!(how));
        if let FunctionRole::MapRows(fields) = self.role {
            form.insert("fields".into(), fields_to_json(fields));
        }
        for (key, function) in [("state", &self.state), ("on_break", &self.on_break)] {
            if let Some(function) = function {
                form.insert(key.into(), function_form(function)?);
            }
        }
        if let FunctionRole::Map(dtype, width) = self.role {
            form.insert("dtype".into(), json!(dtype.name()));
            form.insert("width".into(), json!(width));
        }
        form.insert("counts".into(), json!(self.counts));
        if self.on_workers != FunctionPlace::Auto {
            form.insert("on_workers".into(), json!(self.on_workers.name()));
        }
        if self.sequential {
            form.insert("sequential".into(), json!(true));
        }
        Ok(form)
    }

    pub(in crate::plan) fn from_saved(
        saved: &Map<String, Value>,
        how: &str,
        imports: &Imports,
    ) -> Result<SharedFactory, PlanError> {
        let unreadable = |why: String| PlanError::Unreadable { why };
        let flag = |name| saved.get(name).and_then(Value::as_bool).unwrap_or(false);
        let kind = saved.get("as").and_then(Value::as_str).unwrap_or(how);
        let role = match kind {
            "filter" => FunctionRole::Filter,
            "each" => FunctionRole::Each,
            "map_rows" => FunctionRole::MapRows(fields_from_json(saved.get("fields"))?),
            "map" => {
                let dtype = saved.get("dtype").and_then(Value::as_str).unwrap_or("");
                let dtype = DType::parse(dtype).map_err(|why| unreadable(why.to_string()))?;
                let width = saved.get("width").and_then(Value::as_u64);
                FunctionRole::Map(dtype.0, width.unwrap_or(1) as usize)
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
            role,
            counts: flag("counts"),
            on_workers: parse_place(on_workers.unwrap_or("auto"))?,
            is_placed: false,
            sequential: flag("sequential"),
        }))
    }
}

impl OperatorFactory for PythonOperator {
    fn name(&self) -> &'static str {
        self.operator_name()
    }

    fn label(&self) -> String {
        let shown = &self.function.shown;
        match self.role {
            FunctionRole::Filter => format!("filter(py({shown}))"),
            FunctionRole::Map(..) | FunctionRole::MapRows(_) => format!("map(py({shown}))"),
            FunctionRole::Each => format!("each({shown})"),
        }
    }

    fn make(&self, _: Option<&SharedRecording>) -> Result<Box<dyn Operator>, PlanError> {
        Ok(Box::new(FunctionCaller::unbound(self.clone())))
    }

    fn make_for(
        &self,
        _: Option<&SharedRecording>,
        run: &RunOptions<'_>,
    ) -> Result<Box<dyn Operator>, PlanError> {
        let remote = self.remote(run);
        let calling = FunctionCaller::new(self.clone(), remote, &RunContext::nesting(run));
        calling
            .map(|calling| Box::new(calling) as _)
            .map_err(|error| PlanError::Unreadable {
                why: error.to_string(),
            })
    }

    fn parallelism(&self, run: &RunOptions<'_>) -> Parallelism {
        let caller = |why: &str| Parallelism::CallingThread(why.to_owned());
        match (self.role, self.on_workers, self.sequential) {
            (FunctionRole::Each, ..) => caller("is called with every item in order"),
            (_, FunctionPlace::Inline, _) if self.is_placed => {
                caller("is fastest there, as tuning measured (on_workers=\"any\")")
            }
            (_, FunctionPlace::Inline, _) => caller("was given on_workers=\"inline\""),
            (_, FunctionPlace::Processes, true) => {
                Parallelism::CallingThread(match self.portable(run) {
                    Ok(function) => format!(
                        "keeps state in one worker process; {}",
                        function.description()
                    ),
                    Err(why) => why,
                })
            }
            (_, _, true) if self.state.is_none() && self.on_break.is_none() => caller(
                "remembers what came before, also across gaps (sequential=True without state= or on_break=)",
            ),
            (_, _, true) => caller("remembers what came before, and is notified of breaks"),
            (FunctionRole::MapRows(_), ..) => caller("is called with rows, in order"),
            (_, FunctionPlace::Threads, _) => Parallelism::Workers(match self.is_placed {
                true => "in the workers' threads: chosen by tuning (on_workers=\"any\")".into(),
                false => "in the workers' threads: on_workers=\"threads\"".into(),
            }),
            (_, FunctionPlace::Any | FunctionPlace::Auto | FunctionPlace::Processes, _) => {
                let chosen = match self.is_placed {
                    true => ", chosen by tuning (on_workers=\"any\")",
                    false => "",
                };
                match self.portable(run) {
                    Ok(function) => Parallelism::Workers(format!(
                        "in worker processes: {}{chosen}",
                        function.description()
                    )),
                    Err(why) => Parallelism::CallingThread(why),
                }
            }
        }
    }

    fn prefers_workers(&self) -> bool {
        matches!(
            self.on_workers,
            FunctionPlace::Threads | FunctionPlace::Processes
        )
    }

    fn function_place(&self) -> Option<FunctionPlace> {
        match self.role {
            FunctionRole::Each => None,
            // A saved plan may say anything; a function with state is called in order.
            _ if self.sequential => None,
            _ => Some(self.on_workers),
        }
    }

    fn placed(&self, place: FunctionPlace) -> Option<SharedFactory> {
        Some(SharedFactory::new(Self {
            on_workers: place,
            is_placed: true,
            ..self.clone()
        }))
    }

    fn is_placed(&self) -> bool {
        self.is_placed
    }

    fn saved(&self) -> Result<Map<String, Value>, PlanError> {
        self.form(&mut |function| function.saved(self.name()))
    }

    fn sent(&self, objects: &mut SentObjects) -> Result<Map<String, Value>, PlanError> {
        self.form(&mut |function| function.sent(objects))
    }
}
