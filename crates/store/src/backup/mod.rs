//! Copies of a store, of all its signals or of some: backups on a disk, pushes to object storage, pulls from there. Each
//! is consistent, also beside a writer at work.
//!
//! A backup is a store of the same identity. It is brought to a state that the source committed, by commits of its own, so
//! it is whole after each of them and survives a crash as any store does. What it holds already is not copied again: states
//! are compared table by table, samples by their checksums. Every full chunk is compared with the source's checksum
//! before it is stored, so damage of the source does not spread. `docs/design/backups.md` has the protocol.

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
use crate::engine::open::is_store;
use crate::engine::{Engine, OpenMode};
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

/// What to copy.
#[derive(Debug, Clone)]
pub struct CopyOptions {
    /// Signals whose names fit one of these; all if there is none. Others that the copy has stay there as they are.
    pub signals: Vec<Pattern>,
    /// Bytes between two commits, which an interrupted copy does again. Updates up to this size are one commit, until
    /// which the copy stays as it was and can be opened.
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

/// Called with the bytes of samples that were copied, and that there are to copy.
pub type OnProgress<'a> = dyn FnMut(&Progress) + 'a;

/// Copies what is committed in the store at `source` to `target`, which is made if missing: a new copy, or one that is
/// brought up to date. Each may be a folder, or the URL of a store in object storage, where the copy's MANIFEST is
/// replaced last.
///
/// # Errors
/// [`StoreError::NotAStore`], [`StoreError::NotABackup`], [`StoreError::NoMatchingSignals`], [`StoreError::Locked`],
/// [`StoreError::NeedsRecovery`], [`StoreError::DiskFull`], [`StoreError::Remote`] and what else the system says: the next
/// copy goes on where this one stopped.
pub fn copy_store(
    source: impl AsRef<Path>,
    target: impl AsRef<Path>,
    options: &CopyOptions,
    progress: &mut OnProgress<'_>,
) -> Result<BackupReport, StoreError> {
    let source = Store::open(source, Mode::Read)?;
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
        // What recovery made of objects that were ahead of the log is no state of the source.
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
        // What was committed stays and is not copied again; the rest is forgotten.
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

/// Refuses a selection that selects nothing, which is a mistake as a rule.
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

/// Looks at what is at `target`, and marks a new backup as one that is not complete.
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
