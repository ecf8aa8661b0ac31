//! Hashes and checksums.
//!
//! | name | result | buffers |
//! |---|---|---|
//! | `md5` | RFC 1321, 16 bytes | in order |
//! | `sha256`, `sha512` | FIPS 180-4, 32 and 64 bytes | in order |
//! | `xxh3`, `xxh3-128` | XXH3 with seed 0, 8 and 16 bytes, big-endian as `xxhsum` prints | in order |
//! | `crc32c` | RFC 3720 appendix B.4, 4 bytes, most significant first | in parts |
//! | `blake3` | the BLAKE3 specification, 32 bytes | in parts |
//!
//! Hashes in order do all their work in `join`. MD5 is not secure; use it only to compare with old checksums.

mod blake;
mod crc;
mod ordered_hash;

use crate::processor::AnyProcessor;

/// A hash or checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Algorithm {
    Md5,
    Sha256,
    Sha512,
    Blake3,
    Xxh3,
    Xxh3Wide,
    Crc32c,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Md5,
        Self::Sha256,
        Self::Sha512,
        Self::Blake3,
        Self::Xxh3,
        Self::Xxh3Wide,
        Self::Crc32c,
    ];

    /// The processor's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
            Self::Blake3 => "blake3",
            Self::Xxh3 => "xxh3",
            Self::Xxh3Wide => "xxh3-128",
            Self::Crc32c => "crc32c",
        }
    }
}

/// Digests all bytes.
#[must_use]
pub fn digest(algorithm: Algorithm) -> AnyProcessor {
    match algorithm {
        Algorithm::Md5 => AnyProcessor::new(ordered_hash::OrderedHash::<md5::Md5>::new()),
        Algorithm::Sha256 => AnyProcessor::new(ordered_hash::OrderedHash::<sha2::Sha256>::new()),
        Algorithm::Sha512 => AnyProcessor::new(ordered_hash::OrderedHash::<sha2::Sha512>::new()),
        Algorithm::Xxh3 => {
            AnyProcessor::new(ordered_hash::OrderedHash::<twox_hash::XxHash3_64>::new())
        }
        Algorithm::Xxh3Wide => {
            AnyProcessor::new(ordered_hash::OrderedHash::<twox_hash::XxHash3_128>::new())
        }
        Algorithm::Crc32c => AnyProcessor::new(crc::Crc32c),
        Algorithm::Blake3 => AnyProcessor::new(blake::Blake3),
    }
}
