//! The checksum of a signal's last chunk, the one that its end cuts short.
//!
//! Full chunks have a row in the array `crc`. The rest behind them, which is all that a short signal has, is summed at each
//! checkpoint, and the sum stands in the base of the log that begins there: an `Op::Crc` behind the signal's `Op::End`,
//! which says how far it reaches. It follows what was summed before, so a bit that flips meanwhile is never taken for
//! right. Later appends leave it true of the samples up to its own end; what changes these ends it.
//!
//! A commit of samples that do not stand in its record says it, too, where it is known without reading: else nothing would
//! tell a shard that was copied before that commit from the right one. There it is an `Op::Crc` of a chunk that the signal's
//! end cuts short.
//!
//! It is a proof of samples and nothing else: no reader needs it, and where none can be made there is none.

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

/// crc32c of the samples from the beginning of the chunk that holds sample `end - 1` up to `end`; those in gaps count as
/// zero. `end` is no border of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) end: i64,
    pub(crate) crc: u32,
}

impl Tail {
    /// What an `Op::Crc` says of a signal that ends at `end`; `None` if it is of a full chunk.
    pub(crate) fn said(chunk: u64, crc: u32, end: i64, meta: &SignalMeta) -> Option<Self> {
        let length = meta.chunk_samples.max(1);
        let reached = end.max(0).cast_unsigned();
        let is_cut = chunk == reached / length && !reached.is_multiple_of(length);
        is_cut.then_some(Self { end, crc })
    }

    /// The operation that says it.
    pub(crate) fn op(self, id: SignalId, meta: &SignalMeta) -> Op {
        let chunk = self.end.cast_unsigned() / meta.chunk_samples.max(1);
        let crc = self.crc;
        Op::Crc { id, chunk, crc }
    }

    /// What it is after a change: the same, or nothing.
    pub(super) fn after(self, op: &Op, meta: &SignalMeta) -> Option<Self> {
        let first = first_of(self.end, meta);
        let holds = match op {
            Op::Gap { start, end, .. } | Op::Valid { start, end, .. } => {
                *end <= first || *start >= self.end
            }
            // Cut off and made longer again, the signal has other samples there.
            Op::End { end, .. } => *end >= self.end,
            Op::ReplaceShard { shard, .. } => {
                shard.cast_signed() != first / super::shard_samples(meta)
            }
            _ => true,
        };
        holds.then_some(self)
    }
}

/// First sample of the chunk that `end` cuts short; `end` itself if it cuts none.
pub(super) fn first_of(end: i64, meta: &SignalMeta) -> i64 {
    let length = i64::try_from(meta.chunk_samples.max(1)).unwrap_or(i64::MAX);
    end.max(0) / length * length
}

impl Base {
    /// Takes in what a log's base says behind the signal's length.
    pub(crate) fn read_tail(&mut self, chunk: u64, crc: u32) {
        self.tail = Tail::said(chunk, crc, self.end, &self.meta).or(self.tail);
    }

    /// The samples that the checksum is of.
    pub(crate) fn tail_stretch(&self) -> Option<ChecksummedRange> {
        let tail = self.tail?;
        let range = first_of(tail.end, &self.meta)..tail.end;
        let crc = tail.crc;
        Some(ChecksummedRange { range, crc })
    }

    /// Forgets the checksum if the change touches what it is of.
    pub(crate) fn outlive(&mut self, op: &Op) {
        self.tail = self.tail.and_then(|tail| tail.after(op, &self.meta));
    }

    /// The operation that says it, if the checksum reaches to the signal's end.
    pub(crate) fn tail_op(&self, id: SignalId) -> Option<Op> {
        let tail = self.tail.filter(|tail| tail.end == self.end)?;
        Some(tail.op(id, &self.meta))
    }

    /// The progress of checksums where the next sample appended goes on with the last chunk.
    pub(crate) fn checksums(&self) -> Checksums {
        let Some(tail) = self.tail.filter(|tail| tail.end == self.end) else {
            return Checksums::default();
        };
        let first = first_of(tail.end, &self.meta);
        let seen = (tail.end - first).cast_unsigned() * self.meta.format.size() as u64;
        let chunk = tail.end.cast_unsigned() / self.meta.chunk_samples.max(1);
        Checksums::going_on(chunk, seen, tail.crc)
    }
}

impl Shared {
    /// Brings the checksum up to the last commit. What cannot be read has none.
    pub(crate) fn sum_tail(&self, slot: &mut SlotInner) {
        let end = slot.base.end;
        let first = first_of(end, &slot.base.meta);
        let known = slot.base.tail;
        let known = known.filter(|tail| (first + 1..=end).contains(&tail.end));
        let (from, crc) = known.map_or((first, 0), |tail| (tail.end, tail.crc));
        slot.base.tail = if from == end {
            known
        } else {
            self.committed_bytes(slot, from, end).map(|bytes| Tail {
                end,
                crc: crc32c::crc32c_append(crc, &bytes),
            })
        };
    }

    /// Bytes of committed samples of one chunk, zero in gaps. Read, not mapped: a bad disk must not end the process.
    fn committed_bytes(&self, slot: &mut SlotInner, start: i64, end: i64) -> Option<Vec<u8>> {
        if slot.replaced_data.is_some() {
            // Whatever is read now may be remembered as the replacement's.
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
            // The file may end before samples that were lost with its end, and are a gap now.
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
    /// Records, at the next checkpoint, checksums of what stands behind the last border of chunks where there are none:
    /// stores of earlier versions have none, and what could not be read at the last checkpoint.
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

    /// Checksum of the samples from the last border of chunks to an index: where it ends and what it is. As of the last
    /// checkpoint, and `None` if they changed since.
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
