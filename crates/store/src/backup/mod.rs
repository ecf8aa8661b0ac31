//! Backups: a consistent copy of a store, also beside a writer at work.
//!
//! A backup is a store of the same identity. It is brought to a state that the source committed, by commits of its own, so
//! it is whole after each of them and survives a crash as any store does. What it holds already is not copied again: states
//! are compared table by table, samples by their checksums. Every full chunk is compared with the source's checksum
//! before it is stored, so damage of the source does not spread. Section 8 of `docs/design.md` has the protocol.

mod copy;
mod difference;
mod marker;
mod sealed_array;
mod signal_error;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use isochrony_runtime::Progress;

use crate::backend::Backend;
use crate::engine::io::IoContext;
use crate::engine::open::is_store;
use crate::engine::{Engine, OpenMode};
use crate::error::StoreError;
use crate::layout;
use crate::media::{Kind, Media};
use crate::op::SignalId;
use crate::options::Mode;
use crate::state::SignalState;
use crate::store::Store;

use difference::Difference;
use marker::Marker;
use signal_error::{CopyError, SignalError};

pub(crate) use marker::refuse_unfinished;

/// Bytes between two commits: what a killed backup copies again. Updates up to this size are one commit, until which the
/// backup stays as it was and can be opened.
const COMMIT_BYTES: u64 = 256 << 20;

/// How often a source is looked at again that changes samples while they are copied.
const MAX_ROUNDS: usize = 8;
/// How often a signal is tried whose samples a writer replaces while they are copied.
const MAX_TRIES: usize = 16;
/// How often a signal is tried that failed though nothing but appends happened to it.
const MAX_TRIES_UNCHANGED: usize = 2;

/// What a backup did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BackupReport {
    /// The commit of the source whose state the backup holds now.
    pub sequence: u64,
    /// Signals in it.
    pub signals: usize,
    /// Bytes of samples that were copied.
    pub copied_bytes: u64,
    /// Bytes of samples that it held already.
    pub kept_bytes: u64,
    /// Signals that were removed from it, since the source has them no more.
    pub removed: usize,
    /// Signals that could not be copied, and why. The backup holds them as it did before.
    pub failed: Vec<(String, String)>,
}

/// Called with the bytes of samples that were copied, and that there are to copy.
pub type OnProgress<'a> = dyn FnMut(&Progress) + 'a;

/// The source's signals as of one commit.
struct Snapshot {
    sequence: u64,
    signals: Vec<(SignalId, Arc<SignalState>)>,
    /// Signals that are not copied.
    left_out: Vec<SignalId>,
}

/// Copies what is committed in the store at `source` to the folder `target`, which is made if missing: a new backup, or
/// one that is brought up to date.
///
/// # Errors
/// [`StoreError::NotAStore`], [`StoreError::NotABackup`], [`StoreError::Locked`], [`StoreError::NeedsRecovery`],
/// [`StoreError::DiskFull`] and what else the system says: the next backup goes on where this one stopped.
pub fn backup(
    source: impl AsRef<Path>,
    target: impl AsRef<Path>,
    progress: &mut OnProgress<'_>,
) -> Result<BackupReport, StoreError> {
    let source = Store::open(source, Mode::Read)?;
    backup_to(&source, target.as_ref(), COMMIT_BYTES, progress)
}

impl Store {
    /// Copies what is committed to the folder `target`; see [`backup`].
    ///
    /// # Errors
    /// As [`backup`].
    pub fn backup(
        &self,
        target: impl AsRef<Path>,
        progress: &mut OnProgress<'_>,
    ) -> Result<BackupReport, StoreError> {
        self.uuid()?;
        let source = Self::open_on(self.path(), Mode::Read, self.shared().backend.media())?;
        backup_to(&source, target.as_ref(), COMMIT_BYTES, progress)
    }
}

fn backup_to(
    source: &Store,
    target: &Path,
    commit_bytes: u64,
    progress: &mut OnProgress<'_>,
) -> Result<BackupReport, StoreError> {
    if source.is_stale() {
        return Err(StoreError::NeedsRecovery {
            path: source.path().into(),
        });
    }
    let target = std::path::absolute(target).at("look at", target)?;
    let around = crate::media::disk();
    let media = around.rooted(&target);
    let mut marker = prepare(source, &target, &*around, &*media)?;
    let uuid = source.shared().backend.uuid()?;
    let engine = Engine::open_on(&target, OpenMode::Backup(uuid), around)?;
    if marker.complete && !marker.updating && marker.own_sequence != engine.sequence() {
        return Err(refused(
            source,
            &target,
            "it was written to since the last backup",
        ));
    }
    let backend = Backend::writer(&target, engine);
    let store = Store::new(backend, Mode::ReadWrite, false);
    store.shared().restore_views();
    let mut backup = Backup {
        source,
        target: &store,
        report: BackupReport::default(),
        skipped: BTreeSet::new(),
        tries: BTreeMap::new(),
        commit_bytes,
        progress,
    };
    marker.updating = true;
    let done = marker
        .write(&*media, &target)
        .and_then(|()| backup.run(&mut marker))
        .and_then(|()| backup.copy_attributes());
    let report = std::mem::take(&mut backup.report);
    if let Err(error) = done {
        // What was committed stays and is not copied again; the rest is forgotten.
        let _ = store.close();
        return Err(error);
    }
    marker.own_sequence = store.sequence()?;
    store.close()?;
    marker.sequence = report.sequence;
    (marker.complete, marker.updating) = (true, false);
    marker.write(&*media, &target)?;
    Ok(report)
}

