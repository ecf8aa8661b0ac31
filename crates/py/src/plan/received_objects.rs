//! [`ReceivedObjects`]: signals, samples and Python objects from another process.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use isochrony_flow::{PlanError, Segments, SharedRecording, StoredRecording};
use isochrony_segment::SigSeg;
use isochrony_store::Signal as StoreSignal;
use isochrony_time::{Fixed, TimebaseId};
use pyo3::prelude::*;
use serde_json::{Map, Value};

use crate::interpreter::attach;
use crate::store::handle::OpenStore;

pub(super) enum ReceivedObject {
    Signal {
        signal: StoreSignal,
        store: PathBuf,
        commit: u64,
        /// While it is open, other signals of its store are found in it.
        _open: Arc<OpenStore>,
    },
    Samples(Vec<SigSeg>),
    Python(Py<PyAny>),
}

/// A plan refers to them by position.
#[derive(Default)]
pub(super) struct ReceivedObjects(pub(super) Vec<ReceivedObject>);

impl ReceivedObjects {
    fn get(&self, place: Option<&Value>) -> std::result::Result<&ReceivedObject, PlanError> {
        let at = place
            .and_then(Value::as_u64)
            .and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.0.get(at))
            .ok_or_else(|| unreadable("an object that it was sent with"))
    }

    pub(super) fn object(
        &self,
        place: Option<&Value>,
    ) -> std::result::Result<Py<PyAny>, PlanError> {
        match self.get(place)? {
            ReceivedObject::Python(object) => Ok(attach(|py| object.clone_ref(py))),
            _ => Err(unreadable("a function")),
        }
    }

    pub(super) fn recording(
        &self,
        form: &Map<String, Value>,
    ) -> Option<std::result::Result<SharedRecording, PlanError>> {
        match (form.get("snapshot"), form.get("samples")) {
            (None, None) => None,
            (None, samples) => Some(self.samples(samples, form)),
            (snapshot, _) => Some(self.stored(snapshot, form)),
        }
    }

    fn signal(
        &self,
        place: Option<&Value>,
    ) -> std::result::Result<(&StoreSignal, &Path, u64), PlanError> {
        match self.get(place)? {
            ReceivedObject::Signal {
                signal,
                store,
                commit,
                ..
            } => Ok((signal, store, *commit)),
            _ => Err(unreadable("a signal")),
        }
    }

    fn samples(
        &self,
        place: Option<&Value>,
        form: &Map<String, Value>,
    ) -> std::result::Result<SharedRecording, PlanError> {
        let ReceivedObject::Samples(segments) = self.get(place)? else {
            return Err(unreadable("samples"));
        };
        let start = match form.get("start").map(Value::as_str) {
            None => None,
            Some(bits) => {
                let bits = bits.and_then(|bits| bits.parse().ok());
                Some(Fixed::from_bits(bits.ok_or_else(|| unreadable("a time"))?))
            }
        };
        let placed = |segment: &SigSeg| {
            let Some(start) = start else {
                return Ok(segment.clone());
            };
            // Grid numbers are local to a process.
            let mut stream = segment.stream().clone();
            stream.timebase =
                TimebaseId::grid(start, stream.rate).map_err(|_| unreadable("a time"))?;
            let relabelled = segment.clone().relabelled(segment.start(), stream.intern());
            relabelled.map_err(|_| unreadable("samples"))
        };
        let segments = segments.iter().map(placed);
        let segments = segments.collect::<std::result::Result<Vec<_>, PlanError>>()?;
        let mut recording =
            Segments::new(segments).ok_or_else(|| unreadable("samples in order"))?;
        if let Some(start) = start {
            recording = recording.starting(start);
        }
        if let place @ Some(_) = form.get("clock") {
            recording = recording.with_clock_of(self.signal(place)?.0);
        }
        Ok(SharedRecording::new(recording))
    }

    fn stored(
        &self,
        place: Option<&Value>,
        form: &Map<String, Value>,
    ) -> std::result::Result<SharedRecording, PlanError> {
        let (own, store, commit) = self.signal(place)?;
        let other = match form.get("clock") {
            None => None,
            place => Some(self.signal(place)?.0),
        };
        StoredRecording::received(form, own.clone(), commit, other, store)
    }
}

fn unreadable(what: &str) -> PlanError {
    PlanError::Unreadable {
        why: format!("it lacks {what}"),
    }
}
