//! Write marks distinguish a current shard from a copy older than the log.
//!
//! Samples are written in place, so an older copy of a shard has zeros in place of newer samples, without any other
//! sign. Each committed sample is proved in one of these ways:
//!
//! - The commit record holds its bytes (small appends). Recovery rewrites them; readers compare the last ones.
//! - The log states the checksum of its chunk, up to the signal's end (appends).
//! - The array `crc` has the checksum of its chunk (appends before the last checkpoint).
//! - The log states a *write mark* of its shard: for fills, appends that end in a chunk whose checksum is unknown
//!   without reading, and gaps that invalidate a proof of the last chunk.
//!
//! A mark names a commit. It is written into the shard's head after the commit's samples and before its record, so a
//! file with that or a later mark has the samples; any other is refused (`StoreError::WrongShard`) without reading
//! samples. Marks of commits whose samples are in the record are not synced: recovery writes them again. A checkpoint
//! makes all marks durable.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::candidate::FlatHead;
use super::io::{IoContext, failed};
use super::samples::Handles;
use super::slot::{Base, SlotInner};
use super::tail::first_of;
use crate::error::StoreError;
use crate::layout::flat::{Flat, IndexKind};
use crate::layout::mark::{MarkSlots, SLOTS_LEN, WriteMark};
use crate::media::{Access, Media, MediaFile};
use crate::op::{Op, SignalId};
use crate::version::ShardMark;

impl Base {
    pub(crate) fn mark_ops(&self, id: SignalId) -> impl Iterator<Item = Op> + '_ {
        self.data.marks().map(move |(shard, mark)| Op::WriteMark {
            id,
            shard,
            mark: mark.last,
            synced: true,
        })
    }
}

impl SlotInner {
    /// Marks shards whose pending samples have no other proof.
    pub(crate) fn leave_marks(
        &mut self,
        media: &dyn Media,
        handles: &Handles,
        root: &Path,
        sequence: u64,
    ) -> Result<(), StoreError> {
        if handles.may_overwrite() {
            // Scratch is never copied.
            return Ok(());
        }
        let (mut shards, must_sync) = self.unproven_changes();
        if must_sync {
            self.sync_in_place();
        }
        shards.extend(self.unproven_end());
        if shards.is_empty() {
            return Ok(());
        }
        let mark = WriteMark::new(sequence, uuid::Uuid::new_v4().as_u64_pair().1);
        for shard in shards {
            let version = |state: &Arc<crate::state::SignalState>| state.data.mark(shard);
            let durable = self.committed.as_ref().and_then(version);
            let expected = ShardMark {
                last: mark,
                synced: durable.and_then(|mark| mark.synced),
            };
            let required = self.state.as_ref().and_then(version).map(|mark| mark.last);
            let file = match self.pending.shards.contains(&shard) {
                true => {
                    let open = self.open_shard(media, handles, root, shard, false)?;
                    Some(Arc::clone(&open.file))
                }
                false => self.flat_file(media, root, shard)?,
            };
            let path = self.data_shard(root, shard);
            if let Some(file) = file
                && put_mark(&*file, &self.flat(), expected, required).at("mark", &path)?
            {
                self.pending.shards.insert(shard);
                let (id, synced) = (self.id, self.pending.bulk);
                self.add(Op::WriteMark {
                    id,
                    shard,
                    mark,
                    synced,
                });
            }
        }
        Ok(())
    }

