//! Checkpoints: move what only the log holds into files, then start a new log.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::compact::CompactTables;
use super::engine_state::{Core, EngineState};
use super::io::{IoContext, failed};
use super::log::{self, Header, Log};
use super::manifest::Manifest;
use super::slot::{DirtyFiles, Slot, SlotInner};
use super::sync_batch::SyncBatch;
use super::tables::{self, NamedStamp, StagedTable};
use crate::error::StoreError;
use crate::layout;
use crate::layout::flat::Flat;
use crate::layout::zarr::FORMAT;
use crate::media::{Access, Media, Site};
use crate::op::{Op, SignalId};

struct ChangedSignal {
    slot: Arc<Slot>,
    dirty: DirtyFiles,
    tables: Vec<StagedTable>,
    stamps: Vec<NamedStamp>,
    compact: Option<CompactTables>,
    crc_rows: u64,
}

impl ChangedSignal {
    fn new(slot: Arc<Slot>) -> Self {
        Self {
            slot,
            dirty: DirtyFiles::default(),
            tables: Vec::new(),
            stamps: Vec::new(),
            compact: None,
            crc_rows: 0,
        }
    }

    fn leave_in_log(self, media: &dyn Media) {
        for table in self.tables {
            let _ = media.remove_file(&table.tmp);
        }
        self.slot.lock().dirty.add(self.dirty);
    }
}

impl EngineState {
    /// Moves the log's content into files and starts a new log.
    ///
    /// A failed sync poisons. After another failure the old log stays live; completed steps are harmless, because
    /// replay accepts tables and shards newer than the log's base.
    pub(crate) fn checkpoint_with(&self, core: &mut Core) -> Result<(), StoreError> {
        if !core.dirty.is_empty() {
            // A rename of a table is durable only with both folders.
            core.folders.insert(layout::tmp_folder(&self.root));
        }
        let mut changed = Vec::new();
        if let Err(error) = self.write_changed(core, &mut changed) {
            for signal in changed {
                signal.leave_in_log(&*self.media);
            }
            return Err(error);
        }
        let media = &*self.media;
        if let Some(reserve) = core.reserve.take() {
            media.remove_file(&reserve).at("remove", &reserve)?;
        }
        self.switch_log(core)?;
        for path in std::mem::take(&mut core.trash) {
            let _ = media.remove_all(&path);
        }
        for folder in std::mem::take(&mut core.emptied) {
            self.prune(&folder);
        }
        self.publish(core);
        Ok(())
    }

    /// Makes files durable first, then names.
    fn write_changed(
        &self,
        core: &mut Core,
        changed: &mut Vec<ChangedSignal>,
    ) -> Result<(), StoreError> {
        let mut syncs = SyncBatch::default();
        for id in &core.dirty {
            let Some(slot) = self.slot(*id) else { continue };
            let mut signal = ChangedSignal::new(slot);
            let written = self.write_signal(&mut signal, core.sequence, &mut syncs);
            changed.push(signal);
            written?;
        }
        syncs.sync(self, Site::TableVolume)?;
        let mut syncs = SyncBatch::default();
        for signal in &mut *changed {
            self.rename_tables(signal, &mut syncs)?;
        }
        for folder in &core.folders {
            syncs.folder(folder.clone(), Site::CheckpointFolder);
        }
        syncs.sync(self, Site::CheckpointVolume)?;
        for signal in changed.drain(..) {
            let id = signal.slot.lock().id;
            if !self.finish_signal(signal) {
                core.unpublished.insert(id);
            }
        }
        core.folders.clear();
        core.dirty.clear();
        Ok(())
    }

