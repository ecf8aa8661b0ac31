//! MANIFEST anew, from the logs that are there: it says no more than which of them is live.
//!
//! As a rule there is one log. A checkpoint makes the next one whole before MANIFEST names it, and removes the old one
//! after, so two may be left by a crash, or by a full disk that kept the flip from happening. Only the live one grows:
//! if the older went on behind the newer's base, the flip did not happen. What is not clear is not guessed.

use std::path::Path;

use uuid::Uuid;

use super::io::IoContext;
use super::log::{self, Header, Records};
use super::manifest::Manifest;
use super::{lock, open};
use crate::error::StoreError;
use crate::layout::{self, zarr::FORMAT};
use crate::media::{Media, Site, limits};

/// What is wrong with a store's MANIFEST; `None` if it can be read (or was written by a newer version).
pub(crate) fn damage(media: &dyn Media, root: &Path) -> Result<Option<String>, StoreError> {
    match Manifest::read(media, root) {
        Ok(Some(_)) | Err(StoreError::NewerFormat { .. }) => Ok(None),
        Ok(None) if generations(media, root).is_empty() => Ok(None),
        // One that was being created: it is no store before it has a MANIFEST.
        Ok(None) if is_begun_only(media, root) => Ok(None),
        Ok(None) => Ok(Some("it is missing, but a redo log is there".into())),
        Err(StoreError::DamagedFile { reason, .. }) => Ok(Some(reason.into())),
        Err(error) => Err(error),
    }
}

/// Whether nothing but the engine's folder is there: the group is described once there is a MANIFEST.
fn is_begun_only(media: &dyn Media, root: &Path) -> bool {
    let names = media.list(root).unwrap_or_default();
    names.iter().all(|name| name == layout::ENGINE)
}

/// Writes MANIFEST anew if the logs leave no doubt what it said; whether it did.
pub(crate) fn rebuild(media: &dyn Media, root: &Path) -> Result<bool, StoreError> {
    // The text that says who holds the lock stays behind, so that the next writer recovers the store.
    let (_lock, _) = lock::acquire(media, root)?;
    let Some(manifest) = find(media, root)? else {
        return Ok(false);
    };
    manifest.write(media, root)?;
    let folder = layout::engine_folder(root);
    let synced = media.sync_folder(&folder, Site::ManifestFolder);
    synced.at("sync", &folder)?;
    open::is_store(media, root)
}

/// What MANIFEST must say; `None` if that is in doubt.
pub(crate) fn find(media: &dyn Media, root: &Path) -> Result<Option<Manifest>, StoreError> {
    let mut logs = Vec::new();
    for generation in generations(media, root) {
        match Candidate::read(media, root, generation)? {
            Some(log) => logs.push(log),
            None => return Ok(None),
        }
    }
    logs.sort_by_key(|log| log.header.generation);
    let Some(newest) = logs.pop() else {
        return Ok(None);
    };
    let live = match logs.pop() {
        None => newest,
        Some(older) if !logs.is_empty() || older.header.uuid != newest.header.uuid => {
            return Ok(None);
        }
        Some(older) if older.last <= newest.base => newest,
        Some(older) if newest.last == newest.base => older,
        Some(_) => return Ok(None),
    };
    Ok(Some(Manifest {
        format: FORMAT,
        uuid: Uuid::from_bytes(live.header.uuid),
        generation: live.header.generation,
    }))
}

/// A log that may be the live one.
struct Candidate {
    header: Header,
    /// Sequence before its first record, and of its last.
    base: u64,
    last: u64,
}

impl Candidate {
    fn read(media: &dyn Media, root: &Path, generation: u64) -> Result<Option<Self>, StoreError> {
        let path = layout::log_file(root, generation);
        let bytes = media
            .read(&path, limits::LOG)
            .at("read", &path)?
            .unwrap_or_default();
        let Ok(opening) = log::parse_opening(&bytes) else {
            return Ok(None);
        };
        let mut records = Records::new(&bytes, opening.records_at, opening.sequence);
        let readable = records.by_ref().all(|record| record.is_ok());
        let whole = readable && !matches!(records.end(), log::LogEnd::Damaged(_));
        let belongs = opening.header.generation == generation;
        Ok((whole && belongs).then_some(Self {
            last: records.sequence,
            base: opening.sequence,
            header: opening.header,
        }))
    }
}

/// Generations of which there is a log.
fn generations(media: &dyn Media, root: &Path) -> Vec<u64> {
    let names = media.list(&layout::engine_folder(root)).unwrap_or_default();
    let numbers = names.iter().filter_map(|name| name.strip_prefix("log."));
    numbers.filter_map(|number| number.parse().ok()).collect()
}
