//! Plans and parameters from JSON text: what the names in it stand for.

use std::sync::Arc;

use isochrony_flow::{Catalog, Plan, PlanError, Stored, ToEvents, ToSignal, ToWav};
use isochrony_live::ToWire;
use serde_json::{Map, Value};

use super::function::PythonOperator;
use super::jit::JitOperator;
use super::{follow, generate, listen, table_file};
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

/// The engine's operators, those that Python functions are, and those that write, to a given store or to those that
/// they name.
fn catalog(store: Option<&Arc<Shared>>) -> Catalog {
    let (signals, events) = (store.cloned(), store.cloned());
    Catalog::standard()
        .reviving(ToSignal::NAME, move |saved, _| {
            ToSignal::resolve(saved, signals.as_ref().map(|shared| &shared.store))
        })
        .reviving(ToEvents::NAME, move |saved, _| {
            ToEvents::resolve(saved, events.as_ref().map(|shared| &shared.store))
        })
        .reviving("py", |saved, _| PythonOperator::revive(saved, "map"))
        .reviving("each", |saved, _| PythonOperator::revive(saved, "each"))
        .reviving("jit", JitOperator::revive)
        .reviving(ToWire::NAME, |saved, _| ToWire::resolve(saved))
        .reviving(ToWav::NAME, |saved, _| ToWav::resolve(saved))
        .reviving("sink_parquet", |saved, _| {
            table_file::revive("sink_parquet", saved)
        })
        .reviving("sink_ipc", |saved, _| table_file::revive("sink_ipc", saved))
}

/// The plan that JSON text says, over the stores that it names or over one that is open.
pub(super) fn revive(text: &str, store: Option<&Arc<Shared>>) -> Result<Plan> {
    let saved = parse(text)?;
    let resolve = |map: &Map<String, Value>| {
        if map.contains_key("generate") {
            return generate::Kind::revive(map);
        }
        if map.contains_key("listen") {
            return listen::revive(map);
        }
        let store = store.map(|shared| &shared.store);
        if map.contains_key("follow") {
            return follow::revive(map, store);
        }
        Stored::resolve(map, store)
    };
    Ok(Plan::from_json(&saved, &catalog(store), &resolve)?)
}
