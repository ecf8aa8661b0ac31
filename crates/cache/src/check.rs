use crate::error::CacheError;

/// Evidence that fetched bytes are the origin's.
#[non_exhaustive]
pub enum Check<'a> {
    /// CRC-32C from the origin (a shard's stored checksum).
    Crc32c(u32),
    /// BLAKE3 digest from the origin.
    Blake3([u8; 32]),
    /// A function that verifies them, or says what is wrong: for checksums of other ranges, such as inner chunks.
    With(&'a dyn Fn(&[u8]) -> Result<(), String>),
    /// Verified by the caller or the transport only.
    VerifiedByCaller,
}

impl Check<'_> {
    /// `checksum` computes the CRC-32C of the bytes.
    pub(crate) fn verify(
        &self,
        key: &str,
        offset: u64,
        bytes: &[u8],
        checksum: impl FnOnce() -> u32,
    ) -> Result<(), CacheError> {
        let failed = |reason: String| CacheError::CheckFailed {
            key: key.to_owned(),
            start: offset,
            end: offset + bytes.len() as u64,
            reason,
        };
        match self {
            Self::Crc32c(expected) => match checksum() {
                got if got == *expected => Ok(()),
                got => Err(failed(format!(
                    "CRC-32C is {got:08x}, expected {expected:08x}"
                ))),
            },
            Self::Blake3(expected) => match blake3::hash(bytes) {
                got if got == *expected => Ok(()),
                got => Err(failed(format!(
                    "BLAKE3 is {got}, expected {}",
                    blake3::Hash::from_bytes(*expected)
                ))),
            },
            Self::With(verify) => verify(bytes).map_err(failed),
            Self::VerifiedByCaller => Ok(()),
        }
    }
}

impl std::fmt::Debug for Check<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Crc32c(crc) => write!(f, "Crc32c({crc:08x})"),
            Self::Blake3(digest) => write!(f, "Blake3({})", blake3::Hash::from_bytes(*digest)),
            Self::With(_) => f.write_str("With(..)"),
            Self::VerifiedByCaller => f.write_str("VerifiedByCaller"),
        }
    }
}
