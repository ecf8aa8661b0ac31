//! Flat sharded arrays: Zarr shards whose inner chunks are in order at fixed offsets, so that files can be mapped.
//!
//! ```text
//! 0                index: per inner chunk its offset and length (u64 each), then the crc32c of that
//! (multiple of 8)  header: whose shard it is, see [`ShardHeader`]; zeros in files of earlier versions
//! (behind it)      write marks: which commit wrote into it last, see [`MarkSlots`]; likewise
//! ..payload_start  zeros
//! payload_start    inner chunk 0, inner chunk 1, ... each `chunk_bytes` long
//! ```
//! The index lists all chunks from the start and never changes; the file ends with the last used inner chunk.

use super::mark::{MarkSlots, SLOTS_LEN, WriteMark};
use super::shard::{HEADER_LEN, HeaderBlock, ShardHeader};
use crate::meta::SignalMeta;
pub use isochrony_io::{FileRange, ShardLayout};

/// Alignment of the payload of shards with a long index.
pub const PAYLOAD_START: u64 = 65_536;

/// Payload start of `data` shards with a short index: one block of most file systems.
pub const SHORT_PAYLOAD_START: u64 = 4_096;

/// Most inner chunks of a short index.
pub const SHORT_INDEX_CHUNKS: u64 = 128;

/// Inner chunk bytes of `crc` and views.
pub const SIDE_CHUNK_BYTES: u64 = 65_536;

/// Default inner chunks per shard.
pub const SHARD_CHUNKS: u64 = 256;

/// Positions of the inner chunks of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flat {
    /// Bytes per inner chunk.
    pub chunk_bytes: u64,
    /// Inner chunks per shard.
    pub chunks: u64,
    /// Offset of the first inner chunk.
    pub payload_start: u64,
}

/// Kind of index in a shard file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexKind {
    /// As this program writes it.
    Flat,
    /// Valid, but a foreign program's.
    Foreign,
    /// No valid index.
    Damaged,
}

impl Flat {
    /// Shards of `chunks` inner chunks of `chunk_bytes` (both at least 1).
    #[must_use]
    pub fn new(chunk_bytes: u64, chunks: u64) -> Self {
        let (chunk_bytes, chunks) = (chunk_bytes.max(1), chunks.clamp(1, 1 << 24));
        let index = Self::index_len(chunks);
        Self {
            chunk_bytes,
            chunks,
            payload_start: index.max(1).next_multiple_of(PAYLOAD_START),
        }
    }

    /// Layout of a signal's `data`. Earlier versions: 256 inner chunks per shard and a long head.
    #[must_use]
    pub fn data(meta: &SignalMeta) -> Self {
        let chunk_bytes = (meta.chunk_samples.max(1)).saturating_mul(meta.format.size() as u64);
        let flat = Self::new(chunk_bytes, meta.shard_chunks);
        match flat.chunks {
            ..=SHORT_INDEX_CHUNKS => Self {
                payload_start: SHORT_PAYLOAD_START,
                ..flat
            },
            _ => flat,
        }
    }

    /// Layout of `crc` and of views.
    #[must_use]
    pub fn side() -> Self {
        Self::new(SIDE_CHUNK_BYTES, SHARD_CHUNKS)
    }

    /// Bytes of an index of `chunks` entries.
    #[must_use]
    pub const fn index_len(chunks: u64) -> u64 {
        16 * chunks + 4
    }

    /// Payload bytes of a full shard.
    #[must_use]
    pub const fn shard_bytes(&self) -> u64 {
        self.chunk_bytes.saturating_mul(self.chunks)
    }

    /// File length of a full shard.
    #[must_use]
    pub const fn full_len(&self) -> u64 {
        self.payload_start.saturating_add(self.shard_bytes())
    }

    /// File length for `used` payload bytes: whole inner chunks.
    #[must_use]
    pub const fn file_len(&self, used: u64) -> u64 {
        let chunks = used.div_ceil(self.chunk_bytes);
        self.payload_start + chunks * self.chunk_bytes
    }

