//! Replacements of shards and arrays by files in `tmp/`, as part of a commit.
//!
//! Queuing stamps the files with their identity, so that readers never confuse old and new. Committed samples now in a
//! gap are never overwritten in place: earlier readers still show them.

use std::path::Path;

use super::engine_state::EngineState;
use super::io::IoContext;
use super::slot::{PendingChanges, SlotInner};
use crate::error::StoreError;
use crate::layout;
use crate::layout::flat::{Flat, IndexKind};
use crate::layout::shard::ShardHeader;
use crate::media::{Access, Kind};
use crate::op::Op;
use crate::version::FileVersion;

impl EngineState {
    pub(super) fn queue_op(&self, slot: &mut SlotInner, op: Op) -> Result<(), StoreError> {
        self.prepare_replacement(slot, &op)?;
        slot.queue(&*self.media, op)
    }

    pub(super) fn prepare_replacement(&self, slot: &SlotInner, op: &Op) -> Result<(), StoreError> {
        match op {
            Op::ReplaceShard { shard, tmp, .. } => {
                let path = layout::tmp_folder(&self.root).join(tmp);
                self.stamp(slot, &path, *shard, tmp)?;
                self.close_files(slot);
            }
            Op::ReplaceData { tmp, codec, .. } => {
                if codec.is_empty() {
                    self.stamp_array(slot, tmp)?;
                }
                self.close_files(slot);
            }
            _ => {}
        }
        Ok(())
    }

    fn close_files(&self, slot: &SlotInner) {
        self.handles.remove_signal(slot.id);
        self.sources.remove_signal(slot.id);
    }

    fn stamp_array(&self, slot: &SlotInner, tmp: &str) -> Result<(), StoreError> {
        let format = slot.base.meta.format;
        let chunks = layout::data_shards(&layout::tmp_folder(&self.root).join(tmp), format);
        if (self.media.stat(&chunks).at("look at", &chunks)?).is_none() {
            return Ok(());
        }
        for name in self.media.list(&chunks).at("list", &chunks)? {
            if let Some(shard) = layout::data_shard_number(format, &name) {
                self.stamp(slot, &chunks.join(&name), shard, tmp)?;
            }
        }
        Ok(())
    }

    fn stamp(
        &self,
        slot: &SlotInner,
        path: &Path,
        shard: u64,
        tmp: &str,
    ) -> Result<(), StoreError> {
        let flat = slot.flat();
        let Some(at) = flat.header_at() else {
            return Ok(());
        };
        let file = self.media.open(path, Access::Write).at("open", path)?;
        let mut index = vec![0; Flat::index_len(flat.chunks) as usize];
        let count = file.read_at(0, &mut index).at("read", path)?;
        if flat.index_kind(&index[..count]) != IndexKind::Flat {
            return Ok(());
        }
        let header = ShardHeader {
            signal: slot.id.0,
            shard,
            version: FileVersion::of_replacement(tmp),
        };
        file.write_at(at, &header.encode()).at("write", path)
    }

    /// Copies shards that `len` bytes from `index` on go to, if they would overwrite gap samples that earlier readers
    /// may show. The next commit puts the copies in place, unless they are [taken back](Self::take_back_copies).
    pub(super) fn copy_before_overwrite(
        &self,
        slot: &mut SlotInner,
        index: i64,
        len: usize,
    ) -> Result<Option<ShardCopies>, StoreError> {
        let media = &*self.media;
        if index >= slot.state(media)?.end {
            // No reader showed samples past the end.
            return Ok(None);
        }
        let flat = slot.flat();
        let size = slot.base.meta.format.size() as u64;
        let start = index.max(0).cast_unsigned() * size;
        let mut shards = Vec::new();
        for span in flat.spans(start, len as u64) {
            let first = span.shard * flat.shard_bytes() + span.offset - flat.payload_start;
            let samples = (first / size).cast_signed()..((first + span.len) / size).cast_signed();
            let path = slot.data_shard(&self.root, span.shard);
            if slot.data_version().is_retired(span.shard, &samples)
                && matches!(media.stat(&path).at("look at", &path)?, Some(Kind::File(_)))
            {
                shards.push((span.shard, path));
            }
        }
        if shards.is_empty() {
            return Ok(None);
        }
        let mut copies = ShardCopies {
            names: Vec::new(),
            before: slot.pending_changes(),
        };
        // All before queuing one: a full disk changes nothing.
        let copied = shards.iter().try_for_each(|(shard, old)| {
            let (tmp, path) = self.new_tmp();
            copies.names.push(tmp.clone());
            media.copy(old, &path).at("copy", old)?;
            self.stamp(slot, &path, *shard, &tmp)
        });
        let queued = copied.and_then(|()| {
            let names = shards.iter().zip(&copies.names);
            names.into_iter().try_for_each(|((shard, _), tmp)| {
                self.close_files(slot);
                slot.queue_copy(media, *shard, tmp)
            })
        });
        if let Err(error) = queued {
            self.take_back_copies(slot, copies);
            return Err(error);
        }
        Ok(Some(copies))
    }

    pub(super) fn take_back_copies(&self, slot: &mut SlotInner, copies: ShardCopies) {
        slot.restore(copies.before);
        self.close_files(slot);
        self.discard_replacements(copies.names.iter().map(String::as_str));
    }
}

#[derive(Debug)]
pub(super) struct ShardCopies {
    names: Vec<String>,
    before: PendingChanges,
}
