//! Recovery: replays commits that are only in the log.
//!
//! Every step can be interrupted and repeated. MANIFEST, log and what they name stay until the checkpoint at the end
//! switches the generation.

mod kept;
mod plan;
mod tails;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::consistency;
use crate::engine::compact;
use crate::engine::engine_state::{Core, EngineState};
use crate::engine::expected_tables::ExpectedTables;
use crate::engine::identity;
use crate::engine::io::{IoContext, fresh_file, unique};
use crate::engine::log::ParsedLog;
use crate::engine::lost_commits::LostCommit;
use crate::engine::slot::file_samples::{FileSamples, LostSamples, filled_since};
use crate::engine::slot::{Slot, SlotInner};
use crate::engine::tables;
use crate::engine::tail::TailChecksum;
use crate::error::StoreError;
use crate::layout;
use crate::media::Kind;
use crate::op::{Op, SignalId};
use crate::state::SignalState;

use kept::kept_samples;
use plan::Plan;

const RESERVED_BYTES: usize = 256 << 10;
const RESERVED_PER_SIGNAL: usize = (2 << 10) + compact::MAX_BYTES;

impl EngineState {
    /// Replays `ops` and checkpoints. Missing samples are an error or become gaps, like those of `lost` commits.
    pub(crate) fn recover(
        &self,
        opening: &ParsedLog,
        ops: Vec<Op>,
        give_up_lost: bool,
        lost: Vec<LostCommit>,
    ) -> Result<(), StoreError> {
        let mut plan = Plan::new(opening, &ops);
        plan.touched.extend(lost.iter().map(|lost| lost.id));
        for commit in &lost {
            let longest = plan.longest.entry(commit.id).or_default();
            *longest = commit.range.end.max(*longest);
        }
        let mut core = self.core();
        let core = &mut *core;
        for id in &plan.created {
            if let (Some(name), false) = (self.first_name(*id, &ops), plan.removed.contains(id)) {
                let slot = Slot::created(&self.root, *id, &name.0, &name.1);
                slot.lock().created = false;
                let mut slots = self
                    .slots
                    .write()
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
                slots.insert(*id, Arc::new(slot));
            }
        }
        self.find_folders(core, &plan, &ops)?;
        let reserve = self.replay(core, &plan, &ops, give_up_lost, &lost)?;
        drop(ops);
        self.place_folders(core, &plan)?;
        for (id, slot) in self.all_slots() {
            if !plan.touched.contains(&id) {
                self.trim_tail(&mut slot.lock())?;
            }
        }
        self.note_leftovers(core)?;
        core.reserve = reserve;
        self.checkpoint_with(core)?;
        self.publish_root();
        self.restore_groups();
        for (id, slot) in self.all_slots() {
            if !plan.touched.contains(&id) {
                let mut slot = slot.lock();
                if !self.publish_slot(&mut slot, core.sequence) {
                    core.unpublished.insert(id);
                }
                slot.unload();
            }
        }
        Ok(())
    }

    fn first_name(&self, id: SignalId, ops: &[Op]) -> Option<(String, crate::meta::SignalMeta)> {
        ops.iter().find_map(|op| match op {
            Op::Create { id: of, name, meta } if *of == id => {
                Some((name.clone(), (**meta).clone()))
            }
            _ => None,
        })
    }

