//! Plans and parameters from JSON text.

use std::sync::Arc;

use isochrony_flow::{Catalog, Live, Plan, PlanError, Stored, ToEvents, ToSignal, ToWav};
use isochrony_live::{Listener, ToWire};
use serde_json::{Map, Value};

use super::class_operator::ClassOperator;
use super::imports::Imports;
use super::jit::JitOperator;
use super::owner::ObjectKeeper;
use super::python_operator::PythonOperator;
use super::{drive, follow, generate, table_file};
use crate::errors::{PackageError, Result};
use crate::store::handle::OpenStore;

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
        _ => Err(PackageError::new(
            "PlanError",
            "parameter",
            format!("parameters of {operator} are no object; give them by name"),
        )
        .into()),
    }
}

/// All operators that a saved plan may name. Operators that write resolve their targets in `store`, or in the stores
/// that they name.
fn catalog(store: Option<&Arc<OpenStore>>, imports: &Imports) -> Catalog {
    let (signals, events) = (store.cloned(), store.cloned());
    let [py, each, jit, operator] = [(); 4].map(|()| imports.clone());
    Catalog::standard()
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

/// Reads a plan, over the stores that it names or over an open one. `imports` keeps what it refers to.
pub(super) fn revive(
    text: &str,
    store: Option<&Arc<OpenStore>>,
    imports: &Imports,
) -> Result<Plan> {
    let saved = parse(text)?;
    imports.allowed.check(&saved)?;
    let resolve = |map: &Map<String, Value>| {
        if map.contains_key("generate") {
            return generate::Generator::revive(map, imports);
        }
        if map.contains_key("listen") {
            return revive_listener(map, &imports.kept);
        }
        let store = store.map(|shared| &shared.store);
        if map.contains_key("follow") {
            return follow::revive(map, store);
        }
        Stored::resolve(map, store)
    };
    Ok(Plan::from_json(&saved, &catalog(store, imports), &resolve)?)
}

/// Reads a feed.
fn revive_listener(
    saved: &Map<String, Value>,
    kept: &ObjectKeeper,
) -> std::result::Result<Live, PlanError> {
    if drive::is_driven(saved) {
        return Ok(Live::new(drive::revive(saved, kept)?));
    }
    let listener = Listener::resolve(saved);
    let listener = listener.map_err(|error| PlanError::Unreadable {
        why: error.to_string(),
    })?;
    Ok(Live::new(listener))
}