    /// Bytes of the index.
    #[must_use]
    pub fn index(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::index_len(self.chunks) as usize);
        for chunk in 0..self.chunks {
            bytes.extend((self.payload_start + chunk * self.chunk_bytes).to_le_bytes());
            bytes.extend(self.chunk_bytes.to_le_bytes());
        }
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// Offset of the header, if the index leaves room.
    #[must_use]
    pub const fn header_at(&self) -> Option<u64> {
        let at = Self::index_len(self.chunks).next_multiple_of(8);
        if at + HEADER_LEN <= self.payload_start {
            Some(at)
        } else {
            None
        }
    }

    /// Length of index and header.
    #[must_use]
    pub const fn head_len(&self) -> u64 {
        match self.header_at() {
            Some(at) => at + HEADER_LEN,
            None => Self::index_len(self.chunks),
        }
    }

    /// Offset of write marks, if there is room.
    #[must_use]
    pub fn marks_at(&self) -> Option<u64> {
        let at = self.header_at()? + HEADER_LEN;
        (at + SLOTS_LEN <= self.payload_start).then_some(at)
    }

    /// Length of index, header and write marks.
    #[must_use]
    pub fn marked_head_len(&self) -> u64 {
        self.marks_at().map_or(self.head_len(), |at| at + SLOTS_LEN)
    }

    /// Write marks in the start of a file.
    #[must_use]
    pub fn marks(&self, start_of_file: &[u8]) -> MarkSlots {
        let at = self.marks_at().and_then(|at| usize::try_from(at).ok());
        let bytes = at.and_then(|at| start_of_file.get(at..));
        bytes.map_or_else(MarkSlots::default, MarkSlots::decode)
    }

    /// Start of a file: index and header.
    #[must_use]
    pub fn head(&self, header: &ShardHeader) -> Vec<u8> {
        let mut bytes = self.index();
        if let Some(at) = self.header_at() {
            bytes.resize(at as usize, 0);
            bytes.extend(header.encode());
        }
        bytes
    }

    /// Start of a file with a write mark.
    #[must_use]
    pub fn marked_head(&self, header: &ShardHeader, mark: Option<WriteMark>) -> Vec<u8> {
        let mut bytes = self.head(header);
        if let (Some(mark), Some(at)) = (mark, self.marks_at()) {
            bytes.resize(at as usize, 0);
            bytes.extend(mark.encode());
        }
        bytes
    }

    /// Header in the start of a file.
    #[must_use]
    pub fn header(&self, start_of_file: &[u8]) -> HeaderBlock {
        let at = self.header_at().and_then(|at| usize::try_from(at).ok());
        let bytes = at.and_then(|at| start_of_file.get(at..));
        bytes.map_or(HeaderBlock::None, HeaderBlock::decode)
    }

    /// Classifies the start of a file.
    #[must_use]
    pub fn index_kind(&self, start_of_file: &[u8]) -> IndexKind {
        let expected = self.index();
        match start_of_file.get(..expected.len()) {
            Some(found) if found == expected => IndexKind::Flat,
            Some(found) if parse_index(found).is_some() => IndexKind::Foreign,
            _ => IndexKind::Damaged,
        }
    }

    /// Spans of the array's payload bytes `start..start + len`: one per shard, in order.
    pub fn spans(&self, start: u64, len: u64) -> impl Iterator<Item = FileRange> + use<> {
        self.shard_layout().spans(start, len)
    }

    /// Layout of the array in files.
    #[must_use]
    pub const fn shard_layout(&self) -> ShardLayout {
        ShardLayout {
            shard_bytes: self.shard_bytes(),
            payload_start: self.payload_start,
        }
    }
}

