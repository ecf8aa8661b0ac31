//! Packets that several receivers heard of one sender, some of them with bit errors.
//!
//! A packet's copies are byte strings of one length; a receiver that did not hear it has none. The last four bytes are
//! the CRC-32 of those before, little-endian, as Ethernet and 802.11 have it (their FCS): a copy that agrees with it is
//! intact.
//!
//! Two steps, after the network monitor of Girod et al. (XStream, 2008, section II):
//! - [`ErrorCounts`]: wherever one copy is intact, the errors of all others are known bit by bit, and with them how much
//!   the errors of two receivers are correlated. Receivers that stand together suffer from the same interference.
//! - [`Combiner`]: receivers whose errors are correlated are no independent witnesses. One cluster of them has one vote,
//!   as strong as its best receiver, and clusters decide together what was sent.
//!
//! All work goes over words of 64 bits; single bits are looked at only where copies differ.

mod combine;
mod errors;

pub use combine::{Combiner, Recovery};
pub use errors::ErrorCounts;

/// Bytes of a packet's check.
pub const CHECK_BYTES: usize = 4;

/// What must be zero for a packet to be intact: the CRC-32 of its bytes, less the one that it carries. None for packets
/// without a byte beside their check.
///
/// It is linear but for a constant: bit errors change it by the sum (XOR) of what each of them changes.
#[inline]
#[must_use]
pub fn residual(packet: &[u8]) -> Option<u32> {
    let (bytes, check) = packet.split_last_chunk::<CHECK_BYTES>()?;
    (!bytes.is_empty()).then(|| crc32fast::hash(bytes) ^ u32::from_le_bytes(*check))
}

/// Whether a packet agrees with its check. One with errors does so by chance once in 2^32.
#[inline]
#[must_use]
pub fn is_intact(packet: &[u8]) -> bool {
    residual(packet) == Some(0)
}

/// The words of a packet, the last one filled with zeros.
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

/// The word `at` of a packet.
#[inline]
fn word(packet: &[u8], at: usize) -> u64 {
    let rest = &packet[8 * at..];
    match rest.first_chunk::<8>() {
        Some(word) => u64::from_le_bytes(*word),
        None => words(rest).next().unwrap_or_default(),
    }
}
