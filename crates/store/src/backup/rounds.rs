//! Copies in rounds: the source may change samples meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::difference::{Difference, Snapshot};
use super::marker::Marker;
use super::progress::CopyProgress;
use super::signal_error::{CopyError, SignalError};
use super::{BackupReport, CopyOptions};
use crate::engine::io::IoContext;
use crate::error::StoreError;
use crate::op::SignalId;
use crate::state::SignalState;
use crate::store::Store;

/// Bounds the staged files of a push.
pub(super) const MAX_SIGNALS_PER_COMMIT: usize = 1000;
/// Rounds for a source that changes samples.
const MAX_ROUNDS: usize = 8;
/// Tries of a signal whose samples a writer replaces.
const MAX_TRIES: usize = 16;
/// Tries of a signal that is at most appended to.
const MAX_TRIES_UNCHANGED: usize = 2;

pub(super) struct Backup<'a, 'b> {
    pub(super) source: &'a Store,
    pub(super) target: &'a Store,
    pub(super) options: &'a CopyOptions,
    pub(super) report: BackupReport,
    /// Names, because each overwrite gives a signal another id.
    pub(super) skipped: BTreeSet<String>,
    pub(super) tries: BTreeMap<String, usize>,
    pub(super) progress: CopyProgress<'a, 'b>,
}

impl Backup<'_, '_> {
    pub(super) fn run(&mut self, marker: &mut Marker) -> Result<(), StoreError> {
        let mut copied = false;
        let mut retired = 0;
        let mut rounds = 0;
        while rounds < MAX_ROUNDS {
            let snapshot = self.snapshot()?;
            if copied && snapshot.sequence == self.report.sequence {
                break;
            }
            let (skipped, options) = (&self.skipped, self.options);
            let stays = |name: &str| skipped.contains(name) || !options.selects(name);
            let difference = Difference::of(self.source, self.target, &snapshot, &stays)?;
            if !difference.failed.is_empty() {
                for failure in difference.failed {
                    self.retry_or_skip(&snapshot, failure)?;
                }
                continue;
            }
            if copied && !difference.changes_samples() {
                break;
            }
            self.keep_ids(&snapshot)?;
            let held = snapshot.signals.iter().map(|(_, state)| {
                state.sample_count().unsigned_abs() * state.meta.format.size() as u64
            });
            if !copied {
                self.report.kept_bytes = held.sum::<u64>().saturating_sub(difference.bytes());
            }
            let media = self.target.shared().backend.media();
            let replaces = media.is_published() && difference.replaces(&self.target.names()?);
            let is_large = difference.bytes() > self.options.commit_bytes
                || difference.signals.len() > MAX_SIGNALS_PER_COMMIT;
            // Such commits write tables ahead of what is published.
            let is_structural = media.is_published() && difference.is_structural();
            if marker.complete && (is_large || replaces || is_structural) {
                marker.complete = false;
                marker.write(&*media, self.target.path())?;
                self.publish()?;
            }
            let generation = self.generation()?;
            let done = match replaces && retired < MAX_ROUNDS {
                true => self.retire_replaced(&difference),
                false => self.apply(&difference, is_large || !marker.complete),
            };
            match done {
                Ok(()) if replaces && retired < MAX_ROUNDS => {
                    retired += 1;
                    // The copy lacks what replaces it.
                    copied = false;
                    continue;
                }
                Ok(()) => {
                    // Publish before closing writes tables: readers must know their state. A commit that started
                    // another log has written some.
                    if marker.complete && media.is_published() && generation != self.generation()? {
                        marker.complete = false;
                        marker.write(&*media, self.target.path())?;
                    }
                    self.publish()?;
                    copied = true;
                }
                Err(CopyError::Other(error)) => return Err(*error),
                Err(CopyError::Signal(failure)) => {
                    self.target.shared().rollback()?;
                    self.retry_or_skip(&snapshot, failure)?;
                    continue;
                }
            }
            rounds += 1;
            self.report.sequence = snapshot.sequence;
            self.report.signals = snapshot.signals.len();
            self.report.removed += difference.removed.len();
        }
        Ok(())
    }

