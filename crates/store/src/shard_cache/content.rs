//! Content of cached shards: chunks with checksums.

use std::fmt;
use std::ops::Range;

use crate::engine::crc::masked;
use crate::state::GapTable;

/// The part of a shard with known checksums: an object of the cache.
pub(crate) trait CachedContent: fmt::Debug + Send + Sync {
    /// Offset in the shard's file.
    fn start(&self) -> u64;

    fn bytes(&self) -> u64;

    /// The smallest verifiable range around one.
    fn checkable(&self, range: Range<u64>) -> Range<u64>;

    fn is_known(&self, range: Range<u64>) -> bool;

    /// Verifies a range, and zeroes bytes without samples. The error is a description.
    fn check(&self, start: u64, bytes: &mut [u8]) -> Result<(), String>;
}

pub(crate) struct FlatContent {
    /// Offset of the first chunk in the file.
    pub(crate) payload_start: u64,
    pub(crate) chunk_bytes: u64,
    pub(crate) sample_bytes: usize,
    /// Index of the shard's first sample.
    pub(crate) first: i64,
    pub(crate) gaps: GapTable,
    /// Checksums of the full chunks.
    pub(crate) crcs: Vec<Option<u32>>,
}

impl fmt::Debug for FlatContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlatContent")
            .field("first", &self.first)
            .field("chunks", &self.crcs.len())
            .finish_non_exhaustive()
    }
}

impl FlatContent {
    fn chunks(&self, range: &Range<u64>) -> Range<u64> {
        range.start / self.chunk_bytes..range.end.div_ceil(self.chunk_bytes)
    }

    fn chunk_samples(&self) -> i64 {
        (self.chunk_bytes / self.sample_bytes as u64).cast_signed()
    }

    fn first_of(&self, chunk: u64) -> i64 {
        self.first + chunk.cast_signed() * self.chunk_samples()
    }

    fn is_gap(&self, chunk: u64) -> bool {
        let (first, length) = (self.first_of(chunk), self.chunk_samples());
        self.gaps.missing_within(first..first + length) >= length
    }
}

impl CachedContent for FlatContent {
    fn start(&self) -> u64 {
        self.payload_start
    }

    fn bytes(&self) -> u64 {
        self.crcs.len() as u64 * self.chunk_bytes
    }

    fn checkable(&self, range: Range<u64>) -> Range<u64> {
        let chunks = self.chunks(&range);
        chunks.start * self.chunk_bytes..chunks.end * self.chunk_bytes
    }

    fn is_known(&self, range: Range<u64>) -> bool {
        self.chunks(&range).all(|chunk| {
            let crc = self.crcs.get(chunk as usize);
            crc.is_some_and(|crc| crc.is_some() || self.is_gap(chunk))
        })
    }

    fn check(&self, start: u64, bytes: &mut [u8]) -> Result<(), String> {
        let first = start / self.chunk_bytes;
        for (chunk, bytes) in (first..).zip(bytes.chunks_mut(self.chunk_bytes as usize)) {
            let begins = self.first_of(chunk);
            let Some(got) = masked(bytes, begins, self.sample_bytes, &self.gaps) else {
                bytes.fill(0);
                continue;
            };
            let expected = self.crcs.get(chunk as usize).copied().flatten();
            if expected != Some(got) {
                let end = begins + self.chunk_samples();
                return Err(match expected {
                    Some(expected) => format!(
                        "samples {begins}..{end} have the checksum {got:08x}, expected {expected:08x}"
                    ),
                    None => format!("samples {begins}..{end} have no checksum"),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content() -> (FlatContent, Vec<u8>) {
        let bytes: Vec<u8> = (0..64u8).collect();
        let mut gaps = GapTable::default();
        gaps.set_gap(102..104);
        gaps.set_gap(116..124);
        let mut summed = bytes.clone();
        summed[4..8].fill(0);
        let crc = |chunk: usize| Some(crc32c::crc32c(&summed[chunk * 16..][..16]));
        let content = FlatContent {
            payload_start: 4096,
            chunk_bytes: 16,
            sample_bytes: 2,
            first: 100,
            gaps,
            crcs: vec![crc(0), crc(1), None, None],
        };
        (content, bytes)
    }

    #[test]
    fn chunks_are_compared_and_gaps_become_zeros() {
        let (content, mut bytes) = content();
        content.check(0, &mut bytes[..48]).unwrap();
        assert_eq!(bytes[..8], [0, 1, 2, 3, 0, 0, 0, 0]);
        assert_eq!(bytes[16..32], (16..32u8).collect::<Vec<_>>());
        assert_eq!(bytes[32..48], [0; 16]);
        bytes[17] ^= 1;
        let why = content.check(16, &mut bytes[16..32]).unwrap_err();
        assert!(
            why.starts_with("samples 108..116 have the checksum"),
            "{why}"
        );
        let why = content.check(48, &mut bytes[48..64]).unwrap_err();
        assert_eq!(why, "samples 124..132 have no checksum");
    }

    #[test]
    fn only_chunks_with_a_checksum_or_without_samples_are_known() {
        let (content, _) = content();
        assert_eq!((content.start(), content.bytes()), (4096, 64));
        assert!(content.is_known(0..48) && content.is_known(20..21));
        assert!(!content.is_known(47..49) && !content.is_known(0..65));
        assert_eq!(content.checkable(17..33), 16..48);
    }
}
