//! Plans and parameters from JSON text: what the names in it stand for.

use std::sync::Arc;

use isochrony_flow::{Catalog, Plan, PlanError, Stored, ToEvents, ToSignal, ToWav};
use isochrony_live::ToWire;
use serde_json::{Map, Value};

use super::class_operator::ClassOperator;
use super::function::PythonOperator;
use super::jit::JitOperator;
use super::owner::ObjectKeeper;
use super::{follow, generate, listen, table_file};
use crate::declarations;
use crate::errors::{Raised, Result};
use crate::handle::Shared;

/// A JSON object from text that Python wrote.
fn parse(text: &str) -> Result<Value> {
    Ok(
        serde_json::from_str(text).map_err(|why| PlanError::Unreadable {
            why: format!("no JSON: {why}"),
        })?,
    )
}

/// An operator's parameters from text: a JSON object.
pub(super) fn parameters(operator: &str, text: &str) -> Result<Map<String, Value>> {
    match parse(text)? {
        Value::Object(map) => Ok(map),
        _ => Err(Raised::new(
            "PlanError",
            "parameter",
            format!("parameters of {operator} are no object; give them by name"),
        )
        .into()),
    }
}

/// Which Python functions a saved plan may import. Importing a module runs its code, and a plan may have been written by
/// anybody, so none is imported unless the caller allows it.
#[derive(Debug, Clone, Default)]
pub(super) enum AllowedFunctions {
    #[default]
    None,
    /// These, as `module:name`.
    Named(Vec<String>),
    All,
}

impl AllowedFunctions {
    /// Whether a function may be imported by its name.
    pub(super) fn contains(&self, name: &str) -> bool {
        match self {
            Self::None => false,
            Self::Named(names) => names.iter().any(|known| known == name),
            Self::All => true,
        }
    }

    /// Refuses a plan with functions that are not allowed, before anything of it is made; the message lists them all.
    fn check(&self, saved: &Value) -> Result<()> {
        let nodes = saved.get("nodes").and_then(Value::as_array);
        let mut refused: Vec<&str> = nodes
            .into_iter()
            .flatten()
            .flat_map(|node| {
                [
                    node.pointer("/params/function"),
                    node.pointer("/params/state"),
                    node.pointer("/params/on_break"),
                    node.pointer("/of/generate"),
                ]
            })
            .flatten()
            .filter_map(Value::as_str)
            .filter(|name| !self.contains(name))
            .collect();
        refused.sort_unstable();
        refused.dedup();
        if refused.is_empty() {
            return Ok(());
        }
        let message = format!(
            "the plan calls Python functions, and reading it would import their modules: {}; if you trust them, allow \
             them with allow_functions=True, or with a list of these names",
            refused.join(", ")
        );
        Err(Raised::new("PlanError", "functions_not_allowed", message).into())
    }
}

/// What a saved plan may import, and what keeps it.
#[derive(Clone, Default)]
pub(super) struct Imports {
    pub(super) allowed: AllowedFunctions,
    pub(super) kept: ObjectKeeper,
}

impl Imports {
    pub(super) fn new(allowed: AllowedFunctions) -> Self {
        let kept = ObjectKeeper::default();
        Self { allowed, kept }
    }
}

/// The engine's operators, those that Python functions are, and those that write, to a given store or to those that
/// they name.
fn catalog(store: Option<&Arc<Shared>>, imports: &Imports) -> Catalog {
    let (signals, events) = (store.cloned(), store.cloned());
    let [py, each, jit, operator] = [(); 4].map(|()| imports.clone());
    declarations::catalog()
        .reviving(ToSignal::NAME, move |saved, _| {
            ToSignal::resolve(saved, signals.as_ref().map(|shared| &shared.store))
        })
        .reviving(ToEvents::NAME, move |saved, _| {
            ToEvents::resolve(saved, events.as_ref().map(|shared| &shared.store))
        })
        .reviving("py", move |saved, _| {
            PythonOperator::revive(saved, "map", &py)
        })
        .reviving("each", move |saved, _| {
            PythonOperator::revive(saved, "each", &each)
        })
        .reviving("jit", move |saved, inputs| {
            JitOperator::revive(saved, inputs, &jit)
        })
        .reviving(ClassOperator::NAME, move |saved, _| {
            ClassOperator::revive(saved, &operator)
        })
        .reviving(ToWire::NAME, |saved, _| ToWire::resolve(saved))
        .reviving(ToWav::NAME, |saved, _| ToWav::resolve(saved))
        .reviving("sink_parquet", |saved, _| {
            table_file::revive("sink_parquet", saved)
        })
        .reviving("sink_ipc", |saved, _| table_file::revive("sink_ipc", saved))
}

/// The plan that JSON text says, over the stores that it names or over one that is open; what it refers to is kept.
pub(super) fn revive(text: &str, store: Option<&Arc<Shared>>, imports: &Imports) -> Result<Plan> {
    let saved = parse(text)?;
    imports.allowed.check(&saved)?;
    let resolve = |map: &Map<String, Value>| {
        if map.contains_key("generate") {
            return generate::Kind::revive(map, imports);
        }
        if map.contains_key("listen") {
            return listen::revive(map, &imports.kept);
        }
        let store = store.map(|shared| &shared.store);
        if map.contains_key("follow") {
            return follow::revive(map, store);
        }
        Stored::resolve(map, store)
    };
    Ok(Plan::from_json(&saved, &catalog(store, imports), &resolve)?)
}
