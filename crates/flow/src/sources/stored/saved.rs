//! Stored signals in saved plans, by name, and in sent plans, by snapshot.

use std::path::Path;

use isochrony_store::{Mode, Signal, Store, StoreError, Strategy};
use serde_json::{Map, Value, json};

use super::StoredRecording;
use crate::plan::sent_objects::{SentObject, SentObjects};
use crate::{PlanError, SharedRecording};

impl StoredRecording {
    pub(super) fn saved_form(&self) -> Option<Map<String, Value>> {
        let mut saved = Map::new();
        saved.insert("store".into(), json!(self.store.to_str()?));
        saved.insert("signal".into(), json!(self.signal.name()));
        if let Some(other) = &self.clocked_by {
            saved.insert("clock".into(), json!(other.name()));
        }
        self.insert_options(&mut saved);
        Some(saved)
    }

    pub(super) fn sent_form(
        &self,
        objects: &mut SentObjects,
    ) -> Result<Map<String, Value>, PlanError> {
        let unavailable = |why: StoreError| PlanError::recording(self.signal.name(), &why);
        let mut clocked_by = self.clocked_by.clone();
        if let Some(other) = clocked_by.as_mut().filter(|_| self.pinned.is_none()) {
            other.refresh().map_err(unavailable)?;
        }
        let signal = self.signal_to_read().map_err(unavailable)?;
        let mut sent = Map::new();
        sent.insert("snapshot".into(), objects.add(SentObject::Signal(signal)));
        if let Some(other) = clocked_by {
            sent.insert("clock".into(), objects.add(SentObject::Signal(other)));
        }
        self.insert_options(&mut sent);
        Ok(sent)
    }

    /// What an execution would read now, and continues to read.
    pub(super) fn pinned_now(&self) -> Result<Option<SharedRecording>, PlanError> {
        if self.pinned.is_some() {
            return Ok(None);
        }
        let unavailable = |why: StoreError| PlanError::recording(self.signal.name(), &why);
        let signal = self.signal_to_read().map_err(unavailable)?;
        let commit = signal.snapshot().map_err(unavailable)?.sequence();
        let mut pinned = Self::new(&self.store, signal);
        if let Some(other) = &self.clocked_by {
            let mut other = other.clone();
            other.refresh().map_err(unavailable)?;
            pinned = pinned.with_clock_of(&other)?;
        }
        (pinned.ranges, pinned.io) = (self.ranges.clone(), self.io);
        pinned.filter.clone_from(&self.filter);
        pinned.pinned = Some((commit, pinned.signal.end_index()));
        Ok(Some(SharedRecording::new(pinned)))
    }

    fn insert_options(&self, form: &mut Map<String, Value>) {
        if let Some(io) = self.io {
            form.insert("io".into(), json!(io.name()));
        }
        if let Some(ranges) = &self.ranges {
            let ranges = ranges.iter().map(|range| [range.start, range.end]);
            form.insert("ranges".into(), json!(ranges.collect::<Vec<_>>()));
        }
    }

    fn with_options(mut self, form: &Map<String, Value>) -> Result<Self, PlanError> {
        let name = self.signal.name().to_owned();
        if let Some(io) = form.get("io") {
            let io = io.as_str().unwrap_or_default();
            let strategy = Strategy::parse(io).map_err(|why| PlanError::Unreadable {
                why: format!("\"io\" of {name}: {why}"),
            })?;
            self = self.io(strategy);
        }
        let ranges = form.get("ranges").cloned().unwrap_or(Value::Null);
        let ranges: Option<Vec<[i64; 2]>> =
            serde_json::from_value(ranges).map_err(|why| PlanError::Unreadable {
                why: format!("ranges of {name}: {why}"),
            })?;
        Ok(match ranges {
            Some(ranges) => self.ranges(ranges.into_iter().map(|[a, b]| a..b)),
            None => self,
        })
    }

    /// The recording of a sent plan, which reads that snapshot. `signal` and `clocked_by`: objects that the form names,
    /// opened in a store at `path`; `commit`: of the snapshot.
    ///
    /// # Errors
    /// [`PlanError::Unreadable`], [`PlanError::OtherClock`].
    pub fn received(
        form: &Map<String, Value>,
        signal: Signal,
        commit: u64,
        clocked_by: Option<&Signal>,
        path: &Path,
    ) -> Result<SharedRecording, PlanError> {
        let pinned = Some((commit, signal.end_index()));
        let mut stored = Self::new(path, signal);
        if let Some(other) = clocked_by {
            stored = stored.with_clock_of(other)?;
        }
        stored.pinned = pinned;
        Ok(SharedRecording::new(stored.with_options(form)?))
    }

    /// A saved plan's recording, in the store named there or in `store`.
    ///
    /// # Errors
    /// [`PlanError::NoRecording`], [`PlanError::DamagedRecording`], [`PlanError::Unreadable`].
    pub fn resolve(
        saved: &Map<String, Value>,
        store: Option<&Store>,
    ) -> Result<SharedRecording, PlanError> {
        let text = |key: &str| match saved.get(key) {
            Some(Value::String(text)) => Ok(text.as_str()),
            _ => Err(PlanError::Unreadable {
                why: format!("a scan does not name its {key}"),
            }),
        };
        let name = text("signal")?;
        let no_recording = |why: StoreError| PlanError::recording(name, &why);
        let opened;
        let store = match store {
            Some(store) => store,
            None => {
                opened = Store::open(text("store")?, Mode::Read).map_err(no_recording)?;
                &opened
            }
        };
        let mut stored = Self::new(store.path(), store.signal(name).map_err(no_recording)?);
        if let Some(Value::String(other)) = saved.get("clock") {
            stored = stored.with_clock_of(&store.signal(other).map_err(no_recording)?)?;
        }
        Ok(SharedRecording::new(stored.with_options(saved)?))
    }
}
