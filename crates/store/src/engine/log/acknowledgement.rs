//! Acknowledgement of the last commit, after its record in the log.
//!
//! It distinguishes a last record torn by a power cut from one damaged later. It is written once the record is durable,
//! before the caller is told, and overwritten by the next record. It is not synced, so it may not survive a power cut.
//!
//! ```text
//! 0 u32 | crc32c u32 as of a record without payload | sequence u64
//! count u32 | crc32c u32 of count and signals | signals that the commit changed, u64 each
//! ```
//! Earlier versions read it as a valid record, and so also detect damage before it. Readers that wait for the next
//! record read its first number as the log's end.

use super::record::{RECORD_HEAD, record_crc, u32_at, u64_at};
use crate::op::SignalId;

const HEAD: usize = RECORD_HEAD + 8;
/// With more signals, the count is `UNNAMED`.
const MAX_SIGNALS: usize = 64;
const UNNAMED: u32 = u32::MAX;
pub(super) const MAX_BYTES: u64 = (HEAD + 8 * MAX_SIGNALS) as u64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Acknowledgement {
    pub(super) sequence: u64,
    pub(super) signals: Option<Vec<SignalId>>,
}

impl Acknowledgement {
    pub(super) fn encode(sequence: u64, signals: &[SignalId]) -> Vec<u8> {
        let named = match signals.len() <= MAX_SIGNALS {
            true => signals,
            false => &[],
        };
        let count = match signals.len() <= MAX_SIGNALS {
            true => signals.len() as u32,
            false => UNNAMED,
        };
        let mut bytes = vec![0; RECORD_HEAD];
        bytes[4..8].copy_from_slice(&record_crc(0, sequence, &[]).to_le_bytes());
        bytes[8..16].copy_from_slice(&sequence.to_le_bytes());
        let mut ids = Vec::with_capacity(8 * named.len());
        for signal in named {
            ids.extend(signal.0.to_le_bytes());
        }
        bytes.extend(count.to_le_bytes());
        bytes.extend(signals_crc(count, &ids).to_le_bytes());
        bytes.extend(ids);
        bytes
    }

    pub(super) fn decode(bytes: &[u8], at: usize) -> Option<Self> {
        let sequence = u64_at(bytes, at.checked_add(8)?)?;
        let is_one =
            u32_at(bytes, at)? == 0 && u32_at(bytes, at + 4)? == record_crc(0, sequence, &[]);
        is_one.then(|| Self {
            sequence,
            signals: signals(bytes, at + RECORD_HEAD),
        })
    }
}

fn signals(bytes: &[u8], at: usize) -> Option<Vec<SignalId>> {
    let count = u32_at(bytes, at)?;
    let crc = u32_at(bytes, at + 4)?;
    if count as usize > MAX_SIGNALS {
        return None;
    }
    let ids = bytes.get(at + 8..at + 8 + 8 * count as usize)?;
    (signals_crc(count, ids) == crc).then(|| {
        (0..count as usize)
            .filter_map(|k| u64_at(ids, 8 * k).map(SignalId))
            .collect()
    })
}

fn signals_crc(count: u32, ids: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&count.to_le_bytes()), ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_was_written() {
        for count in [0, 1, MAX_SIGNALS, MAX_SIGNALS + 1] {
            let signals: Vec<_> = (1..=count as u64).map(SignalId).collect();
            let mut bytes = vec![7; 8];
            bytes.extend(Acknowledgement::encode(9, &signals));
            assert!(bytes.len() as u64 <= 8 + MAX_BYTES);
            let found = Acknowledgement::decode(&bytes, 8).unwrap();
            assert_eq!(found.sequence, 9);
            assert_eq!(found.signals, (count <= MAX_SIGNALS).then_some(signals));
        }
    }

    #[test]
    fn signals_that_are_damaged_are_not_known() {
        let whole = Acknowledgement::encode(9, &[SignalId(3), SignalId(4)]);
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            let found = Acknowledgement::decode(&bytes, 0);
            assert_eq!(found.is_some(), at >= RECORD_HEAD, "byte {at}");
            assert_eq!(found.and_then(|found| found.signals), None);
        }
        for length in 0..whole.len() {
            let found = Acknowledgement::decode(&whole[..length], 0);
            assert_eq!(found.and_then(|found| found.signals), None);
        }
    }
}