/// Parses any program's shard index: offset and length per inner chunk (`u64::MAX` twice if empty). `None` if its
/// length or checksum is wrong.
#[must_use]
pub fn parse_index(bytes: &[u8]) -> Option<Vec<(u64, u64)>> {
    let (entries, crc) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
    if !entries.len().is_multiple_of(16) || crc32c::crc32c(entries).to_le_bytes() != crc {
        return None;
    }
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
    Some(
        entries
            .chunks_exact(16)
            .map(|entry| (number(&entry[..8]), number(&entry[8..])))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_index_names_every_chunk_at_its_fixed_place() {
        let flat = Flat::new(1 << 20, 256);
        let index = parse_index(&flat.index()).unwrap();
        assert_eq!(index.len(), 256);
        assert_eq!(index[0], (65_536, 1 << 20));
        assert_eq!(index[255], (65_536 + 255 * (1 << 20), 1 << 20));
        assert_eq!(flat.full_len(), 65_536 + 256 * (1 << 20));
    }

    #[test]
    fn payload_starts_behind_an_index_of_any_length() {
        for chunks in [1, 256, 4095, 4096, 100_000] {
            let flat = Flat::new(64, chunks);
            assert!(flat.payload_start >= Flat::index_len(chunks));
            assert_eq!(flat.payload_start % 65_536, 0);
        }
    }

    #[test]
    fn the_header_lies_between_index_and_payload_if_there_is_room() {
        let header = ShardHeader {
            signal: 1,
            shard: 2,
            version: crate::version::FileVersion::ORIGINAL,
        };
        for chunks in [1, 256, 4091, 4092, 4095, 4096] {
            let flat = Flat::new(64, chunks);
            let head = flat.head(&header);
            assert_eq!(head.len() as u64, flat.head_len());
            assert!(flat.head_len() <= flat.payload_start);
            assert_eq!(flat.index_kind(&head), IndexKind::Flat);
            // 4,095 entries end 12 bytes before the payload.
            let expected = match chunks {
                4092..=4095 => HeaderBlock::None,
                _ => HeaderBlock::Header(header),
            };
            assert_eq!(flat.header(&head), expected, "{chunks} chunks");
        }
    }

    #[test]
    fn head_of_a_short_shard_of_data_fits_one_block() {
        let rate = isochrony_time::Rate::from_hz(100).unwrap();
        let options = crate::CreateOptions::new(isochrony_segment::DType::I16, rate);
        let mut meta = options.meta("x").unwrap();
        let flat = Flat::data(&meta);
        assert_eq!(flat.payload_start, 4096);
        assert!(flat.head_len() <= flat.payload_start);
        assert_eq!(flat.file_len(1), 4096 + 65_536);
        meta.shard_chunks = 256;
        assert_eq!(Flat::data(&meta).payload_start, 65_536);
    }

    #[test]
    fn files_grow_by_whole_chunks() {
        let flat = Flat::new(100, 4);
        assert_eq!(flat.file_len(0), 65_536);
        assert_eq!(flat.file_len(1), 65_636);
        assert_eq!(flat.file_len(100), 65_636);
        assert_eq!(flat.file_len(101), 65_736);
    }

    #[test]
    fn distinguishes_own_foreign_and_damaged_indices() {
        let flat = Flat::new(100, 4);
        assert_eq!(flat.index_kind(&flat.index()), IndexKind::Flat);
        assert_eq!(
            flat.index_kind(&Flat::new(200, 4).index()),
            IndexKind::Foreign
        );
        let mut torn = flat.index();
        torn[3] ^= 1;
        assert_eq!(flat.index_kind(&torn), IndexKind::Damaged);
        assert_eq!(flat.index_kind(&torn[..10]), IndexKind::Damaged);
    }

    proptest! {
        #[test]
        fn spans_cover_the_range_in_order(chunk in 1u64..50, chunks in 1u64..9, start in 0u64..5_000, len in 0u64..5_000) {
            let flat = Flat::new(chunk, chunks);
            let mut at = start;
            for span in flat.spans(start, len) {
                prop_assert_eq!(span.shard * flat.shard_bytes() + span.offset - flat.payload_start, at);
                prop_assert!(span.offset + span.len <= flat.full_len());
                at += span.len;
            }
            prop_assert_eq!(at, start + len);
        }

        #[test]
        fn parses_any_bytes_as_an_index_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_index(&bytes);
        }
    }
}
