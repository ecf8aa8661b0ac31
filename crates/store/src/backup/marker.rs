//! The file that marks a store as a backup, complete or not.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::engine::io::{IoContext, replace_file};
use crate::error::StoreError;
use crate::layout;
use crate::media::{Media, Site, limits};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Marker {
    format: u32,
    pub(super) uuid: String,
    source: String,
    /// All signals are of one state of the source; else the store must not be opened.
    pub(super) complete: bool,
    pub(super) updating: bool,
    pub(super) sequence: u64,
    /// Last commit of backups; a later one is foreign.
    pub(super) own_sequence: u64,
    /// Id of the copy in progress, to detect a concurrent one.
    #[serde(default)]
    pub(super) run: String,
    /// Patterns of the copy in progress; empty: all signals.
    #[serde(default)]
    pub(super) selection: Vec<String>,
}

impl Marker {
    pub(super) fn begun(uuid: &str, source: &Path) -> Self {
        Self {
            format: 1,
            uuid: uuid.into(),
            source: source.display().to_string(),
            complete: false,
            updating: false,
            sequence: 0,
            own_sequence: 0,
            run: String::new(),
            selection: Vec::new(),
        }
    }

    /// `None` if the store is not a backup.
    pub(super) fn read(media: &dyn Media, root: &Path) -> Result<Option<Self>, StoreError> {
        let path = path(root);
        let Some(bytes) = media.read(&path, limits::LINE * 16).at("read", &path)? else {
            return Ok(None);
        };
        match serde_json::from_slice(&bytes) {
            Ok(marker) => Ok(Some(marker)),
            Err(_) => Err(StoreError::DamagedFile {
                path,
                offset: 0,
                reason: "it does not say what it is a backup of",
            }),
        }
    }

    pub(super) fn write(&self, media: &dyn Media, root: &Path) -> Result<(), StoreError> {
        let path = path(root);
        let tmp = path.with_extension("__tmp");
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        replace_file(media, &tmp, &path, &bytes, Some(Site::StoreFolder))?;
        let folder = layout::engine_folder(root);
        let synced = media.sync_folder(&folder, Site::StoreFolder);
        synced.at("sync", &folder)
    }
}

fn path(root: &Path) -> PathBuf {
    layout::engine_folder(root).join("BACKUP")
}

/// Fails if the signals are not all of one state.
pub(crate) fn refuse_unfinished(media: &dyn Media, root: &Path) -> Result<(), StoreError> {
    match Marker::read(media, root) {
        Ok(Some(marker)) if !marker.complete => {
            Err(StoreError::UnfinishedBackup { path: root.into() })
        }
        // Unreadable: completeness is unknown.
        Err(error @ (StoreError::Remote { .. } | StoreError::Interrupted { .. })) => Err(error),
        _ => Ok(()),
    }
}
