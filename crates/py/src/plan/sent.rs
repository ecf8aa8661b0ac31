//! Plans in pickles: what they are sent with, as Python objects.

use std::path::PathBuf;
use std::sync::Arc;

use isochrony_flow::{PlanError, Segments, SentObject, SharedRecording, StoredRecording};
use isochrony_segment::SigSeg;
use isochrony_store::Signal as StoreSignal;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use serde_json::{Map, Value};

use super::NativePlan;
use super::imports::{AllowedFunctions, Imports};
use super::saved;
use crate::errors::Result;
use crate::interpreter::{attach, detach};
use crate::signal::segment::Segment;
use crate::store::pickling::{Opening, decoded, encoded};

/// What came with a plan that was sent.
pub(super) enum ReceivedObject {
    Signal {
        signal: StoreSignal,
        store: PathBuf,
        commit: u64,
    },
    Samples(Vec<SigSeg>),
    Python(Py<PyAny>),
}

/// All that came with a plan, which names it by places.
#[derive(Default)]
pub(super) struct ReceivedObjects(Vec<ReceivedObject>);

impl ReceivedObjects {
    fn get(&self, place: Option<&Value>) -> std::result::Result<&ReceivedObject, PlanError> {
        let at = place
            .and_then(Value::as_u64)
            .and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.0.get(at))
            .ok_or_else(|| unreadable("an object that it was sent with"))
    }

    /// A Python object.
    pub(super) fn object(
        &self,
        place: Option<&Value>,
    ) -> std::result::Result<Py<PyAny>, PlanError> {
        match self.get(place)? {
            ReceivedObject::Python(object) => Ok(attach(|py| object.clone_ref(py))),
            _ => Err(unreadable("a function")),
        }
    }

    /// The recording of a scan; None if its form names no object.
    pub(super) fn recording(
        &self,
        form: &Map<String, Value>,
    ) -> Option<std::result::Result<SharedRecording, PlanError>> {
        match (form.get("snapshot"), form.get("samples")) {
            (None, None) => None,
            (None, samples) => Some(self.samples(samples)),
            (snapshot, _) => Some(self.stored(snapshot, form)),
        }
    }

    fn samples(&self, place: Option<&Value>) -> std::result::Result<SharedRecording, PlanError> {
        let ReceivedObject::Samples(segments) = self.get(place)? else {
            return Err(unreadable("samples"));
        };
        let recording = Segments::new(segments.iter().cloned());
        Ok(SharedRecording::new(
            recording.ok_or_else(|| unreadable("samples in order"))?,
        ))
    }

    fn stored(
        &self,
        place: Option<&Value>,
        form: &Map<String, Value>,
    ) -> std::result::Result<SharedRecording, PlanError> {
        let signal = |place| match self.get(place)? {
            ReceivedObject::Signal {
                signal,
                store,
                commit,
            } => Ok((signal, store, *commit)),
            _ => Err(unreadable("a signal")),
        };
        let (own, store, commit) = signal(place)?;
        let other = match form.get("clock") {
            None => None,
            place => Some(signal(place)?.0),
        };
        StoredRecording::received(form, own.clone(), commit, other, store)
    }
}

fn unreadable(what: &str) -> PlanError {
    PlanError::Unreadable {
        why: format!("it lacks {what}"),
    }
}

/// How [`NativePlan::sent`] marks an object.
const SIGNAL: &str = "signal";
const SAMPLES: &str = "samples";
const PYTHON: &str = "python";

#[pymethods]
impl NativePlan {
    /// The plan for another process: JSON text, and pairs of kind and object for what it names.
    fn sent<'py>(&self, py: Python<'py>) -> Result<(String, Bound<'py, PyList>)> {
        let (form, objects) = self.plan.to_sent()?;
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
        Ok((form.to_string(), list))
    }

    /// The plan that another process, or this one, sent.
    #[staticmethod]
    fn received(
        py: Python<'_>,
        text: &str,
        objects: Vec<(String, Bound<'_, PyAny>)>,
    ) -> Result<Self> {
        let objects = objects
            .into_iter()
            .map(|(kind, object)| match kind.as_str() {
                SIGNAL => {
                    let (bytes, opening): (Bound<'_, PyBytes>, Opening) = object.extract()?;
                    let (shared, signal) = decoded(&bytes, opening)?;
                    Ok(ReceivedObject::Signal {
                        signal,
                        store: shared.store.path().to_owned(),
                        commit: shared.store.sequence()?,
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
        let imports = Imports {
            received: Arc::new(ReceivedObjects(objects)),
            ..Imports::new(AllowedFunctions::None)
        };
        let plan = detach(py, || saved::read_plan(text, None, &imports))?;
        Ok(Self::owned(plan, imports.kept.owner(py, [])?))
    }
}
