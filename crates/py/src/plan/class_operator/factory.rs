//! Creates, prints and saves an operator that is a Python class.

use isochrony_flow::{
    Operator, OperatorFactory, Parallelism, PlanError, RunOptions, SentObjects, SharedFactory,
    SharedRecording,
};
use pyo3::prelude::*;
use serde_json::{Map, Value};

use super::declaration::ClassOperator;
use super::instance::Instance;
use crate::interpreter::attach;
use crate::plan::function::Function;
use crate::plan::imports::Imports;
use crate::plan::nesting::Nesting;
use crate::plan::operator_error::cause;
use crate::plan::run_context::RunContext;

impl ClassOperator {
    pub(in crate::plan) fn from_saved(
        saved: &Map<String, Value>,
        imports: &Imports,
    ) -> Result<SharedFactory, PlanError> {
        let unreadable = |why: String| PlanError::Unreadable { why };
        let class = Function::import(saved, imports)?;
        if saved.get("function").is_some_and(Value::is_object) {
            // A sent operator is the factory itself, with its parameters.
            let params = saved.get("params").and_then(Value::as_object);
            return Ok(SharedFactory::new(Self::new(class, params.cloned())));
        }
        let params = saved.get("params").and_then(Value::as_object).cloned();
        let params = params.unwrap_or_default();
        let object = class.object.get();
        let object = object.map_err(|error| unreadable(error.to_string()))?;
        let made = attach(|py| -> crate::errors::Result<(Py<PyAny>, String)> {
            let json = py.import("json")?;
            let text = serde_json::to_string(&params).unwrap_or_default();
            let given = json.call_method1("loads", (text,))?;
            let factory = py
                .import("isochrony.functions.operators")?
                .getattr("Factory")?;
            let made = factory.call1((object.bind(py), given))?;
            let shown = made.str()?.to_string();
            Ok((made.unbind(), shown))
        });
        let (factory, shown) = made.map_err(|error| unreadable(cause(error).to_string()))?;
        let factory = Function {
            object: imports.kept.keep(factory),
            shown,
            import: class.import,
        };
        Ok(SharedFactory::new(Self::new(factory, Some(params))))
    }
}

impl OperatorFactory for ClassOperator {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn label(&self) -> String {
        self.factory.shown.clone()
    }

    fn make(&self, _: Option<&SharedRecording>) -> Result<Box<dyn Operator>, PlanError> {
        Ok(Box::new(Instance::new(self.clone(), &Nesting::current())))
    }

    fn make_for(
        &self,
        _: Option<&SharedRecording>,
        run: &RunOptions<'_>,
    ) -> Result<Box<dyn Operator>, PlanError> {
        let nesting = RunContext::nesting(run);
        Ok(Box::new(Instance::new(self.clone(), &nesting)))
    }

    fn parallelism(&self, _: &RunOptions<'_>) -> Parallelism {
        Parallelism::CallingThread("is an operator in Python, which may keep state".into())
    }

    fn saved(&self) -> Result<Map<String, Value>, PlanError> {
        let Some(params) = &self.params else {
            return Err(PlanError::NotSaveable {
                operator: self.factory.shown.clone(),
                what: "parameters that are not JSON",
                mend: "give it numbers, texts, lists and dicts of them",
            });
        };
        let mut saved = Map::new();
        saved.insert("function".into(), self.factory.saved(Self::NAME)?);
        saved.insert("params".into(), Value::Object(params.clone()));
        Ok(saved)
    }

    fn sent(&self, objects: &mut SentObjects) -> Result<Map<String, Value>, PlanError> {
        let mut sent = Map::new();
        sent.insert("function".into(), self.factory.sent(objects)?);
        if let Some(params) = &self.params {
            sent.insert("params".into(), Value::Object(params.clone()));
        }
        Ok(sent)
    }
}
