//! Copies all or some signals of a store, to disk or to and from object storage. Copies are consistent, even beside an
//! active writer.
//!
//! A backup is a store with the source's uuid. It reaches a committed state of the source by its own commits and is
//! valid after each. Data recognised by tables and checksums is not copied again. Every full chunk is checked against
//! the source's checksum, so damage does not spread. Protocol: `docs/design/backups.md`.

mod copy;
mod difference;
mod marker;
mod names;
mod progress;
mod rounds;
mod sealed_array;
mod signal_error;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use isochrony_runtime::Progress;

use crate::backend::Backend;
use crate::engine::io::IoContext;
use crate::engine::manifest::is_store;
use crate::engine::{Engine, OpenMode, of_existing};
use crate::error::StoreError;
use crate::layout;
use crate::media::{self, Kind, Media};
use crate::names::Pattern;
use crate::options::Mode;
use crate::store::Store;

use marker::Marker;
use progress::CopyProgress;
use rounds::Backup;

pub(crate) use marker::refuse_unfinished;

/// Result of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BackupReport {
    /// The source's commit that the backup shows.
    pub sequence: u64,
    /// Signals in the backup.
    pub signals: usize,
    /// Bytes of samples copied.
    pub copied_bytes: u64,
    /// Bytes of samples already present.
    pub kept_bytes: u64,
    /// Signals removed: gone from the source.
    pub removed: usize,
    /// Signals that failed, with reasons. The backup keeps their previous state.
    pub failed: Vec<(String, String)>,
}

/// Options of a copy.
#[derive(Debug, Clone)]
pub struct CopyOptions {
    /// Signals to copy; empty: all. Others in the copy stay.
    pub signals: Vec<Pattern>,
    /// Bytes between commits. A smaller update is one commit, before which the copy shows its old state.
    pub commit_bytes: u64,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self {
            signals: Vec::new(),
            commit_bytes: 256 << 20,
        }
    }
}

impl CopyOptions {
    fn selects(&self, name: &str) -> bool {
        self.signals.is_empty() || self.signals.iter().any(|one| one.matches(name))
    }
}

/// Gets bytes of samples copied and to copy.
pub type OnProgress<'a> = dyn FnMut(&Progress) + 'a;

/// Copies the committed state of `source` to `target`, creating or updating it. Each is a folder or the URL of a store
/// in object storage.
///
/// # Errors
/// [`StoreError::NotAStore`], [`StoreError::NotABackup`], [`StoreError::NoMatchingSignals`], [`StoreError::Locked`],
/// [`StoreError::NeedsRecovery`], [`StoreError::DiskFull`], [`StoreError::Remote`] and I/O errors. The next copy
/// continues.
pub fn copy_store(
    source: impl AsRef<Path>,
    target: impl AsRef<Path>,
    options: &CopyOptions,
    progress: &mut OnProgress<'_>,
) -> Result<BackupReport, StoreError> {
    let source = Store::open(source, Mode::Read).map_err(of_existing)?;
    copy_to(&source, target.as_ref(), options, progress)
}

/// [`copy_store`] of all signals.
///
/// # Errors
/// As [`copy_store`].
pub fn backup(
    source: impl AsRef<Path>,
    target: impl AsRef<Path>,
    progress: &mut OnProgress<'_>,
) -> Result<BackupReport, StoreError> {
    copy_store(source, target, &CopyOptions::default(), progress)
}

impl Store {
    /// Copies all that is committed to `target`.
    ///
    /// # Errors
    /// As [`copy_store`].
    pub fn backup(
        &self,
        target: impl AsRef<Path>,
        progress: &mut OnProgress<'_>,
    ) -> Result<BackupReport, StoreError> {
        self.uuid()?;
        let source = Self::open_on(self.path(), Mode::Read, self.shared().backend.media())?;
        let options = CopyOptions::default();
        copy_to(&source, target.as_ref(), &options, progress)
    }
}