    fn find_folders(&self, core: &mut Core, plan: &Plan, ops: &[Op]) -> Result<(), StoreError> {
        for &id in &plan.moved {
            let staged = layout::staged(&self.root, id);
            let names = plan.names.get(&id).map_or(&[][..], Vec::as_slice);
            let places: Vec<PathBuf> = (names.iter().rev())
                .map(|name| layout::signal_folder(&self.root, name))
                .collect();
            // A killed writer may not have synced its move, which is durable only with both folders.
            core.folders.insert(layout::staging_folder(&self.root));
            core.folders.extend(
                places
                    .iter()
                    .filter_map(|place| place.parent())
                    .map(Path::to_path_buf),
            );
            let found = (std::iter::once(staged.clone()).chain(places))
                .find(|place| self.identity_at(place) == Some(id));
            match (self.slot(id), found) {
                (Some(slot), Some(place)) => {
                    let mut slot = slot.lock();
                    slot.folder = place;
                    slot.exists = true;
                    self.stage(core, &mut slot)?;
                }
                (Some(slot), None) if plan.created.contains(&id) && !plan.in_files(id, ops) => {
                    let mut slot = slot.lock();
                    slot.folder = staged;
                    slot.exists = false;
                }
                (Some(slot), None) => {
                    let last = names
                        .last()
                        .map(|name| layout::signal_folder(&self.root, name));
                    return Err(StoreError::MissingFolder {
                        signal: names.last().cloned().unwrap_or_default(),
                        path: last.unwrap_or_else(|| slot.lock().folder.clone()),
                    });
                }
                (None, Some(place)) => {
                    if place != staged {
                        self.media.rename(&place, &staged).at("move", &place)?;
                        core.emptied.extend(place.parent().map(Path::to_path_buf));
                    }
                    core.trash.push(staged);
                }
                (None, None) => {}
            }
        }
        Ok(())
    }

    fn identity_at(&self, folder: &Path) -> Option<SignalId> {
        identity::read(&*self.media, folder).ok()?
    }

    fn replay(
        &self,
        core: &mut Core,
        plan: &Plan,
        ops: &[Op],
        give_up_lost: bool,
        lost: &[LostCommit],
    ) -> Result<Option<PathBuf>, StoreError> {
        let mut reserve = None;
        let mut by_signal: BTreeMap<SignalId, Vec<usize>> = BTreeMap::new();
        for commit in lost {
            by_signal.entry(commit.id).or_default();
        }
        for (position, op) in ops.iter().enumerate() {
            by_signal.entry(op.signal()).or_default().push(position);
        }
        for (id, positions) in by_signal {
            let Some(slot) = self.slot(id) else { continue };
            let mut slot = slot.lock();
            slot.ensure_folder(&*self.media)?;
            let base = slot.base.clone();
            let is_lost = lost.iter().any(|lost| lost.id == id);
            // A lost commit may have written its tables.
            let last = if is_lost { u64::MAX } else { core.sequence };
            let expected = ExpectedTables::since(&base, plan.base_sequence, last);
            let mut raw = tables::read(&*self.media, &slot.folder, id, &expected)?;
            if raw.sequence > core.sequence && !is_lost {
                return Err(StoreError::DamagedFile {
                    path: slot.folder.clone(),
                    offset: 0,
                    reason: "the signal's tables are newer than the log",
                });
            }
            if is_lost {
                // Tables of a lost commit are evidence: none gets a lower sequence before the new log is live.
                core.sequence = core.sequence.max(raw.sequence);
            }
            slot.base.tables = Some(raw.stamps);
            let mut state = raw.state(id, &slot.base, plan.longest(id))?;
            let newest = lost
                .iter()
                .any(|lost| lost.id == id)
                .then(|| state.gaps.clone());
            if raw.sequence > plan.base_sequence {
                // A killed writer may not have synced its folder, and replay may not change it.
                state.mark_unsaved();
            }
            let kept = kept_samples(ops, &positions, slot.base.meta.format.size());
            let in_log = kept.values().flatten().cloned();
            let own = positions.iter().map(|position| &ops[*position]);
            slot.in_files = Some(FileSamples::new(&state, own, in_log));
            let mut given_up = match give_up_lost {
                true => slot.give_up(&*self.media, &self.root)?,
                false => Vec::new(),
            };
            for position in positions {
                let kept = kept.get(&position).map_or(&[][..], Vec::as_slice);
                let at = RedoSamples {
                    plan,
                    position,
                    kept,
                };
                self.redo(core, &mut slot, &mut state, &at, &ops[position])?;
                raw.watch(&state);
            }
            slot.in_files = None;
            for commit in lost.iter().filter(|lost| lost.id == id) {
                // Replay removes what the lost commit filled.
                let filled = newest
                    .iter()
                    .flat_map(|gaps| filled_since(gaps, &state.gaps));
                given_up.extend(filled.map(LostSamples::lost_commit));
                given_up.push(LostSamples::lost_commit(commit.range.clone()));
            }
            if !given_up.is_empty() && reserve.is_none() {
                reserve = Some(self.reserve_room()?);
            }
            for lost in &given_up {
                lost.apply(id, &mut state, core.generation);
            }
            if is_lost || !given_up.is_empty() {
                slot.base.tail = None;
            }
            raw.check(&state.name, false)?;
            consistency::check(&state)?;
            let grew = state.end != slot.base.end;
            let old_last = slot.shard_of(slot.base.end);
            slot.set_state(state);
            self.trim_tail(&mut slot)?;
            if slot.base.meta.codec.is_empty() {
                slot.renew_marks(&*self.media, &self.root)?;
                let mut shards = slot.dirty.shards.clone();
                shards.extend(grew.then_some(old_last));
                let end = slot.base.end;
                slot.cover(&*self.media, &self.handles, &self.root, shards, end)?;
            }
            slot.pending = super::slot::PendingSamples::default();
            slot.sums = super::crc::Checksums::default();
            // Files of a killed writer may be only in the page cache.
            slot.write_identity(&*self.media)?;
            slot.dirty.folders.extend(tables::folders());
            self.mark_parents_dirty(&mut slot);
            core.folders.insert(layout::tmp_folder(&self.root));
            core.folders.insert(layout::staging_folder(&self.root));
            core.dirty.insert(id);
            core.unpublished.insert(id);
        }
        Ok(reserve)
    }

