//! Rows of an open store, for plots, decimated levels, and verification.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::Source;
use super::files::FOLDER;
use super::maintainer::ViewMaintainer;
use super::record::Record;
use super::stored::{StoredSamples, difference};
use crate::StoreError;
use crate::backend::Backend;
use crate::engine::identity::is_of;
use crate::mutex::lock;
use crate::op::SignalId;
use crate::state::SignalState;

/// Tries while a writer moves or replaces rows; then only samples are used.
const MAX_ATTEMPTS: usize = 3;

impl ViewMaintainer {
    /// Keys are folders relative to the signal's; empty if no rows were ever stored.
    pub(crate) fn descriptions(
        &self,
        backend: &Backend,
        id: SignalId,
    ) -> Result<Vec<(PathBuf, serde_json::Value)>, StoreError> {
        let state = backend.state(id)?;
        let files = self.files(backend, id, state.meta.format)?;
        let record = Record::read(&files)?.unwrap_or_default();
        let levels = files.descriptions(record.built).into_iter();
        let below = |(folder, json): (PathBuf, _)| (Path::new(FOLDER).join(folder), json);
        Ok(levels.map(below).collect())
    }

    /// Reads all samples if `deep`. `settled`: no writer is active or was killed.
    pub(crate) fn examine(
        &self,
        backend: &Backend,
        id: SignalId,
        deep: bool,
        settled: bool,
    ) -> Result<Option<String>, StoreError> {
        self.with_source(backend, id, |source, state| {
            let files = self.files(backend, id, state.meta.format)?;
            let record = Record::read(&files)?.unwrap_or_default();
            // A reader may be behind an active writer.
            let is_other = record.of.is_some_and(|of| of.signal != id.0);
            if is_other || (backend.is_writable() && !record.is_of(state)) {
                return Ok(Some(
                    "rows are those of another signal, or of other samples".into(),
                ));
            }
            if settled && let Some(path) = Record::missing(files.media(), files.folder())? {
                return Ok(Some(format!("{} is missing or no record", path.display())));
            }
            if record.built > state.end {
                let (built, end) = (record.built, state.end);
                return Ok(Some(format!(
                    "rows are said to reach to sample {built}, but the signal ends at {end}"
                )));
            }
            let empty = |range: Range<i64>| {
                state.gaps.missing_within(range.clone()) == range.end - range.start
            };
            if let Some(damage) = files.damage(source.built, empty)? {
                return Ok(Some(damage));
            }
            if !deep || source.built == 0 {
                return Ok(None);
            }
            difference(source)
        })
    }

    pub(crate) fn with_source<R>(
        &self,
        backend: &Backend,
        id: SignalId,
        read: impl Fn(&Source<'_>, &SignalState) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        if !backend.is_writable() {
            return self.with_rows_of_writer(backend, id, read);
        }
        let state = backend.state(id)?;
        let samples = StoredSamples::decoded(backend, &state)?;
        let dtype = state.meta.format.dtype();
        let entry = self.entry(backend, id)?;
        let entry = &mut *lock(&entry);
        entry.files.moved(&backend.signal_path(id)?);
        if !entry.touched.is_empty() {
            // Rows are about to include uncommitted samples.
            entry.before_commit()?;
            entry.renew(backend, &state, &self.boot)?;
        }
        let built = match &entry.builder {
            Some(builder) => builder.built(),
            None => entry.record.sound(&self.boot),
        };
        let built = built.min(state.end);
        read(
            &Source {
                dtype,
                built,
                rows: &entry.files,
                samples: &samples,
            },
            &state,
        )
    }

    /// Reads rows while a writer may move, replace and remove files: a result counts only if the rows are there and
    /// valid afterwards.
    fn with_rows_of_writer<R>(
        &self,
        backend: &Backend,
        id: SignalId,
        read: impl Fn(&Source<'_>, &SignalState) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        let mut attempts = 0;
        loop {
            let state = backend.state(id)?;
            let dtype = state.meta.format.dtype();
            let folder = backend.signal_path(id)?;
            let files = self.files_in(backend, id, &folder, state.meta.format)?;
            let reach = || -> Result<i64, StoreError> {
                Ok(Record::load(&files, &state)?.sound(&self.boot))
            };
            // Finally from samples alone, which a reader always finds.
            let built = match attempts {
                MAX_ATTEMPTS => 0,
                _ => reach()?.min(state.end),
            };
            let source = Source {
                dtype,
                built,
                rows: &files,
                samples: &StoredSamples::decoded(backend, &state)?,
            };
            let result = read(&source, &state);
            if built == 0 || (is_of(&*self.media, &folder, id) && reach()? >= built) {
                return result;
            }
            attempts += 1;
            // A shown snapshot does not change.
            backend.read_commits()?;
        }
    }
}
