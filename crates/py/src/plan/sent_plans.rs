//! Plans in pickles, and the Python objects sent with them.

use std::path::PathBuf;
use std::sync::Arc;

use isochrony_flow::{Plan, SentObject, SentObjects};
use isochrony_store::{SignalId, SignalSnapshot};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use super::NativePlan;
use super::imports::{AllowedFunctions, Imports};
use super::owner::Owner;
use super::received_objects::{ReceivedObject, ReceivedObjects};
use super::saved;
use crate::errors::{PackageError, Result};
use crate::interpreter::detach;
use crate::signal::segment::Segment;
use crate::store::handle::OpenStore;
use crate::store::pickling::{Opening, decoded, encoded};

const SIGNAL: &str = "signal";
const SAMPLES: &str = "samples";
const PYTHON: &str = "python";

#[pymethods]
impl NativePlan {
    /// The same plans with snapshots of their signals, without later appends.
    #[staticmethod]
    fn at_snapshots(py: Python<'_>, plans: Vec<PyRef<'_, Self>>) -> Result<Vec<Self>> {
        let owners: Vec<_> = plans
            .iter()
            .map(|one| one.owner.as_ref().map(|owner| owner.clone_ref(py)))
            .collect();
        let plans: Vec<_> = plans.iter().map(|one| one.plan.clone()).collect();
        let pinned = detach(py, || Plan::at_snapshots(&plans))?;
        let owned = pinned.into_iter().zip(owners);
        Ok(owned.map(|(plan, owner)| Self { plan, owner }).collect())
    }

    /// Whether a part is executed on another host.
    fn has_hosts(&self) -> bool {
        self.plan.has_hosts()
    }

    /// The folders of its stores, here or on another host.
    fn store_paths(&self) -> Vec<PathBuf> {
        let scanned = self.plan.stored().into_iter();
        let shared = scanned.filter_map(|scanned| OpenStore::showing(&scanned.signal));
        shared
            .map(|shared| shared.store.path().to_owned())
            .collect()
    }

    /// The plan for another process: JSON text, and pairs of kind and object for what it names.
    fn sent<'py>(&self, py: Python<'py>) -> Result<(String, Bound<'py, PyList>)> {
        let (form, objects) = self.plan.to_sent()?;
        Ok((form.to_string(), listed(py, objects)?))
    }

    /// Likewise for several plans and a process that only executes their tasks; operators that write, or run in this
    /// thread, stay here.
    #[staticmethod]
    fn sent_for_tasks<'py>(
        py: Python<'py>,
        plans: Vec<PyRef<'py, Self>>,
    ) -> Result<(String, Bound<'py, PyList>)> {
        let plans: Vec<_> = plans.iter().map(|one| one.plan.clone()).collect();
        for scanned in plans.iter().flat_map(Plan::stored) {
            let shared = OpenStore::showing(&scanned.signal);
            if shared.is_some_and(|shared| shared.store.has_pending_in(&scanned.signal)) {
                let message = format!(
                    "signal {:?} has changes that are not committed, which workers of a cluster cannot read; commit them first",
                    scanned.signal.name()
                );
                return Err(PackageError::new("PlanError", "uncommitted", message).into());
            }
        }
        let (form, objects) = Plan::to_sent_for_tasks(&plans)?;
        Ok((form.to_string(), listed(py, objects)?))
    }

    /// Reads a plan sent by another process or this one.
    #[staticmethod]
    fn received(
        py: Python<'_>,
        text: &str,
        objects: Vec<(String, Bound<'_, PyAny>)>,
    ) -> Result<Self> {
        let imports = received(objects)?;
        let plan = detach(py, || saved::read_plan(text, None, &imports))?;
        Ok(Self::owned(plan, imports.kept.owner(py, [])?))
    }
}

pub(super) fn listed(py: Python<'_>, objects: SentObjects) -> Result<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for object in objects {
        match object {
            SentObject::Signal(signal) => list.append((SIGNAL, encoded(py, &signal)?))?,
            SentObject::Samples(segments) => {
                let segments = segments.iter().cloned().map(Segment::from);
                list.append((SAMPLES, segments.collect::<Vec<_>>()))?;
            }
            SentObject::Embedded(object) => {
                if let Ok(object) = object.downcast::<Py<PyAny>>() {
                    list.append((PYTHON, &*object))?;
                }
            }
            _ => {}
        }
    }
    Ok(list)
}

pub(super) struct ReceivedPlans {
    pub(super) plans: Vec<Plan>,
    pub(super) owner: Option<Py<Owner>>,
    pub(super) signals: Vec<OpenSnapshot>,
}

pub(super) fn received_for_tasks(
    py: Python<'_>,
    text: &str,
    objects: Vec<(String, Bound<'_, PyAny>)>,
) -> Result<ReceivedPlans> {
    let mut signals = Vec::new();
    // First, so each store is opened once and stays open.
    for (_, object) in objects.iter().filter(|(kind, _)| kind == SIGNAL) {
        let (bytes, opening): (Bound<'_, PyBytes>, Opening) = object.extract()?;
        let (store, signal) = decoded(&bytes, opening)?;
        signals.push(OpenSnapshot {
            store,
            signal: signal.id(),
            snapshot: SignalSnapshot::from_bytes(bytes.as_bytes())?,
        });
    }
    let imports = received(objects)?;
    let plans = detach(py, || saved::read_plans(text, &imports))?;
    Ok(ReceivedPlans {
        plans,
        owner: imports.kept.owner(py, [])?,
        signals,
    })
}

pub(super) fn received_part(
    py: Python<'_>,
    form: &str,
    objects: Vec<(String, Bound<'_, PyAny>)>,
) -> Result<(Plan, Option<Py<Owner>>)> {
    let imports = received(objects)?;
    let plan = detach(py, || saved::read_plan(form, None, &imports))?;
    Ok((plan, imports.kept.owner(py, [])?))
}

pub(super) struct OpenSnapshot {
    pub(super) store: Arc<OpenStore>,
    pub(super) signal: SignalId,
    pub(super) snapshot: SignalSnapshot,
}

fn received(objects: Vec<(String, Bound<'_, PyAny>)>) -> Result<Imports> {
    let objects = objects
        .into_iter()
        .map(|(kind, object)| match kind.as_str() {
            SIGNAL => {
                let (bytes, opening): (Bound<'_, PyBytes>, Opening) = object.extract()?;
                let (shared, signal) = decoded(&bytes, opening)?;
                // Recordings of different snapshots differ.
                let commit = SignalSnapshot::from_bytes(bytes.as_bytes())?.sequence();
                Ok(ReceivedObject::Signal {
                    signal,
                    store: shared.store.path().to_owned(),
                    commit,
                    _open: shared,
                })
            }
            SAMPLES => {
                let segments: Vec<Bound<'_, Segment>> = object.extract()?;
                let segments = segments.iter().map(|segment| segment.get().seg.clone());
                Ok(ReceivedObject::Samples(segments.collect()))
            }
            _ => Ok(ReceivedObject::Python(object.unbind())),
        });
    let objects = objects.collect::<Result<Vec<_>>>()?;
    Ok(Imports {
        received: Arc::new(ReceivedObjects(objects)),
        ..Imports::new(AllowedFunctions::None)
    })
}
