//! Commits: one record for all signals, one sync of the log.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{MutexGuard, PoisonError};

use super::engine_state::{Core, EngineState};
use super::io::IoContext;
use super::log;
use super::slot::{Slot, SlotInner};
use super::sync_batch::SyncBatch;
use crate::error::StoreError;
use crate::layout;
use crate::media::{Access, Kind, Media, Site};
use crate::op::{Op, SignalId};

const MAX_LOG_BYTES: u64 = 64 << 20;

impl EngineState {
    /// Steps: `docs/design/commit_protocol.md`; failures: `docs/design/failure_analysis.md`.
    pub(crate) fn commit(&self, publish: bool) -> Result<u64, StoreError> {
        self.check("commit")?;
        let mut core = self.core();
        let ids = self.active();
        let slots: Vec<_> = ids.iter().filter_map(|id| self.slot(*id)).collect();
        // Held to the end: concurrent writes belong entirely to the next commit.
        let mut locked: Vec<MutexGuard<'_, SlotInner>> = slots
            .iter()
            .map(|slot| Slot::lock(slot))
            .filter(|slot| slot.is_pending())
            .collect();
        if !core.structural.is_empty() || !locked.is_empty() {
            self.prepare(&core, &mut locked)?;
            self.log_record(&mut core, &locked)?;
            // The commit is durable; if applying it fails, recovery does it.
            let fold = self.must(self.apply(&mut core, &mut locked))?;
            {
                let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
                ids.iter().for_each(|id| _ = active.remove(id));
            }
            drop(locked);
            if fold || core.log.end > MAX_LOG_BYTES {
                self.fold(&mut core)?;
            }
        }
        if publish {
            self.publish(&mut core);
        }
        Ok(core.sequence)
    }

    /// The commit stands, as does the old log on a full disk; only poisoning is an error.
    fn fold(&self, core: &mut Core) -> Result<(), StoreError> {
        match self.checkpoint_with(core) {
            Err(error) if self.is_poisoned() => Err(error),
            _ => Ok(()),
        }
    }

    /// Has no effect if the commit point is not reached.
    fn prepare(
        &self,
        core: &Core,
        locked: &mut [MutexGuard<'_, SlotInner>],
    ) -> Result<(), StoreError> {
        let media = &*self.media;
        for slot in locked.iter_mut().filter(|slot| !slot.was_never_committed()) {
            slot.ensure_folder(media)?;
            slot.cover_pending(media, &self.handles, &self.root)?;
            slot.settle_checksums(media, &self.root)?;
            slot.leave_marks(media, &self.handles, &self.root, core.sequence + 1)?;
        }
        let mut syncs = SyncBatch::default();
        let made = self.make_all_parents(core, locked, &mut syncs);
        if made.is_ok() {
            let counts = |slot: &&MutexGuard<'_, SlotInner>| {
                slot.pending.bulk && !slot.was_never_committed()
            };
            for slot in locked.iter().filter(counts) {
                for shard in &slot.pending.shards {
                    syncs.file(slot.data_shard(&self.root, *shard), Site::BulkShard);
                }
                slot.names_due(&mut syncs, Site::BulkIdentity, Site::BulkFolder);
            }
        }
        syncs.sync(self, Site::BulkVolume)?;
        made?;
        for slot in locked.iter_mut().filter(|slot| !slot.was_never_committed()) {
            if slot.pending.bulk {
                let synced = slot.pending.shards.clone();
                slot.dirty.shards.retain(|shard| !synced.contains(shard));
                slot.names_synced();
            }
            if !slot.replaced.is_empty() || slot.replaced_data.is_some() {
                self.sync_replacements(slot)
                    .inspect_err(|error| self.poison_if_sync(error))?;
            }
        }
        Ok(())
    }

