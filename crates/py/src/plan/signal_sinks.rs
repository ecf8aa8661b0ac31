//! `Plan.sink` and `Plan.annotate`: writing to signals and their events.

use isochrony_flow::{EventSink, IfExists, SharedFactory, SignalLocation, SignalSink, SinkFactory};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::NativePlan;
use crate::errors::{PackageError, Result};
use crate::expr::{Expr, traced};
use crate::signal::Signal;
use crate::store::Store;

fn place(py: Python<'_>, signal: &Bound<'_, Signal>) -> Result<SignalLocation> {
    let signal = signal.get();
    signal.writer("write what a plan gives")?;
    let name = signal.get(py)?.name().to_owned();
    Ok(SignalLocation::new(&signal.follower.shared.store, name))
}

fn writable<'s>(store: &'s Bound<'_, Store>) -> Result<&'s isochrony_store::Store> {
    let store = &store.get().shared.store;
    if !store.is_writable() {
        let path = store.path().to_owned();
        let action = "write what a plan gives";
        return Err(isochrony_store::StoreError::ReadOnly { path, action }.into());
    }
    Ok(store)
}

/// A signal, or the name of one that a sink of the same run creates.
#[derive(FromPyObject)]
enum AnnotatedSignal<'py> {
    Existing(Bound<'py, Signal>),
    Created(Bound<'py, Store>, String),
}

#[pymethods]
impl NativePlan {
    /// Stores the plan's output in a signal of an open store: "refuse", "overwrite" or "append" to an existing one.
    fn sink(
        &self,
        py: Python<'_>,
        store: &Bound<'_, Store>,
        name: &str,
        if_exists: &str,
    ) -> Result<Self> {
        let store = writable(store)?;
        let if_exists = match if_exists {
            "overwrite" => IfExists::Overwrite,
            "append" => IfExists::Append,
            _ => IfExists::Refuse,
        };
        let target = SignalSink::new(SignalLocation::new(store, name), if_exists);
        self.then_factory(py, SharedFactory::new(SinkFactory::new(target)))
    }

    /// Appends the plan's output to a signal of an open store.
    fn append(&self, py: Python<'_>, signal: &Bound<'_, Signal>) -> Result<Self> {
        let target = SignalSink::new(place(py, signal)?, IfExists::Append);
        self.then_factory(py, SharedFactory::new(SinkFactory::new(target)))
    }

    /// Adds an event for each window or range to a signal of an open store, or to one that a sink of the same run
    /// creates: store and name. Fields are values or traced functions.
    fn annotate(
        &self,
        py: Python<'_>,
        signal: AnnotatedSignal<'_>,
        kind: &str,
        fields: &Bound<'_, PyDict>,
    ) -> Result<Self> {
        let mut target = match signal {
            AnnotatedSignal::Existing(signal) => EventSink::new(place(py, &signal)?, kind),
            AnnotatedSignal::Created(store, name) => {
                let store = writable(&store)?;
                EventSink::new(SignalLocation::new(store, name), kind).created_by_run()
            }
        };
        let values = PyDict::new(py);
        for (name, value) in fields {
            let text: String = name.extract()?;
            if value.is_callable() || value.cast::<Expr>().is_ok() {
                let samples = Expr::from(isochrony_expr::Expr::input());
                let samples = Bound::new(py, samples)?.into_any();
                target = target.computed(text, traced("annotate", &value, vec![samples])?);
            } else {
                values.set_item(name, value)?;
            }
        }
        for (name, value) in crate::json::object("an event", &values)? {
            target = target.value(name, value);
        }
        if kind.is_empty() {
            let message =
                "annotate needs a kind of event; name what was found, such as \"burst\"".to_owned();
            return Err(PackageError::new("OptionError", "bad_option", message).into());
        }
        self.then_factory(py, SharedFactory::new(SinkFactory::new(target)))
    }
}
