//! Plans from JSON text.

use std::sync::Arc;

use isochrony_flow::{
    Catalog, EventSink, Plan, PlanError, RecordingResolver, SharedRecording, SignalSink,
    StoredRecording, WavSink,
};
use isochrony_live::{Listener, ToWire};
use serde_json::{Map, Value};

use super::class_operator::ClassOperator;
use super::imports::Imports;
use super::jit::JitOperator;
use super::json_text::parse;
use super::owner::ObjectKeeper;
use super::python_operator::PythonOperator;
use super::{driven_feed, follow, generate, table_file};
use crate::declarations;
use crate::errors::Result;
use crate::store::handle::OpenStore;

/// Operators that write use `store`, or the stores that they name.
fn catalog(store: Option<&Arc<OpenStore>>, imports: &Imports) -> Catalog {
    let (signals, events) = (store.cloned(), store.cloned());
    let [py, each, jit, operator] = [(); 4].map(|()| imports.clone());
    declarations::catalog()
        .with_factory(SignalSink::NAME, move |saved, _| {
            SignalSink::resolve(saved, signals.as_ref().map(|shared| &shared.store))
        })
        .with_factory(EventSink::NAME, move |saved, _| {
            EventSink::resolve(saved, events.as_ref().map(|shared| &shared.store))
        })
        .with_factory("py", move |saved, _| {
            PythonOperator::from_saved(saved, "map", &py)
        })
        .with_factory("each", move |saved, _| {
            PythonOperator::from_saved(saved, "each", &each)
        })
        .with_factory("jit", move |saved, inputs| {
            JitOperator::from_saved(saved, inputs, &jit)
        })
        .with_factory(ClassOperator::NAME, move |saved, _| {
            ClassOperator::from_saved(saved, &operator)
        })
        .with_factory(ToWire::NAME, |saved, _| ToWire::resolve(saved))
        .with_factory(WavSink::NAME, |saved, _| WavSink::resolve(saved))
        .with_factory("sink_parquet", |saved, _| {
            table_file::from_saved("sink_parquet", saved)
        })
        .with_factory("sink_ipc", |saved, _| {
            table_file::from_saved("sink_ipc", saved)
        })
}

/// `imports` keeps the plan's objects, and has what was sent.
pub(super) fn read_plan(
    text: &str,
    store: Option<&Arc<OpenStore>>,
    imports: &Imports,
) -> Result<Plan> {
    read(text, store, imports, Plan::from_json)
}

pub(super) fn read_plans(text: &str, imports: &Imports) -> Result<Vec<Plan>> {
    read(text, None, imports, Plan::several_from_json)
}

fn read<T>(
    text: &str,
    store: Option<&Arc<OpenStore>>,
    imports: &Imports,
    read: impl FnOnce(&Value, &Catalog, &RecordingResolver<'_>) -> std::result::Result<T, PlanError>,
) -> Result<T> {
    let saved = parse(text)?;
    imports.allowed.check(&saved)?;
    let resolve = |map: &Map<String, Value>| {
        if let Some(received) = imports.received.recording(map) {
            return received;
        }
        if map.contains_key("generate") {
            return generate::Generator::from_saved(map, imports);
        }
        if map.contains_key("listen") {
            return listener_from_saved(map, &imports.kept);
        }
        let store = store.map(|shared| &shared.store);
        if map.contains_key("follow") {
            return follow::from_saved(map, store);
        }
        StoredRecording::resolve(map, store)
    };
    Ok(read(&saved, &catalog(store, imports), &resolve)?)
}

fn listener_from_saved(
    saved: &Map<String, Value>,
    kept: &ObjectKeeper,
) -> std::result::Result<SharedRecording, PlanError> {
    if driven_feed::is_driven(saved) {
        return Ok(SharedRecording::new(driven_feed::from_saved(saved, kept)?));
    }
    let listener = Listener::resolve(saved);
    let listener = listener.map_err(|error| PlanError::Unreadable {
        why: error.to_string(),
    })?;
    Ok(SharedRecording::new(listener))
}
