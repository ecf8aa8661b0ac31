//! Checksums of the last chunk of a signal, cut short by its end.
//!
//! Full chunks have a row in the array `crc`. Samples after them, all that a short signal has, are summed at each
//! checkpoint; the sum is an `Op::Crc` in the base of the new log, after the `Op::End` up to which it applies. It
//! builds on the previous sum, so that a bit flip in between is detected. Appends keep it valid up to its own end;
//! changes of its samples drop it.
//!
//! A commit whose samples are not in its record also states the sum, if known without reading: nothing else tells a
//! shard copied before that commit from the right one.
//!
//! It is optional evidence: no reader depends on it.

use super::Engine;
use super::candidate::ArrayFolder;
use super::crc::{Checksums, masked};
use super::proofs::ChecksummedRange;
use super::shared::Shared;
use super::slot::{Base, SlotInner};
use crate::decode::ArraySource;
use crate::error::StoreError;
use crate::layout;
use crate::layout::flat::{Flat, IndexKind};
use crate::media::Access;
use crate::meta::SignalMeta;
use crate::op::{Op, SignalId};

/// crc32c of the samples from the start of the last chunk, the one with sample `end - 1`, up to `end`; gap samples
/// count as zero. `end` is not a chunk border.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TailChecksum {
    pub(crate) end: i64,
    pub(crate) crc: u32,
}

impl TailChecksum {
    /// The tail in an `Op::Crc` of a signal that ends at `end`; `None` for a full chunk.
    pub(crate) fn from_crc(chunk: u64, crc: u32, end: i64, meta: &SignalMeta) -> Option<Self> {
        let length = meta.chunk_samples.max(1);
        let reached = end.max(0).cast_unsigned();
        let is_cut = chunk == reached / length && !reached.is_multiple_of(length);
        is_cut.then_some(Self { end, crc })
    }

    pub(crate) fn op(self, id: SignalId, meta: &SignalMeta) -> Op {
        let chunk = self.end.cast_unsigned() / meta.chunk_samples.max(1);
        let crc = self.crc;
        Op::Crc { id, chunk, crc }
    }

    /// `None` if the tail no longer applies.
    pub(super) fn after(self, op: &Op, meta: &SignalMeta) -> Option<Self> {
        let first = first_of(self.end, meta);
        let holds = match op {
            Op::Gap { start, end, .. } | Op::Valid { start, end, .. } => {
                *end <= first || *start >= self.end
            }
            // After a cut and a new append the samples differ.
            Op::End { end, .. } => *end >= self.end,
            Op::ReplaceShard { shard, .. } => {
                shard.cast_signed() != first / super::shard_samples(meta)
            }
            _ => true,
        };
        holds.then_some(self)
    }
}

/// First sample of the chunk that `end` cuts short; otherwise `end`.
pub(super) fn first_of(end: i64, meta: &SignalMeta) -> i64 {
    let length = i64::try_from(meta.chunk_samples.max(1)).unwrap_or(i64::MAX);
    end.max(0) / length * length
}

impl Base {
    /// Reads the checksum in a log's base after the signal's length.
    pub(crate) fn read_tail(&mut self, chunk: u64, crc: u32) {
        self.tail = TailChecksum::from_crc(chunk, crc, self.end, &self.meta).or(self.tail);
    }

    pub(crate) fn tail_stretch(&self) -> Option<ChecksummedRange> {
        let tail = self.tail?;
        let range = first_of(tail.end, &self.meta)..tail.end;
        let crc = tail.crc;
        Some(ChecksummedRange { range, crc })
    }

    pub(crate) fn drop_stale_tail(&mut self, op: &Op) {
        self.tail = self.tail.and_then(|tail| tail.after(op, &self.meta));
    }

    pub(crate) fn tail_op(&self, id: SignalId) -> Option<Op> {
        let tail = self.tail.filter(|tail| tail.end == self.end)?;
        Some(tail.op(id, &self.meta))
    }

    /// Appends continue from it.
    pub(crate) fn checksums(&self) -> Checksums {
        let Some(tail) = self.tail.filter(|tail| tail.end == self.end) else {
            return Checksums::default();
        };
        let first = first_of(tail.end, &self.meta);
        let seen = (tail.end - first).cast_unsigned() * self.meta.format.size() as u64;
        let chunk = tail.end.cast_unsigned() / self.meta.chunk_samples.max(1);
        Checksums::continuing(chunk, seen, tail.crc)
    }
}

impl Shared {
    /// Extends the checksum to the last commit; none if samples cannot be read.
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

    /// Committed bytes of one chunk, zero in gaps. Read, not mapped: an I/O error must not kill the process.
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
            // There may be no file.
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
            // The file may end before lost samples that are now a gap.
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
    /// Makes the next checkpoint record checksums of last chunks that have none, in stores of earlier versions or after
    /// a read error.
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

    /// End and checksum of the samples after the last full chunk, as of the last checkpoint; `None` if they changed
    /// since.
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
