//! Rebuilds MANIFEST, which names the live log, from the existing logs.
//!
//! A checkpoint completes the next log before MANIFEST names it and removes the old one afterwards, so a crash or a
//! full disk may leave two. Only the live one grows: if the older continues past the newer's base, MANIFEST was not
//! switched.

use std::path::Path;

use uuid::Uuid;

use super::io::IoContext;
use super::lock;
use super::log::{self, Header, Records};
use super::manifest::{Manifest, is_store};
use crate::error::StoreError;
use crate::layout::{self, zarr::FORMAT};
use crate::media::{Media, Site, limits};

/// `None` if readable (or of a newer version).
pub(crate) fn damage(media: &dyn Media, root: &Path) -> Result<Option<String>, StoreError> {
    match Manifest::read(media, root) {
        Ok(Some(_)) | Err(StoreError::NewerFormat { .. }) => Ok(None),
        Ok(None) if generations(media, root).is_empty() => Ok(None),
        // Without MANIFEST it is not a store.
        Ok(None) if is_begun_only(media, root) => Ok(None),
        Ok(None) => Ok(Some("it is missing, but a redo log is there".into())),
        Err(StoreError::DamagedFile { reason, .. }) => Ok(Some(reason.into())),
        Err(error) => Err(error),
    }
}

/// Whether only the engine's folder exists: the group's metadata is written after MANIFEST.
fn is_begun_only(media: &dyn Media, root: &Path) -> bool {
    let names = media.list(root).unwrap_or_default();
    names.iter().all(|name| name == layout::ENGINE)
}

/// Whether the logs were unambiguous.
pub(crate) fn rebuild(media: &dyn Media, root: &Path) -> Result<bool, StoreError> {
    // Keeps the holder's text in the lock file, so that the next writer recovers.
    let (_lock, _) = lock::acquire(media, root)?;
    let Some(manifest) = find(media, root)? else {
        return Ok(false);
    };
    manifest.write(media, root)?;
    let folder = layout::engine_folder(root);
    let synced = media.sync_folder(&folder, Site::ManifestFolder);
    synced.at("sync", &folder)?;
    is_store(media, root)
}

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

struct Candidate {
    header: Header,
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

fn generations(media: &dyn Media, root: &Path) -> Vec<u64> {
    let names = media.list(&layout::engine_folder(root)).unwrap_or_default();
    let numbers = names.iter().filter_map(|name| name.strip_prefix("log."));
    numbers.filter_map(|number| number.parse().ok()).collect()
}
