//! Recovery of packets heard by several receivers with bit errors.
//!
//! The last four bytes of a packet are the CRC-32 of the rest, little-endian, as the FCS of Ethernet and 802.11; a
//! matching copy is intact.
//!
//! After Girod et al. (XStream, 2008, section II):
//! - [`ErrorCounts`]: an intact copy shows the errors of all others, and their correlation.
//! - [`Combiner`]: receivers with correlated errors form a cluster with one vote, as strong as its best receiver.
//!
//! Works on words; on bits only where copies differ.

mod combine;
mod errors;

pub use combine::{Combiner, Recovery};
pub use errors::ErrorCounts;

/// Bytes of the checksum.
pub const CHECK_BYTES: usize = 4;

/// CRC-32 of a packet XOR its checksum: zero if intact. None without data.
///
/// Linear: residuals of bit errors combine by XOR.
#[inline]
#[must_use]
pub fn residual(packet: &[u8]) -> Option<u32> {
    let (bytes, check) = packet.split_last_chunk::<CHECK_BYTES>()?;
    (!bytes.is_empty()).then(|| crc32fast::hash(bytes) ^ u32::from_le_bytes(*check))
}

/// Whether a packet matches its checksum; 2^-32 of broken ones do.
#[inline]
#[must_use]
pub fn is_intact(packet: &[u8]) -> bool {
    residual(packet) == Some(0)
}

/// The last one is zero-padded.
#[inline]
fn words(packet: &[u8]) -> impl Iterator<Item = u64> {
    let (words, rest) = packet.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let last = (!rest.is_empty()).then(|| u64::from_le_bytes(last));
    words
        .iter()
        .map(|word| u64::from_le_bytes(*word))
        .chain(last)
}

#[inline]
fn word(packet: &[u8], at: usize) -> u64 {
    let rest = &packet[8 * at..];
    match rest.first_chunk::<8>() {
        Some(word) => u64::from_le_bytes(*word),
        None => words(rest).next().unwrap_or_default(),
    }
}
