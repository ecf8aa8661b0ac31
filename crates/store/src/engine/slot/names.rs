//! Paths of a signal's files, and which names are not yet durable.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::SlotInner;
use crate::engine::io::IoContext;
use crate::engine::sync_batch::SyncBatch;
use crate::error::StoreError;
use crate::layout;
use crate::media::{Access, Kind, Media, Site};

impl SlotInner {
    /// The folder of `data`, or of its pending replacement.
    pub(crate) fn data_folder(&self, root: &Path) -> PathBuf {
        match &self.replaced_data {
            Some(tmp) => layout::tmp_folder(root).join(tmp),
            None => self.folder.join("data"),
        }
    }

    /// The shard's file, or its pending replacement.
    pub(crate) fn data_shard(&self, root: &Path, shard: u64) -> PathBuf {
        match self.replaced.get(&shard) {
            Some(tmp) => layout::tmp_folder(root).join(tmp),
            None => layout::data_shard_file(&self.data_folder(root), self.base.meta.format, shard),
        }
    }

    pub(crate) fn ensure_folder(&mut self, media: &dyn Media) -> Result<(), StoreError> {
        if self.exists {
            return Ok(());
        }
        media.remove_all(&self.folder).at("remove", &self.folder)?;
        if let Some(parent) = self.folder.parent() {
            self.dirty.parents.insert(parent.to_path_buf());
        }
        media.make_folder(&self.folder).at("create", &self.folder)?;
        self.write_identity_in(media, layout::IDENTITY)?;
        self.exists = true;
        Ok(())
    }

    pub(crate) fn write_identity(&mut self, media: &dyn Media) -> Result<(), StoreError> {
        let crc = self.folder.join("crc");
        match media.stat(&crc).at("look at", &crc)? {
            Some(_) => self.write_identity_in(media, layout::IDENTITY_BESIDE_DATA),
            None => self.write_identity_in(media, layout::IDENTITY),
        }
    }

    /// `false` if something other than a file is there.
    pub(crate) fn rewrite_identity(&mut self, media: &dyn Media) -> Result<bool, StoreError> {
        for inside in [layout::IDENTITY, layout::IDENTITY_BESIDE_DATA] {
            let path = self.folder.join(inside);
            match media.stat(&path) {
                Ok(None) => {}
                Ok(Some(Kind::File(_))) => media.remove_file(&path).at("remove", &path)?,
                _ => return Ok(false),
            }
        }
        self.write_identity(media)?;
        Ok(true)
    }

    /// This file stays when the array `data` is replaced.
    pub(crate) fn write_identity_beside_data(
        &mut self,
        media: &dyn Media,
    ) -> Result<(), StoreError> {
        self.write_identity_in(media, layout::IDENTITY_BESIDE_DATA)
    }

    fn write_identity_in(
        &mut self,
        media: &dyn Media,
        inside: &'static str,
    ) -> Result<(), StoreError> {
        let path = self.folder.join(inside);
        if let Some(array) = Path::new(inside).parent() {
            self.subfolder(media, array)?;
            self.dirty.folders.insert(array.to_path_buf());
        }
        let file = media.open(&path, Access::Create).at("open", &path)?;
        file.write_at(0, layout::identity(self.id).as_bytes())
            .at("write", &path)?;
        self.dirty.identity.insert(inside);
        Ok(())
    }

    pub(crate) fn subfolder(&mut self, media: &dyn Media, inside: &Path) -> Result<(), StoreError> {
        let mut above: Vec<&Path> = inside.ancestors().collect();
        above.reverse();
        for folder in above.into_iter().skip(1) {
            self.require_name(folder);
            let path = self.folder.join(folder);
            if media.stat(&path).at("look at", &path)?.is_none() {
                // First: if the disk is full halfway, the next attempt finds it made.
                self.dirty
                    .folders
                    .extend(folder.parent().map(Path::to_path_buf));
                media.make_folder(&path).at("create", &path)?;
            }
        }
        Ok(())
    }

    /// Every writer syncs the folder once: the last one may have been killed right after creating it.
    pub(crate) fn require_name(&mut self, inside: &Path) {
        if !self.durable_names.contains(inside) {
            self.dirty
                .folders
                .extend(inside.parent().map(Path::to_path_buf));
            self.dirty.pending_names.insert(inside.to_path_buf());
        }
    }

    pub(crate) fn forget_name(&mut self, inside: &Path) {
        self.durable_names.retain(|name| !name.starts_with(inside));
        self.dirty
            .pending_names
            .retain(|name| !name.starts_with(inside));
    }

    pub(crate) fn names_due(&self, syncs: &mut SyncBatch, identity: Site, folder: Site) {
        for inside in &self.dirty.identity {
            syncs.file(self.folder.join(inside), identity);
        }
        for inside in &self.dirty.folders {
            syncs.folder(self.folder.join(inside), folder);
        }
        for path in &self.dirty.parents {
            syncs.folder(path.clone(), folder);
        }
    }

    pub(crate) fn names_synced(&mut self) {
        self.dirty.identity.clear();
        self.dirty.folders.clear();
        self.dirty.parents.clear();
        let pending_names = std::mem::take(&mut self.dirty.pending_names);
        self.durable_names.extend(pending_names);
    }

    pub(crate) fn mark_durable(&mut self, names: BTreeSet<PathBuf>) {
        self.durable_names.extend(names);
    }
}
