//! The journal's format.
//!
//! ```text
//! header   magic (8) | format u32 | length u32 | crc32c u32 of what follows | postcard `Header`
//! base     a record whose payload is a `Snapshot`; its sequence is the header's
//! records  length u32 | crc32c u32 of length, sequence and payload | sequence u64 | payload: postcard `Vec<Op>`
//! ```
//! Everything is zero-padded to multiples of 8. Each record has its predecessor's sequence plus one, and its operations
//! apply together or not at all. A process that died may leave a torn record at the end.

mod file;
mod op;
#[cfg(test)]
mod tests;

pub(crate) use file::{JournalFile, JournalUpdate};
pub(crate) use op::{Counters, ObjectId, Op, OwnerId, Piece, Settings, Snapshot, StoredObject};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// First bytes in every format.
pub(crate) const MAGIC: [u8; 8] = *b"ISOCACH\n";
pub(crate) const FORMAT: u32 = 1;
const RECORD_HEAD: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// Changes when the cache starts empty.
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JournalError {
    /// No version wrote them.
    Damaged,
    /// A later version wrote it.
    Newer { format: u32 },
}

/// Header and base, with the offset of the first record.
pub(crate) fn parse_opening(bytes: &[u8]) -> Result<(Header, Snapshot, usize), JournalError> {
    if bytes.get(..8) != Some(&MAGIC) {
        return Err(JournalError::Damaged);
    }
    let format = u32_at(bytes, 8).ok_or(JournalError::Damaged)?;
    if format > FORMAT {
        return Err(JournalError::Newer { format });
    }
    let opening = || {
        let (len, crc) = (u32_at(bytes, 12)? as usize, u32_at(bytes, 16)?);
        let header = bytes.get(20..20usize.checked_add(len)?)?;
        if crc32c::crc32c(header) != crc {
            return None;
        }
        let header: Header = decode(header)?;
        let (sequence, payload, next) = record_at(bytes, (20 + len).next_multiple_of(8))?;
        (sequence == header.sequence).then_some((header, decode(payload)?, next))
    };
    opening().ok_or(JournalError::Damaged)
}

/// A value that uses all bytes.
fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Some(value),
        _ => None,
    }
}

#[derive(Debug)]
pub(crate) struct Records<'a> {
    bytes: &'a [u8],
    pub(crate) at: usize,
    pub(crate) sequence: u64,
}

impl<'a> Records<'a> {
    pub(crate) fn new(bytes: &'a [u8], at: usize, sequence: u64) -> Self {
        Self {
            bytes,
            at,
            sequence,
        }
    }

    /// Whether the rest is damage rather than a torn record: a record begins where the previous one ends, so a whole
    /// record behind a bad one means that this was whole once. Checking only plausible sequences avoids quadratic time.
    pub(crate) fn is_damaged(&self) -> bool {
        (self.at..self.bytes.len()).step_by(8).any(|at| {
            let sequence = u64_at(self.bytes, at + 8).unwrap_or(0);
            sequence > self.sequence
                && sequence - self.sequence < 1 << 32
                && record_at(self.bytes, at).is_some()
        })
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Vec<Op>, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (sequence, payload, next) = record_at(self.bytes, self.at)?;
        if self.sequence.checked_add(1) != Some(sequence) {
            return None;
        }
        self.at = next;
        self.sequence = sequence;
        Some(decode(payload).ok_or(JournalError::Damaged))
    }
}

/// Sequence, payload and end of a whole record.
fn record_at(bytes: &[u8], at: usize) -> Option<(u64, &[u8], usize)> {
    let len = u32_at(bytes, at)?;
    let crc = u32_at(bytes, at + 4)?;
    let sequence = u64_at(bytes, at + 8)?;
    let end = (at + RECORD_HEAD).checked_add(len as usize)?;
    // Padding belongs to the record.
    let next = end.next_multiple_of(8);
    let payload = bytes.get(at + RECORD_HEAD..end)?;
    (bytes.len() >= next && record_crc(len, sequence, payload) == crc)
        .then_some((sequence, payload, next))
}

fn record_crc(len: u32, sequence: u64, payload: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&len.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &sequence.to_le_bytes());
    crc32c::crc32c_append(crc, payload)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(
        bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(
        bytes.get(at..at.checked_add(8)?)?.try_into().ok()?,
    ))
}

/// `None` if too long for the length field.
pub(crate) fn record_bytes<T: Serialize + ?Sized>(sequence: u64, payload: &T) -> Option<Vec<u8>> {
    let mut record = postcard::to_extend(payload, vec![0; RECORD_HEAD]).ok()?;
    let len = u32::try_from(record.len() - RECORD_HEAD).ok()?;
    let crc = record_crc(len, sequence, &record[RECORD_HEAD..]);
    record[..4].copy_from_slice(&len.to_le_bytes());
    record[4..8].copy_from_slice(&crc.to_le_bytes());
    record[8..16].copy_from_slice(&sequence.to_le_bytes());
    record.resize(record.len().next_multiple_of(8), 0);
    Some(record)
}

pub(crate) fn opening_bytes(header: &Header, base: &Snapshot) -> Option<Vec<u8>> {
    let encoded = postcard::to_stdvec(header).ok()?;
    let mut bytes = MAGIC.to_vec();
    bytes.extend(FORMAT.to_le_bytes());
    bytes.extend(u32::try_from(encoded.len()).ok()?.to_le_bytes());
    bytes.extend(crc32c::crc32c(&encoded).to_le_bytes());
    bytes.extend(encoded);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.extend(record_bytes(header.sequence, base)?);
    Some(bytes)
}