fn refused(source: &Store, target: &Path, reason: &str) -> StoreError {
    StoreError::NotABackup {
        path: target.into(),
        store: source.path().into(),
        reason: reason.into(),
    }
}

/// Looks at what is at `target`, and marks a new backup as one that is not complete.
fn prepare(
    source: &Store,
    target: &Path,
    around: &dyn Media,
    media: &dyn Media,
) -> Result<Marker, StoreError> {
    let uuid = source.uuid()?;
    if target.starts_with(source.path()) || source.path().starts_with(target) {
        return Err(refused(
            source,
            target,
            "one folder would lie inside the other",
        ));
    }
    let at = around.stat(target).at("look at", target)?;
    if matches!(at, Some(Kind::File(_))) {
        return Err(refused(source, target, "it is a file"));
    }
    let found = Marker::read(media, target)?;
    if let Some(marker) = found {
        return match marker.uuid == uuid {
            true => Ok(marker),
            false => Err(refused(source, target, "it is a backup of another store")),
        };
    }
    if is_store(media, target)? {
        return Err(refused(source, target, "it is a store, and no backup"));
    }
    if at.is_some() && !media.list(target).at("list", target)?.is_empty() {
        return Err(refused(source, target, "the folder holds other files"));
    }
    let marker = Marker::begun(&uuid, source.path());
    let engine = layout::engine_folder(target);
    let above = target.ancestors().skip(1);
    let mut above = above.filter(|above| matches!(around.stat(above), Ok(Some(_))));
    let above = above.next().unwrap_or(target).to_path_buf();
    around.make_folders(&above, &engine).at("create", target)?;
    marker.write(media, target)?;
    Ok(marker)
}

/// A backup under way.
struct Backup<'a, 'b> {
    source: &'a Store,
    target: &'a Store,
    report: BackupReport,
    /// Names of signals that cannot be copied: one that is overwritten again and again has another id each time.
    skipped: BTreeSet<String>,
    /// How often a signal of each name failed.
    tries: BTreeMap<String, usize>,
    /// Bytes between two commits of large updates.
    commit_bytes: u64,
    progress: &'a mut OnProgress<'b>,
}

impl Backup<'_, '_> {
    fn run(&mut self, marker: &mut Marker) -> Result<(), StoreError> {
        let mut copied = false;
        let mut rounds = 0;
        while rounds < MAX_ROUNDS {
            let snapshot = self.snapshot()?;
            let difference = Difference::of(self.source, self.target, &snapshot, &self.skipped)?;
            if !difference.failed.is_empty() {
                for failure in difference.failed {
                    self.retry_or_skip(&snapshot, failure)?;
                }
                continue;
            }
            if copied && !difference.changes_samples() {
                // What came meanwhile is for the next backup.
                break;
            }
            self.keep_ids(&snapshot)?;
            let held = snapshot.signals.iter().map(|(_, state)| {
                state.sample_count().unsigned_abs() * state.meta.format.size() as u64
            });
            if !copied {
                self.report.kept_bytes = held.sum::<u64>().saturating_sub(difference.bytes());
            }
            let large = difference.bytes() > COMMIT_BYTES;
            if large && marker.complete {
                marker.complete = false;
                let media = self.target.shared().backend.media();
                marker.write(&*media, self.target.path())?;
            }
            match self.apply(&difference, large || !marker.complete) {
                Ok(()) => copied = true,
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

    /// Decides whether a signal that failed is tried again: while a writer replaces its samples, and a few times only, so
    /// that the others are backed up in any case.
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

    /// Sees to it that a signal that is created in the backup once has a number of its own.
    fn keep_ids(&self, snapshot: &Snapshot) -> Result<(), StoreError> {
        let last = snapshot.signals.iter().map(|(id, _)| id.0).max();
        let engine = self.target.shared().backend.engine("back up")?;
        engine.keep_ids(last.map_or(0, |last| last + 1));
        Ok(())
    }

    /// Attributes of the store itself, which no commit holds.
    fn copy_attributes(&self) -> Result<(), StoreError> {
        let attributes = self.source.attributes()?;
        match self.target.attributes()? == attributes {
            true => Ok(()),
            false => self.target.set_attributes(&attributes),
        }
    }

    /// All signals as of one commit. One that cannot be read is left out.
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
                if self.skipped.contains(&name) {
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
            // Loading a signal may have read on.
            if backend.sequence()? == sequence {
                for (name, error) in &unreadable {
                    self.skip(name, error);
                }
                return Ok(snapshot);
            }
        }
    }
}

/// Whether a writer did more to a signal since the snapshot than append to it. What fails then may do so because of that.
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

#[cfg(test)]
mod tests;