    /// Reserves space for the checkpoint: on a full disk, lost samples could become gaps in tables without the commit
    /// that reports them.
    fn reserve_room(&self) -> Result<PathBuf, StoreError> {
        let path = unique(&layout::tmp_folder(&self.root), "reserve");
        let bytes = vec![0; RESERVED_BYTES + self.all_slots().len() * RESERVED_PER_SIGNAL];
        let file = fresh_file(&*self.media, &path)?;
        let written = file.write_at(0, &bytes).at("write", &path);
        if written.is_err() {
            let _ = self.media.remove_file(&path);
        }
        written.map(|()| path)
    }

    fn redo(
        &self,
        core: &mut Core,
        slot: &mut SlotInner,
        state: &mut SignalState,
        at: &RedoSamples<'_>,
        op: &Op,
    ) -> Result<(), StoreError> {
        let media = &*self.media;
        let RedoSamples { plan, position, .. } = *at;
        state.apply(op);
        slot.base.drop_stale_tail(op);
        slot.base.data = state.data.clone();
        match op {
            Op::Samples { index, bytes, .. } => self.redo_samples(slot, at, *index, bytes)?,
            Op::Crc { chunk, crc, .. } => {
                match TailChecksum::from_crc(*chunk, *crc, state.end, &slot.base.meta) {
                    Some(tail) => slot.base.tail = Some(tail),
                    None => _ = slot.crcs.insert(*chunk, *crc),
                }
            }
            Op::ReplaceShard { id, shard, tmp } if !plan.superseded(*id, *shard, position) => {
                let from = layout::tmp_folder(&self.root).join(tmp);
                if media.stat(&from).at("look at", &from)?.is_some() {
                    let format = slot.base.meta.format;
                    slot.subfolder(media, &layout::data_shards(Path::new("data"), format))?;
                    let to = layout::data_shard_file(&slot.folder.join("data"), format, *shard);
                    media.rename(&from, &to).at("replace", &to)?;
                    self.handles.remove_signal(*id);
                }
            }
            Op::ReplaceData { id, tmp, .. }
                if plan.replaced_data.get(id).is_none_or(|at| *at == position) =>
            {
                let from = layout::tmp_folder(&self.root).join(tmp);
                if media.stat(&from).at("look at", &from)?.is_some() {
                    core.trash.extend(self.replace_data(slot, tmp)?);
                    self.handles.remove_signal(*id);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Rewrites samples that no later operation removed: a gap, which bulk samples may have filled since, or a
    /// replacement of the shard, which has all earlier samples.
    fn redo_samples(
        &self,
        slot: &mut SlotInner,
        at: &RedoSamples<'_>,
        index: i64,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        let flat = slot.flat();
        let size = slot.base.meta.format.size();
        for kept in at.kept {
            let from = (kept.start - index) as usize * size;
            let mut rest = &bytes[from..(kept.end - index) as usize * size];
            let mut index = kept.start;
            for span in flat.spans(kept.start.cast_unsigned() * size as u64, rest.len() as u64) {
                let (part, later) = rest.split_at(span.len as usize);
                rest = later;
                if !at.plan.superseded(slot.id, span.shard, at.position) {
                    slot.write(&*self.media, &self.handles, &self.root, index, part, true)?;
                    slot.dirty.shards.insert(span.shard);
                }
                index += (part.len() / size) as i64;
            }
        }
        Ok(())
    }

    fn place_folders(&self, core: &mut Core, plan: &Plan) -> Result<(), StoreError> {
        let left = plan
            .moved
            .iter()
            .filter_map(|id| plan.names.get(id))
            .flatten();
        for name in left {
            let place = layout::signal_folder(&self.root, name);
            let theirs = self
                .identity_at(&place)
                .is_some_and(|id| self.slot(id).is_some());
            if !theirs && matches!(self.media.stat(&place), Ok(Some(Kind::Folder))) {
                match self.clear_away(core, name, &place) {
                    // A group with other signals.
                    Err(StoreError::InTheWay { .. }) => {}
                    other => other?,
                }
            }
        }
        for &id in &plan.moved {
            let Some(slot) = self.slot(id) else { continue };
            let mut slot = slot.lock();
            let Some(name) = slot.latest_name() else {
                continue;
            };
            let place = layout::signal_folder(&self.root, &name);
            if self.media.stat(&place).at("look at", &place)?.is_some() {
                self.clear_away(core, &name, &place)?;
            }
            self.unstage(&mut slot, &name)?;
        }
        Ok(())
    }

    /// Removes what a power cut left of a signal; fails if it has foreign files.
    fn clear_away(&self, core: &mut Core, name: &str, place: &Path) -> Result<(), StoreError> {
        let media = &*self.media;
        let names = match media.stat(place).at("look at", place)? {
            Some(Kind::Folder) => media.list(place).at("list", place)?,
            _ => vec![String::new()],
        };
        let ours = |entry: &String| {
            entry == "zarr.json" || crate::names::RESERVED.contains(&entry.as_str())
        };
        if !names.iter().all(ours) {
            return Err(StoreError::InTheWay {
                signal: name.into(),
                path: place.to_path_buf(),
            });
        }
        let (_, aside) = self.new_tmp();
        media.rename(place, &aside).at("move", place)?;
        core.trash.push(aside);
        Ok(())
    }

    /// Files under construction, folders without a signal, other generations' logs.
    fn note_leftovers(&self, core: &mut Core) -> Result<(), StoreError> {
        let media = &*self.media;
        let live: BTreeSet<PathBuf> = self
            .all_slots()
            .iter()
            .map(|(_, slot)| slot.lock().folder.clone())
            .collect();
        for folder in [
            layout::tmp_folder(&self.root),
            layout::staging_folder(&self.root),
        ] {
            for name in media.list(&folder).at("list", &folder)? {
                let path = folder.join(name);
                if !live.contains(&path) && !core.trash.contains(&path) {
                    core.trash.push(path);
                }
            }
        }
        let folder = layout::engine_folder(&self.root);
        for name in media.list(&folder).at("list", &folder)? {
            if layout::parse_log_name(&name).is_some_and(|g| g != core.generation) {
                core.trash.push(folder.join(name));
            }
        }
        let next = layout::log_file(&self.root, core.generation + 1);
        core.trash.retain(|path| *path != next);
        Ok(())
    }
}

struct RedoSamples<'a> {
    plan: &'a Plan,
    position: usize,
    kept: &'a [Range<i64>],
}