    pub(super) fn publish(&mut self) -> Result<(), StoreError> {
        let (media, progress) = (self.target.shared().backend.media(), &mut self.progress);
        let published = media.publish(&mut |bytes| progress.put(bytes));
        published.at("push to", self.target.path())?;
        self.progress.published();
        Ok(())
    }

    fn generation(&self) -> Result<u64, StoreError> {
        let engine = self.target.shared().backend.engine("back up")?;
        Ok(engine.generation())
    }

    /// A writer may be replacing its samples.
    fn retry_or_skip(
        &mut self,
        snapshot: &Snapshot,
        failure: SignalError,
    ) -> Result<(), StoreError> {
        let SignalError { id, name, error } = failure;
        self.source.refresh()?;
        let backend = &self.source.shared().backend;
        let limit = if has_changed(snapshot, id, &backend.state(id)) {
            MAX_TRIES
        } else if backend.sequence()? != snapshot.sequence {
            MAX_TRIES_UNCHANGED
        } else {
            1
        };
        let tries = self.tries.entry(name.clone()).or_default();
        *tries += 1;
        if *tries >= limit {
            self.skip(&name, &error);
        }
        Ok(())
    }

    fn skip(&mut self, name: &str, error: &StoreError) {
        if self.skipped.insert(name.into()) {
            self.report.failed.push((name.into(), error.to_string()));
        }
    }

    /// New signals of the backup must get other ids than the source's.
    fn keep_ids(&self, snapshot: &Snapshot) -> Result<(), StoreError> {
        let last = snapshot.signals.iter().map(|(id, _)| id.0).max();
        let engine = self.target.shared().backend.engine("back up")?;
        engine.keep_ids(last.map_or(0, |last| last + 1));
        Ok(())
    }

    /// The store's attributes are in no commit.
    pub(super) fn copy_attributes(&self) -> Result<(), StoreError> {
        let attributes = self.source.attributes()?;
        match self.target.attributes()? == attributes {
            true => Ok(()),
            false => self.target.set_attributes(&attributes),
        }
    }

    fn snapshot(&mut self) -> Result<Snapshot, StoreError> {
        let backend = &self.source.shared().backend;
        loop {
            self.source.refresh()?;
            let sequence = backend.sequence()?;
            let mut snapshot = Snapshot {
                sequence,
                signals: Vec::new(),
                left_out: Vec::new(),
            };
            let mut unreadable = Vec::new();
            for (id, name) in backend.catalogue()? {
                if self.skipped.contains(&name) || !self.options.selects(&name) {
                    snapshot.left_out.push(id);
                    continue;
                }
                match backend.state(id) {
                    Ok(state) => snapshot.signals.push((id, state)),
                    Err(StoreError::SignalRemoved { .. }) => {}
                    Err(error @ StoreError::Interrupted { .. }) => return Err(error),
                    Err(error) => {
                        snapshot.left_out.push(id);
                        unreadable.push((name, error));
                    }
                }
            }
            // Loading may have read later commits.
            if backend.sequence()? == sequence {
                for (name, error) in &unreadable {
                    self.skip(name, error);
                }
                return Ok(snapshot);
            }
        }
    }
}

/// Whether a writer did more than append.
fn has_changed(
    snapshot: &Snapshot,
    id: SignalId,
    now: &Result<Arc<SignalState>, StoreError>,
) -> bool {
    let old = snapshot.signals.iter().find(|(other, _)| *other == id);
    match (old, now) {
        (Some((_, old)), Ok(now)) => {
            let missing = |state: &SignalState| state.gaps.missing_within(0..old.end);
            now.name != old.name
                || now.meta != old.meta
                || !now.data.is_same(&old.data)
                || missing(now) != missing(old)
        }
        (_, Err(StoreError::SignalRemoved { .. } | StoreError::SignalOverwritten { .. })) => true,
        _ => false,
    }
}
