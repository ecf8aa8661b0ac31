//! Whether a shard holds what was committed last.
//!
//! Samples are appended in place, so a shard that was copied earlier than the log beside it, or that comes from an older copy,
//! looks like the right one: it is as long as its last chunk, and zeros stand where the samples are missing. So where the
//! last sample that a checksum covers is zero, the checksum is compared when the shard is opened. That costs nothing where
//! it is not zero, and the reading of one chunk else.

use std::ops::Range;

use super::crc::masked;
use crate::layout::flat::Flat;
use crate::media::MediaFile;
use crate::state::SignalState;

/// Samples of which the checksum is known; those in gaps count as zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChecksummedRange {
    pub(crate) range: Range<i64>,
    pub(crate) crc: u32,
}

/// What is known of a signal's samples.
pub(crate) struct Proofs<'a> {
    pub(super) state: &'a SignalState,
    /// Behind the last full chunk.
    pub(super) stretches: Vec<ChecksummedRange>,
    /// The checksum of a full chunk.
    pub(super) chunk_crc: &'a dyn Fn(u64) -> Option<u32>,
}

impl Proofs<'_> {
    /// Stretches of a shard that hold zeros in the file which were none when they were committed.
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
        let held = (file.len()?.saturating_sub(flat.payload_start) / size).cast_signed();
        let end = last.min(first.saturating_add(held));
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

    /// Whether samples of a stretch that begins at byte `start` of the file are zeros there, and were not. `file_end`:
    /// where the samples that the file holds end.
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
            // A file that ends early was cut off, and what is left of it is right; but files are made longer by zeros
            // before they are written, so of one that ends with zeros nobody knows.
            return Ok(true);
        }
        let mut bytes = vec![0; (end - from).cast_unsigned() as usize * size];
        file.read_at(start, &mut bytes)?;
        let crc = masked(&mut bytes, from, size, &self.state.gaps);
        Ok(crc.is_some_and(|crc| crc != stretch.crc))
    }
}
