//! Removes uncommitted bytes past a signal's end and in its gaps.

use std::path::Path;

use crate::engine::candidate::FlatHead;
use crate::engine::engine_state::EngineState;
use crate::engine::io::IoContext;
use crate::engine::slot::SlotInner;
use crate::error::StoreError;
use crate::layout::flat::{Flat, IndexKind};
use crate::layout::shard::HeaderBlock;
use crate::layout::{data_shard_file, data_shard_number, data_shards};
use crate::media::{Access, Media};

impl EngineState {
    pub(super) fn trim_tail(&self, slot: &mut SlotInner) -> Result<(), StoreError> {
        let media = &*self.media;
        let folder = slot.folder.join("data");
        if !slot.base.meta.codec.is_empty() || media.stat(&folder).at("look at", &folder)?.is_none()
        {
            return Ok(());
        }
        let flat = slot.flat();
        let used = slot.base.end.max(0).cast_unsigned() * slot.base.meta.format.size() as u64;
        let (last, within) = (used / flat.shard_bytes(), used % flat.shard_bytes());
        let format = slot.base.meta.format;
        let chunks = data_shards(&folder, format);
        if media.stat(&chunks).at("look at", &chunks)?.is_none() {
            return Ok(());
        }
        for name in media.list(&chunks).at("list", &chunks)? {
            let Some(shard) = data_shard_number(format, &name) else {
                continue;
            };
            let path = chunks.join(&name);
            if shard > last || (shard == last && within == 0) {
                self.handles.remove_signal(slot.id);
                media.remove_file(&path).at("remove", &path)?;
                slot.forget_name(&data_shard_file(Path::new("data"), format, shard));
                slot.dirty.shards.remove(&shard);
            } else if !is_sound(media, &path, flat, used - shard * flat.shard_bytes())?
                && self.lies_in_a_gap(slot, shard)?
            {
                // From an uncommitted fill or append, torn by a power cut.
                self.handles.remove_signal(slot.id);
                media.remove_file(&path).at("remove", &path)?;
                slot.forget_name(&data_shard_file(Path::new("data"), format, shard));
                slot.dirty.shards.remove(&shard);
            } else if shard == last {
                trim(media, &path, flat, within)?;
                self.handles.remove_signal(slot.id);
            }
        }
        Ok(())
    }

    pub(super) fn lies_in_a_gap(
        &self,
        slot: &mut SlotInner,
        shard: u64,
    ) -> Result<bool, StoreError> {
        let per_shard = slot.base.meta.shard_samples();
        let Some(state) = slot.committed_state(&*self.media)? else {
            return Ok(false);
        };
        let start = (shard.cast_signed()).saturating_mul(per_shard);
        let range = start..start.saturating_add(per_shard).min(state.end);
        let length = range.end - range.start;
        Ok(state.gaps.missing_within(range) == length)
    }
}

/// Whether a shard has its index, header, and all inner chunks up to payload byte `used`.
fn is_sound(media: &dyn Media, path: &Path, flat: Flat, used: u64) -> Result<bool, StoreError> {
    let file = media.open(path, Access::Read).at("open", path)?;
    let head = FlatHead::read(&*file, &flat).at("read", path)?;
    let long = file.len().at("look at", path)? >= flat.file_len(used.min(flat.shard_bytes()));
    Ok(match head.index {
        IndexKind::Flat => long && head.header != HeaderBlock::Damaged,
        IndexKind::Foreign => true,
        IndexKind::Damaged => false,
    })
}

fn trim(media: &dyn Media, path: &Path, flat: Flat, within: u64) -> Result<(), StoreError> {
    let file = media.open(path, Access::Write).at("open", path)?;
    let mut index = vec![0; Flat::index_len(flat.chunks) as usize];
    let count = file.read_at(0, &mut index).at("read", path)?;
    if flat.index_kind(&index[..count]) != IndexKind::Flat {
        return Ok(());
    }
    let len = flat.file_len(within);
    if file.len().at("look at", path)? > len {
        file.set_len(len).at("cut", path)?;
    }
    let from = flat.payload_start + within;
    let mut tail = vec![0; (len - from) as usize];
    let count = file.read_at(from, &mut tail).at("read", path)?;
    if tail[..count].iter().any(|byte| *byte != 0) {
        tail.fill(0);
        file.write_at(from, &tail).at("write", path)?;
    }
    Ok(())
}
