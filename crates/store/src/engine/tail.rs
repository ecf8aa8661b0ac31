//! Checksums of a signal's last chunk, cut short by its end.
//!
//! Full chunks have a row in the array `crc`. Samples after them are summed at each checkpoint; the sum is an `Op::Crc`
//! in the base of the new log, after the `Op::End` up to which it applies. It builds on the previous sum, so that a bit
//! flip in between is detected. Appends keep it; changes of its samples drop it.
//!
//! A commit whose samples are not in its record also states the sum, if known without reading: nothing else tells an
//! older copy of the shard from the right one. No reader depends on it.

use crate::meta::SignalMeta;
use crate::op::{Op, SignalId};

/// crc32c from the start of the chunk of sample `end - 1` up to `end`, which is no chunk border; gap samples count as
/// zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TailChecksum {
    pub(crate) end: i64,
    pub(crate) crc: u32,
}

impl TailChecksum {
    /// `None` for a full chunk. The signal ends at `end`.
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

    /// `None` if it no longer applies.
    pub(super) fn after(self, op: &Op, meta: &SignalMeta) -> Option<Self> {
        let first = first_of(self.end, meta);
        let holds = match op {
            Op::Gap { start, end, .. } | Op::Valid { start, end, .. } => {
                *end <= first || *start >= self.end
            }
            // After a cut and a new append the samples differ.
            Op::End { end, .. } => *end >= self.end,
            Op::ReplaceShard { shard, .. } => shard.cast_signed() != first / meta.shard_samples(),
            _ => true,
        };
        holds.then_some(self)
    }
}

/// Start of the chunk that `end` cuts short; else `end`.
pub(super) fn first_of(end: i64, meta: &SignalMeta) -> i64 {
    let length = i64::try_from(meta.chunk_samples.max(1)).unwrap_or(i64::MAX);
    end.max(0) / length * length
}