    /// Shards with fills, and the last one if its last chunk gets a gap. `true`: the commit must sync them even if
    /// small, because their mark replaces a checksum in the log.
    fn unproven_changes(&self) -> (BTreeSet<u64>, bool) {
        let mut shards = BTreeSet::new();
        let mut must_sync = false;
        let (Some(state), Some(committed)) = (&self.state, &self.committed) else {
            return (shards, must_sync);
        };
        if !state.meta.codec.is_empty() || self.replaced_data.is_some() {
            // Their files are replaced and identify themselves.
            return (shards, must_sync);
        }
        let last_chunk = first_of(committed.end, &state.meta);
        let last_shard = self.shard_of(last_chunk);
        let tail = self.base.tail;
        let tail = tail.filter(|tail| first_of(tail.end, &state.meta) == last_chunk);
        let mut end = committed.end;
        for op in &self.ops {
            if matches!(op, Op::Gap { .. } | Op::Valid { .. })
                && tail.is_some_and(|tail| tail.after(op, &state.meta).is_none())
            {
                must_sync = true;
                shards.insert(last_shard);
            }
            match op {
                Op::End { end: to, .. } => end = *to,
                Op::Valid { start, end: to, .. } if *start < end => {
                    let filled = self.shard_of(*start)..=self.shard_of(*to.min(&end) - 1);
                    shards.extend(self.pending.shards.range(filled));
                }
                Op::Gap { start, end: to, .. } => {
                    let taken = *start.max(&last_chunk)..*to.min(&end);
                    if taken.start < taken.end {
                        let cut = self.shard_of(taken.start)..=self.shard_of(taken.end - 1);
                        shards.extend(cut.contains(&last_shard).then_some(last_shard));
                        shards.extend(self.pending.shards.range(cut));
                    }
                }
                _ => {}
            }
        }
        (shards, must_sync)
    }

    /// The last shard, if a bulk append ends in a chunk with unknown checksum.
    fn unproven_end(&self) -> Option<u64> {
        let state = self.state.as_ref()?;
        let is_cut = state.end > first_of(state.end, &state.meta);
        if !self.pending.bulk
            || !is_cut
            || self.pending_tail().is_some()
            || !state.meta.codec.is_empty()
            || self.replaced_data.is_some()
        {
            return None;
        }
        Some(self.shard_of(state.end - 1)).filter(|shard| self.pending.shards.contains(shard))
    }

    fn flat_file(
        &self,
        media: &dyn Media,
        root: &Path,
        shard: u64,
    ) -> Result<Option<Arc<dyn MediaFile>>, StoreError> {
        let path = self.data_shard(root, shard);
        let file = match media.open(&path, Access::Write) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error, "open", &path)),
        };
        let head = FlatHead::read(&*file, &self.flat()).at("read", &path)?;
        Ok((head.index == IndexKind::Flat).then_some(file))
    }

    /// Rewrites marks that a power cut may have removed.
    pub(crate) fn renew_marks(&mut self, media: &dyn Media, root: &Path) -> Result<(), StoreError> {
        let data = self.base.data.clone();
        for (shard, mark) in data.marks() {
            if mark.synced == Some(mark.last) {
                continue;
            }
            let path = self.data_shard(root, shard);
            if let Some(file) = self.flat_file(media, root, shard)?
                && put_mark(&*file, &self.flat(), mark, mark.synced).at("mark", &path)?
            {
                self.dirty.shards.insert(shard);
            }
        }
        Ok(())
    }

    pub(crate) fn note_synced_marks(&mut self) {
        let Some(committed) = self.committed_mut() else {
            return;
        };
        if !committed.data.has_unsynced_marks() {
            return;
        }
        let durable = committed.data.clone();
        let states = self.committed.iter_mut().chain(&mut self.state);
        for state in states {
            let state = Arc::make_mut(state);
            Arc::make_mut(&mut state.data).note_synced_marks(&durable);
        }
        Arc::make_mut(&mut self.base.data).note_synced_marks(&durable);
    }
}

/// Writes a mark if the shard has the mark `required`, so that losses are not hidden. Gives whether it did.
fn put_mark(
    file: &dyn MediaFile,
    flat: &Flat,
    mark: ShardMark,
    required: Option<WriteMark>,
) -> std::io::Result<bool> {
    let Some(at) = flat.marks_at() else {
        return Ok(false);
    };
    let mut slots = [0; SLOTS_LEN as usize];
    let count = file.read_at(at, &mut slots)?;
    let slots = MarkSlots::decode(&slots[..count]);
    if required.is_some_and(|mark| !slots.include(mark)) {
        return Ok(false);
    }
    file.write_at(at + slots.next_offset(mark.synced), &mark.last.encode())?;
    Ok(true)
}