    fn make_all_parents(
        &self,
        core: &Core,
        locked: &[MutexGuard<'_, SlotInner>],
        syncs: &mut SyncBatch,
    ) -> Result<(), StoreError> {
        let gone: BTreeSet<SignalId> = (locked.iter().filter(|slot| slot.removed))
            .map(|slot| slot.id)
            .collect();
        for change in &core.structural {
            if gone.contains(&change.op.signal()) {
                continue;
            }
            if let Op::Create { name, .. } | Op::Rename { to: name, .. } = &change.op {
                self.make_parents(name, syncs)?;
            }
        }
        Ok(())
    }

    fn sync_replacements(&self, slot: &mut SlotInner) -> Result<(), StoreError> {
        let media = &*self.media;
        // Recovery remakes a lost folder from the log alone.
        let format = slot.base.meta.format;
        let shards = layout::data_shards(Path::new("data"), format);
        slot.subfolder(media, &shards)?;
        if slot.replaced_data.is_some() {
            slot.write_identity_beside_data(media)?;
        }
        let mut syncs = SyncBatch::default();
        slot.names_due(&mut syncs, Site::BulkIdentity, Site::BulkFolder);
        syncs.sync(self, Site::BulkVolume)?;
        slot.names_synced();
        let tmp = layout::tmp_folder(&self.root);
        if let Some(name) = &slot.replaced_data {
            let chunks = layout::data_shards(&tmp.join(name), format);
            media.make_folders(&tmp, &chunks).at("create", &chunks)?;
        }
        for name in slot.replaced.values().chain(&slot.replaced_data) {
            sync_tree(media, &tmp.join(name))?;
        }
        media
            .sync_folder(&tmp, Site::ReplacementFolder)
            .at("sync", &tmp)
    }

    fn log_record(
        &self,
        core: &mut Core,
        locked: &[MutexGuard<'_, SlotInner>],
    ) -> Result<(), StoreError> {
        let living = || locked.iter().filter(|slot| !slot.was_never_committed());
        let sums = |slot: &SlotInner| {
            slot.pending_sums().count() + usize::from(slot.pending_tail().is_some())
        };
        let count = core.structural.len()
            + living()
                .map(|slot| slot.ops.len() + sums(slot))
                .sum::<usize>();
        let mut record = std::mem::take(&mut core.record);
        log::begin(&mut record, count);
        for change in &core.structural {
            log::push(&mut record, &change.op);
        }
        for slot in living() {
            for op in &slot.ops {
                log::push(&mut record, op);
            }
            for (chunk, crc) in slot.pending_sums() {
                let id = slot.id;
                log::push(&mut record, &Op::Crc { id, chunk, crc });
            }
            if let Some(op) = slot.pending_tail_op() {
                log::push(&mut record, &op);
            }
        }
        let done = match log::finish(&mut record, core.sequence + 1) {
            Some(()) => {
                let changed: BTreeSet<SignalId> = (core.structural.iter())
                    .map(|change| change.op.signal())
                    .chain(living().map(|slot| slot.id))
                    .collect();
                let changed: Vec<_> = changed.into_iter().collect();
                let appended = core.log.append(&record, &changed);
                appended.map_err(|failure| self.log_failure(failure))
            }
            None => Err(StoreError::TooLarge {
                what: "one commit",
                bytes: record.len() as u128,
                limit: u128::from(u32::MAX),
            }),
        };
        record.shrink_to(1 << 20);
        core.record = record;
        done?;
        core.sequence += 1;
        Ok(())
    }

    /// Gives whether a checkpoint is due.
    fn apply(
        &self,
        core: &mut Core,
        locked: &mut [MutexGuard<'_, SlotInner>],
    ) -> Result<bool, StoreError> {
        let mut fold = core
            .structural
            .iter()
            .any(|change| !matches!(change.op, Op::Create { .. }));
        let mut removed: Vec<SignalId> = Vec::new();
        self.move_folders(core, locked, &mut removed)?;
        for slot in locked.iter_mut() {
            if !slot.removed && (!slot.replaced.is_empty() || slot.replaced_data.is_some()) {
                fold = true;
                self.move_replacements(core, slot)?;
            }
            // Not moved: replaced again, or the signal was removed.
            let tmp = layout::tmp_folder(&self.root);
            let replacements = slot.ops.iter().filter_map(Op::replacement);
            core.trash.extend(replacements.map(|name| tmp.join(name)));
            slot.committed();
            if !slot.removed {
                core.dirty.insert(slot.id);
                core.unpublished.insert(slot.id);
            }
        }
        core.structural.clear();
        if !removed.is_empty() {
            let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
            for id in removed {
                slots.remove(&id);
                core.dirty.remove(&id);
                core.unpublished.remove(&id);
                self.handles.remove_signal(id);
                self.sources.remove_signal(id);
            }
        }
        Ok(fold)
    }

    fn move_replacements(&self, core: &mut Core, slot: &mut SlotInner) -> Result<(), StoreError> {
        let media = &*self.media;
        let tmp = layout::tmp_folder(&self.root);
        if let Some(name) = slot.replaced_data.take() {
            let aside = self.replace_data(slot, &name)?;
            core.trash.extend(aside);
        }
        for (shard, name) in std::mem::take(&mut slot.replaced) {
            let format = slot.base.meta.format;
            let shards = layout::data_shards(Path::new("data"), format);
            slot.subfolder(media, &shards)?;
            let path = layout::data_shard_file(&slot.folder.join("data"), format, shard);
            media.rename(&tmp.join(name), &path).at("replace", &path)?;
            slot.dirty.folders.insert(shards);
        }
        core.folders.insert(tmp);
        self.handles.remove_signal(slot.id);
        self.sources.remove_signal(slot.id);
        Ok(())
    }

    /// Gives where the old array went.
    pub(crate) fn replace_data(
        &self,
        slot: &mut SlotInner,
        name: &str,
    ) -> Result<Option<std::path::PathBuf>, StoreError> {
        let media = &*self.media;
        let tmp = layout::tmp_folder(&self.root);
        let data = slot.folder.join("data");
        let mut aside = None;
        if media.stat(&data).at("look at", &data)?.is_some() {
            let old = tmp.join(format!("{name}.old"));
            media.remove_all(&old).at("remove", &old)?;
            media.rename(&data, &old).at("move", &data)?;
            aside = Some(old);
        }
        media.rename(&tmp.join(name), &data).at("replace", &data)?;
        slot.dirty.folders.insert("".into());
        slot.dirty.shards.clear();
        slot.dirty.identity.remove(layout::IDENTITY);
        slot.forget_name(Path::new("data"));
        slot.projected.remove("data");
        Ok(aside)
    }
}

fn sync_tree(media: &dyn Media, path: &Path) -> Result<(), StoreError> {
    match media.stat(path).at("look at", path)? {
        Some(Kind::Folder) => {
            for name in media.list(path).at("list", path)? {
                sync_tree(media, &path.join(name))?;
            }
            media
                .sync_folder(path, Site::ReplacementFolder)
                .at("sync", path)
        }
        _ => {
            let file = media.open(path, Access::Write).at("open", path)?;
            file.sync(Site::ReplacementFile).at("sync", path)
        }
    }
}
