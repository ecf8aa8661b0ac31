//! Sums signals' last chunks at a checkpoint, for their [`TailChecksum`].

use super::Engine;
use super::candidate::ArrayFolder;
use super::crc::masked;
use super::engine_state::EngineState;
use super::slot::SlotInner;
use super::tail::{TailChecksum, first_of};
use crate::decode::ArraySource;
use crate::error::StoreError;
use crate::layout;
use crate::layout::flat::{Flat, IndexKind};
use crate::media::Access;
use crate::op::SignalId;

impl EngineState {
    /// Sums up to the last commit, unless samples cannot be read.
    pub(crate) fn sum_tail(&self, slot: &mut SlotInner) {
        let end = slot.base.end;
        let first = first_of(end, &slot.base.meta);
        let known = slot.base.tail;
        let known = known.filter(|tail| (first + 1..=end).contains(&tail.end));
        let (from, crc) = known.map_or((first, 0), |tail| (tail.end, tail.crc));
        slot.base.tail = if from == end {
            known
        } else {
            self.committed_bytes(slot, from, end)
                .map(|bytes| TailChecksum {
                    end,
                    crc: crc32c::crc32c_append(crc, &bytes),
                })
        };
    }

    /// One chunk, zero in gaps. Read, not mapped: an I/O error must not kill the process.
    fn committed_bytes(&self, slot: &mut SlotInner, start: i64, end: i64) -> Option<Vec<u8>> {
        if slot.replaced_data.is_some() {
            // A value read now could be cached as that of the replacement.
            return None;
        }
        let media = &*self.media;
        let state = slot.committed_state(media).ok()??;
        let size = slot.base.meta.format.size();
        let count = usize::try_from(end.checked_sub(start)?).ok()?;
        let mut bytes = vec![0; count.checked_mul(size)?];
        if state.gaps.missing_within(start..end) == end - start {
            return Some(bytes);
        }
        if slot.base.meta.codec.is_empty() {
            let flat = slot.flat();
            let at = start.cast_unsigned() * size as u64;
            let span = flat.spans(at, bytes.len() as u64).next()?;
            let path = layout::data_shard_file(
                &slot.folder.join("data"),
                slot.base.meta.format,
                span.shard,
            );
            let file = media.open(&path, Access::Read).ok()?;
            let mut index = vec![0; Flat::index_len(flat.chunks) as usize];
            let have = file.read_at(0, &mut index).ok()?;
            let is_ours = flat.index_kind(&index[..have]) == IndexKind::Flat;
            let read = file.read_at(span.offset, &mut bytes).ok()? / size;
            // It may end before lost samples that are now a gap.
            let cut = start + i64::try_from(read).ok()?..end;
            if !is_ours || state.gaps.missing_within(cut.clone()) < cut.end - cut.start {
                return None;
            }
        } else {
            let (folder, meta) = (ArrayFolder::own(slot.folder.join("data")), &slot.base.meta);
            let source = ArraySource {
                folder: &folder,
                version: slot.base.data.array(),
                caching: None,
            };
            let decoders = &self.sources.decoders;
            let read = decoders.read(&self.media, slot.id, &source, meta, start, count);
            bytes.copy_from_slice(read.ok()?.bytes());
        }
        masked(&mut bytes, start, size, &state.gaps);
        Some(bytes)
    }
}

impl Engine {
    /// Makes the next checkpoint sum last chunks without a checksum, as of earlier versions or after a read error.
    pub fn sum_tails(&self) {
        let core = self.shared.core();
        for (_, slot) in self.shared.all_slots() {
            let mut slot = slot.lock();
            if !slot.created && !slot.removed {
                self.shared.sum_tail(&mut slot);
            }
        }
        drop(core);
    }

    /// End and checksum of samples after the last full chunk at the last checkpoint; `None` if changed since.
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`].
    pub fn tail_crc(&self, id: SignalId) -> Result<Option<(i64, u32)>, StoreError> {
        let slot = self.shared.existing(id)?;
        let slot = slot.lock();
        let meta = &slot.base.meta;
        let tail = slot.base.tail.and_then(|tail| {
            let mut changes = slot.ops.iter();
            changes.try_fold(tail, |tail, op| tail.after(op, meta))
        });
        Ok(tail.map(|tail| (tail.end, tail.crc)))
    }
}
