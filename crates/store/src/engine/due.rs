//! Syncs that are due at the same point of the protocol.
//!
//! A signal is a dozen small files and folders, each of which needs a sync of its own, and each sync waits for the disk.
//! Where hundreds are due at once (many signals made at once), one sync of the whole volume takes their place if the
//! medium has one. Nothing is marked as durable before all of it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::io::IoContext;
use super::shared::Shared;
use super::slot::sync_if_there;
use crate::error::StoreError;
use crate::media::{Access, Media, Site};

/// What is to be made durable, and why.
#[derive(Debug, Default)]
pub(crate) struct Due {
    files: BTreeMap<PathBuf, Site>,
    folders: BTreeMap<PathBuf, Site>,
}

impl Due {
    /// A file, which must exist: its bytes and length.
    pub(crate) fn file(&mut self, path: PathBuf, site: Site) {
        self.files.insert(path, site);
    }

    /// The names in a folder; one that was removed since needs no sync.
    pub(crate) fn folder(&mut self, path: PathBuf, site: Site) {
        self.folders.insert(path, site);
    }

    /// Makes all of it durable: by one sync of the volume, in the name of `together`, where that is cheaper. A sync that
    /// fails poisons.
    pub(crate) fn settle(mut self, shared: &Shared, together: Site) -> Result<(), StoreError> {
        let media = &*shared.media;
        let count = self.files.len() + self.folders.len();
        if let Some(volume) = &shared.volume
            && count >= volume.pays_from()
        {
            // What somebody linked in from elsewhere, and what is not there, is left to the syncs one by one.
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
    shared: &Shared,
    media: &dyn Media,
    path: &Path,
    site: Site,
) -> Result<(), StoreError> {
    let file = media.open(path, Access::Write).at("open", path)?;
    shared.must(file.sync(site).at("sync", path))
}