    fn write_signal(
        &self,
        signal: &mut ChangedSignal,
        sequence: u64,
        syncs: &mut SyncBatch,
    ) -> Result<(), StoreError> {
        let media = &*self.media;
        let tmp = layout::tmp_folder(&self.root);
        let slot = Arc::clone(&signal.slot);
        let mut slot = slot.lock();
        signal.dirty.shards = std::mem::take(&mut slot.dirty.shards);
        for shard in &signal.dirty.shards {
            // The committed file; a pending replacement is elsewhere.
            let data = slot.folder.join("data");
            let path = layout::data_shard_file(&data, slot.base.meta.format, *shard);
            syncs.file(path, Site::CheckpointShard);
        }
        let tables = slot.checkpoint_tables(media)?;
        signal.compact = tables.compact;
        if signal.compact.is_none() {
            // With folders: a missing one is evidence.
            for (table, _) in tables::arrays() {
                slot.subfolder(media, Path::new(table))?;
            }
            if slot.base.compact.is_some() {
                slot.write_identity_beside_data(media)?;
            }
        }
        signal.dirty.identity = std::mem::take(&mut slot.dirty.identity);
        for inside in &signal.dirty.identity {
            syncs.file(slot.folder.join(inside), Site::CheckpointIdentity);
        }
        signal.crc_rows = self.write_checksums(&mut slot, syncs)?;
        self.sum_tail(&mut slot);
        // Events first: losses are reported before they become gaps.
        for table in tables.arrays.iter().rev() {
            let stamped = slot.stage_table(media, &tmp, table, sequence, &mut signal.tables)?;
            signal.stamps.push(stamped);
        }
        for table in &signal.tables {
            syncs.file(table.tmp.clone(), Site::Table);
        }
        Ok(())
    }

    fn rename_tables(
        &self,
        signal: &mut ChangedSignal,
        syncs: &mut SyncBatch,
    ) -> Result<(), StoreError> {
        let media = &*self.media;
        let tmp = layout::tmp_folder(&self.root);
        let mut slot = signal.slot.lock();
        for table in &signal.tables {
            slot.put_in_place(media, &tmp, table)?;
        }
        signal.tables.clear();
        let names = slot.dirty.take_names();
        for inside in &names.folders {
            syncs.folder(slot.folder.join(inside), Site::CheckpointFolder);
        }
        for path in &names.parents {
            syncs.folder(path.clone(), Site::CheckpointFolder);
        }
        signal.dirty.add(names);
        Ok(())
    }

    /// Whether all arrays are described.
    fn finish_signal(&self, signal: ChangedSignal) -> bool {
        let mut slot = signal.slot.lock();
        let was_compact = slot.base.compact.is_some();
        slot.crcs.clear();
        slot.crc_rows = signal.crc_rows;
        slot.mark_durable(signal.dirty.pending_names);
        if let Some(state) = slot.committed_mut() {
            Arc::make_mut(state).mark_saved();
        }
        slot.note_synced_marks();
        if let Some(stamps) = &mut slot.base.tables {
            (signal.stamps.into_iter()).for_each(|(table, stamp)| stamps.set(table, stamp));
        }
        slot.base.compact = signal.compact;
        slot.gaps_unpublished = false;
        let is_compact = slot.base.compact.is_some();
        let mut is_described = !was_compact || is_compact;
        if slot.base.has_checksums(slot.crc_rows) {
            // An earlier publication lacks checksums not yet in the array.
            let crc = layout::zarr::crc_array(slot.crc_rows);
            let tmp = layout::tmp_folder(&self.root);
            is_described &= slot.project(&*self.media, &tmp, "crc", &crc);
        }
        is_described
    }

    /// Gives the rows of `crc`.
    fn write_checksums(
        &self,
        slot: &mut SlotInner,
        syncs: &mut SyncBatch,
    ) -> Result<u64, StoreError> {
        let flat = Flat::side();
        let rows = slot.full_chunks();
        let shard_of = |chunk: u64| chunk * 4 / flat.shard_bytes();
        let mut shards: BTreeSet<u64> = slot.crcs.keys().map(|chunk| shard_of(*chunk)).collect();
        if rows != slot.crc_rows {
            // Even over a gap the file must hold every inner chunk.
            shards.insert(shard_of(slot.crc_rows));
        }
        for shard in shards {
            self.write_crc_shard(slot, flat, shard, rows, syncs)?;
        }
        Ok(rows)
    }

