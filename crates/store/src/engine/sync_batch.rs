//! Batches syncs due at one point of the protocol.
//!
//! A signal is a dozen small files and folders. For hundreds of new signals one sync of the volume replaces theirs, if
//! the medium has one. Nothing is marked durable before everything is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::engine_state::EngineState;
use super::io::IoContext;
use super::slot::sync_if_there;
use crate::error::StoreError;
use crate::media::{Access, Media, Site};

#[derive(Debug, Default)]
pub(crate) struct SyncBatch {
    files: BTreeMap<PathBuf, Site>,
    folders: BTreeMap<PathBuf, Site>,
}

impl SyncBatch {
    pub(crate) fn file(&mut self, path: PathBuf, site: Site) {
        self.files.insert(path, site);
    }

    /// Skips a folder that is removed meanwhile.
    pub(crate) fn folder(&mut self, path: PathBuf, site: Site) {
        self.folders.insert(path, site);
    }

    /// Uses one sync of the volume, for the site `together`, if cheaper. A failed sync poisons.
    pub(crate) fn sync(mut self, shared: &EngineState, together: Site) -> Result<(), StoreError> {
        let media = &*shared.media;
        let count = self.files.len() + self.folders.len();
        if let Some(volume) = &shared.volume
            && count >= volume.break_even_syncs()
        {
            // Files linked from elsewhere, and missing ones, are synced individually.
            self.files.retain(|path, _| !volume.holds(path));
            self.folders.retain(|path, _| !volume.holds(path));
            let synced = volume.sync(together).at("sync", &shared.root);
            shared.must(synced)?;
        }
        for (path, site) in &self.files {
            sync_file(shared, media, path, *site)?;
        }
        for (path, site) in &self.folders {
            shared.must(sync_if_there(media, path, *site))?;
        }
        Ok(())
    }
}

fn sync_file(
    shared: &EngineState,
    media: &dyn Media,
    path: &Path,
    site: Site,
) -> Result<(), StoreError> {
    let file = media.open(path, Access::Write).at("open", path)?;
    shared.must(file.sync(site).at("sync", path))
}
