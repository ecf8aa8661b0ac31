//! Detects shards that lack the last committed samples.
//!
//! A shard copied earlier than the log looks valid: zeros in place of missing samples. So if the last sample under a
//! checksum is zero, opening the shard compares the checksum.

use std::ops::Range;

use super::crc::masked;
use crate::layout::flat::Flat;
use crate::media::MediaFile;
use crate::state::SignalState;

/// Gap samples count as zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChecksummedRange {
    pub(crate) range: Range<i64>,
    pub(crate) crc: u32,
}

pub(crate) struct Proofs<'a> {
    pub(super) state: &'a SignalState,
    pub(super) stretches: Vec<ChecksummedRange>,
    pub(super) chunk_crc: &'a dyn Fn(u64) -> Option<u32>,
}

impl Proofs<'_> {
    /// Ranges that are zero in the file, but not when committed.
    pub(super) fn missing(
        &self,
        file: &dyn MediaFile,
        flat: &Flat,
        shard: u64,
    ) -> std::io::Result<Vec<Range<i64>>> {
        let size = self.state.meta.format.size() as u64;
        let per_shard = (flat.shard_bytes() / size).cast_signed();
        let first = shard.cast_signed().saturating_mul(per_shard);
        let last = (self.state.end).min(first.saturating_add(per_shard));
        let stored = (file.len()?.saturating_sub(flat.payload_start) / size).cast_signed();
        let end = last.min(first.saturating_add(stored));
        let inside = |range: &Range<i64>| first <= range.start && range.end <= last;
        let own = self.stretches.iter().filter(|own| inside(&own.range));
        let full = self.last_full_chunk(first..end);
        let mut missing = Vec::new();
        for stretch in own.cloned().chain(full) {
            let start = flat.payload_start + (stretch.range.start - first).cast_unsigned() * size;
            if self.is_missing(file, start, end, &stretch)? {
                missing.push(stretch.range);
            }
        }
        Ok(missing)
    }

    fn last_full_chunk(&self, range: Range<i64>) -> Option<ChecksummedRange> {
        let length = self.state.meta.chunk_samples.max(1).cast_signed();
        let chunk = (range.end / length).checked_sub(1)?;
        let own = chunk * length..(chunk + 1) * length;
        let crc = (self.chunk_crc)(chunk.cast_unsigned()).filter(|crc| *crc != 0)?;
        (own.start >= range.start).then_some(ChecksummedRange { range: own, crc })
    }

    /// Whether a range from byte `start` is missing. `file_end`: end of samples in the file.
    fn is_missing(
        &self,
        file: &dyn MediaFile,
        start: u64,
        file_end: i64,
        stretch: &ChecksummedRange,
    ) -> std::io::Result<bool> {
        let size = self.state.meta.format.size();
        let Range { start: from, end } = stretch.range;
        let mut last = end.min(file_end) - 1;
        while let Some(gap) = self.state.gaps.at(last) {
            last = gap.start - 1;
        }
        if last < from {
            return Ok(false);
        }
        let mut sample = [0; 16];
        let sample = &mut sample[..size];
        file.read_at(start + (last - from).cast_unsigned() * size as u64, sample)?;
        if sample.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        if file_end < end && self.state.gaps.missing_within(file_end..end) < end - file_end {
            // The rest of a truncated file is valid. But files are extended by zeros before they are written, so an end
            // of zeros is unknown.
            return Ok(true);
        }
        let mut bytes = vec![0; (end - from).cast_unsigned() as usize * size];
        file.read_at(start, &mut bytes)?;
        let crc = masked(&mut bytes, from, size, &self.state.gaps);
        Ok(crc.is_some_and(|crc| crc != stretch.crc))
    }
}
