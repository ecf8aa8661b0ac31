//! Headers of shard files: identity and version.
//!
//! ```text
//! 0    magic "ISOSHARD"
//! 8    format u32, zero u32
//! 16   signal u64, number of the shard u64
//! 32   version u128
//! 48   zeros
//! 60   crc32c of the 60 bytes before
//! ```
//! It lies between index and payload of a flat shard, or at the start of a sealed one, where the index names no chunk.
//! Files of earlier versions have none.

use crate::version::FileVersion;

const MAGIC: [u8; 8] = *b"ISOSHARD";
const FORMAT: u32 = 1;

/// Length in bytes.
pub const HEADER_LEN: u64 = 64;
const CHECKED_BYTES: usize = HEADER_LEN as usize - 4;

/// At most 64 MiB uncompressed, which sealing holds in memory.
pub(crate) const SEALED_SHARD_CHUNKS: u64 = 64;

/// Identity of a shard file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShardHeader {
    /// Id of the signal.
    pub signal: u64,
    /// Index in the array.
    pub shard: u64,
    /// Version of the file.
    pub version: FileVersion,
}

/// What is in a header's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderBlock {
    /// A header.
    Header(ShardHeader),
    /// None: of an earlier version or another program.
    None,
    /// Wrong checksum, or a newer format.
    Damaged,
}

impl std::fmt::Display for ShardHeader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (signal, shard, version) = (self.signal, self.shard, self.version.0);
        write!(
            f,
            "shard {shard} of signal #{signal}, version {version:032x}"
        )
    }
}

impl ShardHeader {
    /// Encodes the header.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN as usize] {
        let mut bytes = [0; HEADER_LEN as usize];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.signal.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.shard.to_le_bytes());
        bytes[32..48].copy_from_slice(&self.version.0.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..CHECKED_BYTES]);
        bytes[CHECKED_BYTES..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }
}

impl HeaderBlock {
    /// Decodes what may be a header.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Self {
        let Some(bytes) = bytes.first_chunk::<{ HEADER_LEN as usize }>() else {
            return Self::None;
        };
        if bytes[..8] != MAGIC {
            return Self::None;
        }
        let crc = crc32c::crc32c(&bytes[..CHECKED_BYTES]);
        if bytes[CHECKED_BYTES..] != crc.to_le_bytes() || bytes[8..12] != FORMAT.to_le_bytes() {
            return Self::Damaged;
        }
        let number = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(number)
        };
        let version = u128::from(number(32)) | u128::from(number(40)) << 64;
        Self::Header(ShardHeader {
            signal: number(16),
            shard: number(24),
            version: FileVersion(version),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back_and_no_flipped_bit_does() {
        let header = ShardHeader {
            signal: 7,
            shard: 3,
            version: FileVersion::of_replacement("new-1"),
        };
        let good = header.encode();
        assert_eq!(HeaderBlock::decode(&good), HeaderBlock::Header(header));
        for at in 0..good.len() {
            let mut bad = good;
            bad[at] ^= 4;
            assert_ne!(
                HeaderBlock::decode(&bad),
                HeaderBlock::Header(header),
                "byte {at}"
            );
        }
        assert_eq!(HeaderBlock::decode(&good[..63]), HeaderBlock::None);
        assert_eq!(HeaderBlock::decode(&[0; 64]), HeaderBlock::None);
    }
}
