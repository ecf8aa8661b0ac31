//! Moves folders of signals, always through `.isochrony/staging/<id>`: signals can swap names in one commit, and
//! recovery, which finds identity files, needs only the possible places.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;

use super::engine_state::{Core, EngineState};
use super::io::IoContext;
use super::slot::SlotInner;
use super::sync_batch::SyncBatch;
use crate::error::StoreError;
use crate::layout::{self, zarr};
use crate::media::{Kind, Site, limits};
use crate::op::SignalId;

impl EngineState {
    /// Makes plain groups above a signal's folder. Even after an error, those made must be durable before anything is
    /// moved into them.
    pub(crate) fn make_parents(&self, name: &str, syncs: &mut SyncBatch) -> Result<(), StoreError> {
        let media = &*self.media;
        let path = layout::signal_folder(&self.root, name);
        let parent = path.parent().unwrap_or(&self.root);
        let mut above: Vec<&Path> = parent.ancestors().collect();
        above.retain(|folder| folder.starts_with(&self.root) && *folder != self.root);
        for folder in above.into_iter().rev() {
            if media.stat(folder).at("look at", folder)?.is_some() {
                // A killed writer may have made only the folder.
                self.write_group(folder);
                continue;
            }
            media.make_folder(folder).at("create", folder)?;
            // A lost folder loses its content, however durable that is.
            let parent = folder.parent().unwrap_or(&self.root);
            syncs.folder(parent.to_path_buf(), Site::ParentFolder);
            self.write_group(folder);
        }
        Ok(())
    }

    pub(crate) fn write_group(&self, folder: &Path) {
        let path = folder.join("zarr.json");
        if matches!(self.media.stat(&path), Ok(Some(Kind::File(len))) if len > 0) {
            return;
        }
        let tmp = super::io::unique(&layout::tmp_folder(&self.root), "zarr");
        let bytes = zarr::to_bytes(&zarr::group(serde_json::Map::new()));
        let _ = super::io::replace_file(&*self.media, &tmp, &path, &bytes, None);
    }

    /// Rewrites groups that are unreadable after a power cut.
    pub(crate) fn restore_groups(&self) {
        let mut groups = BTreeSet::new();
        for (_, slot) in self.all_slots() {
            let folder = slot.lock().folder.clone();
            let above = folder.ancestors().skip(1).map(Path::to_path_buf);
            groups.extend(above.take_while(|folder| *folder != self.root));
        }
        for folder in groups
            .iter()
            .filter(|folder| folder.starts_with(&self.root))
        {
            let path = folder.join("zarr.json");
            let found = self.media.read(&path, limits::METADATA);
            let is_readable = |bytes: &Vec<u8>| {
                let json: Result<serde_json::Value, _> = serde_json::from_slice(bytes);
                json.is_ok_and(|json| json.is_object())
            };
            match found {
                Ok(Some(bytes)) if !is_readable(&bytes) => _ = self.media.remove_file(&path),
                Err(_) => continue,
                _ => {}
            }
            self.write_group(folder);
        }
    }

    pub(crate) fn move_folders(
        &self,
        core: &mut Core,
        locked: &mut [MutexGuard<'_, SlotInner>],
        removed: &mut Vec<SignalId>,
    ) -> Result<(), StoreError> {
        if core.structural.is_empty() {
            return Ok(());
        }
        let moved: BTreeSet<SignalId> = (core.structural.iter())
            .map(|change| change.op.signal())
            .collect();
        for slot in locked.iter_mut().filter(|slot| moved.contains(&slot.id)) {
            self.stage(core, slot)?;
        }
        for slot in locked.iter_mut().filter(|slot| moved.contains(&slot.id)) {
            if slot.removed {
                core.trash.push(slot.folder.clone());
                removed.push(slot.id);
            } else if let Some(name) = slot.latest_name() {
                self.unstage(slot, &name)?;
            }
        }
        Ok(())
    }

    pub(crate) fn stage(&self, core: &mut Core, slot: &mut SlotInner) -> Result<(), StoreError> {
        let staged = layout::staged(&self.root, slot.id);
        if slot.folder == staged || !slot.exists {
            return Ok(());
        }
        self.media
            .rename(&slot.folder, &staged)
            .at("move", &slot.folder)?;
        let parent = slot.folder.parent().map(Path::to_path_buf);
        core.folders.insert(layout::staging_folder(&self.root));
        core.folders.extend(parent.clone());
        core.emptied.extend(parent);
        slot.folder = staged;
        slot.dirty.parents.clear();
        self.handles.remove_signal(slot.id);
        self.sources.remove_signal(slot.id);
        Ok(())
    }

    pub(crate) fn unstage(&self, slot: &mut SlotInner, name: &str) -> Result<(), StoreError> {
        let path = layout::signal_folder(&self.root, name);
        let mut syncs = SyncBatch::default();
        let made = self.make_parents(name, &mut syncs);
        syncs.sync(self, Site::BulkVolume)?;
        made?;
        self.media.rename(&slot.folder, &path).at("move", &path)?;
        slot.folder = path;
        self.mark_parents_dirty(slot);
        slot.dirty
            .parents
            .insert(layout::staging_folder(&self.root));
        self.handles.remove_signal(slot.id);
        self.sources.remove_signal(slot.id);
        Ok(())
    }

    pub(crate) fn mark_parents_dirty(&self, slot: &mut SlotInner) {
        let above = slot.folder.ancestors().skip(1);
        let above = above.take_while(|folder| folder.starts_with(&self.root));
        let above: Vec<PathBuf> = above.map(Path::to_path_buf).collect();
        slot.dirty.parents.extend(above);
    }

    /// Removes groups without signals, once moves are durable. Best effort.
    pub(crate) fn prune(&self, folder: &Path) {
        let mut at = folder;
        while at != self.root && at.starts_with(&self.root) {
            match self.media.list(at) {
                Ok(names) if names.iter().all(|name| name == "zarr.json") => {}
                _ => return,
            }
            let _ = self.media.remove_file(&at.join("zarr.json"));
            if self.media.remove_folder(at).is_err() {
                return;
            }
            match at.parent() {
                Some(parent) => at = parent,
                None => return,
            }
        }
    }
}