    fn write_crc_shard(
        &self,
        slot: &mut SlotInner,
        flat: Flat,
        shard: u64,
        rows: u64,
        syncs: &mut SyncBatch,
    ) -> Result<(), StoreError> {
        let media = &*self.media;
        let path = layout::shard_file(&slot.folder.join("crc"), shard);
        let start = shard * flat.shard_bytes();
        let chunks = start / 4..(start + flat.shard_bytes()) / 4;
        let crcs: Vec<(u64, u32)> = (slot.crcs.range(chunks))
            .map(|(chunk, crc)| (*chunk, *crc))
            .collect();
        let file = match media.open(&path, Access::Write) {
            Ok(file) => file,
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(error, "open", &path));
            }
            Err(_) if crcs.is_empty() => return Ok(()),
            Err(_) => {
                slot.subfolder(media, Path::new("crc/c"))?;
                slot.dirty.folders.insert("crc/c".into());
                media.open(&path, Access::CreateNew).at("create", &path)?
            }
        };
        // Always: after a failed sync it may be only in the page cache.
        file.write_at(0, &flat.index()).at("write", &path)?;
        let last = crcs.last().map_or(0, |(chunk, _)| chunk + 1);
        let used = (rows.max(last) * 4 - start).min(flat.shard_bytes());
        let need = flat.file_len(used);
        if file.len().at("look at", &path)? < need {
            file.set_len(need).at("extend", &path)?;
        }
        for run in crcs.chunk_by(|a, b| a.0 + 1 == b.0) {
            let bytes: Vec<u8> = run.iter().flat_map(|(_, crc)| crc.to_le_bytes()).collect();
            let offset = flat.payload_start + run[0].0 * 4 - start;
            file.write_at(offset, &bytes).at("write", &path)?;
        }
        syncs.file(path, Site::CheckpointCrc);
        Ok(())
    }

    /// The new log counts once MANIFEST is renamed.
    fn switch_log(&self, core: &mut Core) -> Result<(), StoreError> {
        let media = &*self.media;
        let generation = core.generation + 1;
        let new = layout::log_file(&self.root, generation);
        let opening = self.opening(core, generation)?;
        let log = Log::create(media, &new, &opening).map_err(|f| self.log_failure(f))?;
        let folder = layout::engine_folder(&self.root);
        let synced = media.sync_folder(&folder, Site::NewLogFolder);
        self.must(synced.at("sync", &folder))?;
        let manifest = Manifest {
            format: FORMAT,
            uuid: self.uuid,
            generation,
        };
        manifest
            .write(media, &self.root)
            .inspect_err(|error| self.poison_if_sync(error))?;
        // Readers see the new generation: no way back.
        let old = std::mem::replace(&mut core.log, log);
        core.generation = generation;
        let synced = media.sync_folder(&folder, Site::ManifestFolder);
        self.must(synced.at("sync", &folder))?;
        let _ = media.remove_file(&old.path);
        Ok(())
    }

    fn opening(&self, core: &Core, generation: u64) -> Result<Vec<u8>, StoreError> {
        let mut base = Vec::new();
        for (id, slot) in self.all_slots() {
            let mut slot = slot.lock();
            if slot.created {
                continue;
            }
            base.push(Op::Create {
                id,
                name: slot.base.name.to_string(),
                meta: Box::new((*slot.base.meta).clone()),
            });
            let end = slot.base.end;
            if end > 0 {
                base.push(Op::End { id, end });
                base.extend(slot.base.tail_op(id));
            }
            if !slot.base.data.is_original() {
                let data = Box::new((*slot.base.data).clone());
                base.push(Op::Data { id, data });
            }
            base.extend(slot.base.mark_ops(id));
            if slot.base.tables.is_none() {
                slot.note_tables(&*self.media);
            }
            base.extend(slot.base.tables.map(|tables| tables.op(id)));
            base.extend(slot.base.compact.as_ref().map(|compact| compact.op(id)));
        }
        let header = Header {
            uuid: *self.uuid.as_bytes(),
            generation,
            boot: self.media.boot_id(),
            next_signal: self.next_id.load(std::sync::atomic::Ordering::Acquire),
        };
        log::opening_bytes(&header, core.sequence, base.iter()).ok_or(StoreError::TooLarge {
            what: "the catalogue of signals",
            bytes: base.len() as u128,
            limit: u128::from(u32::MAX),
        })
    }

    pub(crate) fn publish(&self, core: &mut Core) {
        let due: BTreeSet<SignalId> = std::mem::take(&mut core.unpublished);
        for id in due {
            let Some(slot) = self.slot(id) else { continue };
            let mut slot = slot.lock();
            if !slot.removed && !self.publish_slot(&mut slot, core.sequence) {
                core.unpublished.insert(id);
            }
        }
    }
}