fn copy_to(
    source: &Store,
    target: &Path,
    options: &CopyOptions,
    progress: &mut OnProgress<'_>,
) -> Result<BackupReport, StoreError> {
    if source.is_stale() {
        return Err(StoreError::NeedsRecovery {
            path: source.path().into(),
        });
    }
    let target = media::absolute(target)?;
    refuse_empty_selection(source, options)?;
    let around = media::media_to_write(&target)?;
    let media = around.rooted(&target);
    let mut marker = prepare(source, options, &target, &*around, &*media)?;
    let selection: Vec<String> = options
        .signals
        .iter()
        .map(|one| one.as_str().into())
        .collect();
    let is_torn = !marker.complete || media.is_published() && marker.updating;
    if is_torn && !selection.is_empty() && selection != marker.selection {
        return Err(refused(
            source,
            &target,
            "an earlier copy there was interrupted, of other signals; finish it with the same selection or with none",
        ));
    }
    marker.selection = selection;
    marker.run = uuid::Uuid::new_v4().simple().to_string();
    let uuid = source.shared().backend.uuid()?;
    let engine = Engine::open_on(&target, OpenMode::Backup(uuid), around)?;
    if marker.complete && !marker.updating && marker.own_sequence != engine.sequence() {
        return Err(refused(
            source,
            &target,
            "it was written to since the last backup",
        ));
    }
    if media.is_published() && engine.was_recovered() {
        // Recovery from objects ahead of the log gives a state that the source never had.
        marker.complete = false;
    }
    let backend = Backend::writer(&target, engine);
    let store = Store::new(backend, Mode::ReadWrite, false);
    store.shared().restore_views();
    let mut backup = Backup {
        source,
        target: &store,
        options,
        report: BackupReport::default(),
        skipped: BTreeSet::new(),
        tries: BTreeMap::new(),
        progress: CopyProgress::new(progress, media.is_published()),
    };
    marker.updating = true;
    let done = marker
        .write(&*media, &target)
        .and_then(|()| publish(&*media, &target))
        .and_then(|()| match media.is_published() {
            true => backup.remove_leftovers(),
            false => Ok(()),
        })
        .and_then(|()| backup.run(&mut marker))
        .and_then(|()| backup.copy_attributes());
    let report = std::mem::take(&mut backup.report);
    if let Err(error) = done {
        // Commits so far are not copied again.
        let _ = store.close();
        return Err(error);
    }
    marker.own_sequence = store.sequence()?;
    store.close()?;
    publish(&*media, &target)?;
    marker.sequence = report.sequence;
    (marker.complete, marker.updating) = (true, false);
    marker.write(&*media, &target)?;
    publish(&*media, &target)?;
    Ok(report)
}

fn publish(media: &dyn Media, target: &Path) -> Result<(), StoreError> {
    media.publish(&mut |_| ()).at("push to", target)
}

fn refuse_empty_selection(source: &Store, options: &CopyOptions) -> Result<(), StoreError> {
    let names = source.names()?;
    match options.signals.is_empty() || names.iter().any(|name| options.selects(name)) {
        true => Ok(()),
        false => Err(StoreError::NoMatchingSignals {
            path: source.path().into(),
            count: names.len(),
        }),
    }
}

fn refused(source: &Store, target: &Path, reason: &str) -> StoreError {
    StoreError::NotABackup {
        path: target.into(),
        store: source.path().into(),
        reason: reason.into(),
    }
}

fn prepare(
    source: &Store,
    options: &CopyOptions,
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
    let mut marker = Marker::begun(&uuid, source.path());
    marker.selection = options
        .signals
        .iter()
        .map(|one| one.as_str().into())
        .collect();
    let engine = layout::engine_folder(target);
    let above = target.ancestors().skip(1);
    let mut above = above.filter(|above| matches!(around.stat(above), Ok(Some(_))));
    let above = above.next().unwrap_or(target).to_path_buf();
    around.make_folders(&above, &engine).at("create", target)?;
    marker.write(media, target)?;
    publish(media, target)?;
    Ok(marker)
}

#[cfg(test)]
mod tests;
