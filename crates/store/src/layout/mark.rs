//! Write marks: the last commit that wrote samples into a shard file in place.
//!
//! ```text
//! 0    mark u128: sequence number of the commit in the upper half, a random number in the lower
//! 16   crc32c of the 16 bytes before, zero u32
//! 24   the same again: the second slot
//! ```
//! Both slots follow the header of a flat shard of `data`; earlier versions have zeros. A writer never changes the slot
//! that the log relies on, so a torn write loses nothing.

use serde::{Deserialize, Serialize};

const SLOT_LEN: usize = 24;
const CHECKED_BYTES: usize = 16;

/// Bytes of both slots.
pub const SLOTS_LEN: u64 = 2 * SLOT_LEN as u64;

/// A commit, or an attempt at one, that wrote samples into a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WriteMark(pub u128);

/// A shard's slots; `None` if empty or torn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MarkSlots(pub [Option<WriteMark>; 2]);

impl WriteMark {
    /// Mark of a commit. `random` distinguishes it from failed attempts of the same number.
    #[must_use]
    pub fn new(sequence: u64, random: u64) -> Self {
        Self(u128::from(sequence) << 64 | u128::from(random))
    }

    fn sequence(self) -> u128 {
        self.0 >> 64
    }

    /// Bytes of a slot.
    #[must_use]
    pub fn encode(self) -> [u8; SLOT_LEN] {
        let mut bytes = [0; SLOT_LEN];
        bytes[..CHECKED_BYTES].copy_from_slice(&self.0.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..CHECKED_BYTES]);
        bytes[CHECKED_BYTES..CHECKED_BYTES + 4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mark: [u8; CHECKED_BYTES] = bytes.get(..CHECKED_BYTES)?.try_into().ok()?;
        let crc = crc32c::crc32c(&mark).to_le_bytes();
        let mark = u128::from_le_bytes(mark);
        (mark != 0 && bytes.get(CHECKED_BYTES..CHECKED_BYTES + 4)? == crc).then_some(Self(mark))
    }
}

impl MarkSlots {
    /// Missing bytes are empty.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Self {
        let slot = |at: usize| bytes.get(at..).and_then(WriteMark::decode);
        Self([slot(0), slot(SLOT_LEN)])
    }

    /// Whether the file has this mark or a later one, and so all that the commit wrote.
    #[must_use]
    pub fn include(&self, mark: WriteMark) -> bool {
        let includes = |found: &WriteMark| *found == mark || found.sequence() > mark.sequence();
        self.0.iter().flatten().any(includes)
    }

    /// Where the next mark goes: the slot without `kept`, else the older.
    #[must_use]
    pub fn next_offset(&self, kept: Option<WriteMark>) -> u64 {
        let [first, second] = self.0;
        let is_second = match kept {
            Some(_) if first == kept => true,
            Some(_) if second == kept => false,
            _ => second < first,
        };
        u64::from(is_second) * SLOT_LEN as u64
    }
}

impl std::fmt::Display for MarkSlots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.iter().flatten().max() {
            Some(mark) => write!(f, "write mark {:032x}", mark.0),
            None => f.write_str("no write mark"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(first: Option<WriteMark>, second: Option<WriteMark>) -> MarkSlots {
        let slot = |mark: Option<WriteMark>| mark.map_or([0; SLOT_LEN], WriteMark::encode);
        MarkSlots::decode(&[slot(first), slot(second)].concat())
    }

    #[test]
    fn a_mark_reads_back_and_no_flipped_bit_does() {
        let mark = WriteMark::new(7, 3);
        let good = mark.encode();
        assert_eq!(WriteMark::decode(&good), Some(mark));
        for at in 0..20 {
            let mut bad = good;
            bad[at] ^= 4;
            assert_eq!(WriteMark::decode(&bad), None, "byte {at}");
        }
        assert_eq!(MarkSlots::decode(&[0; 48]), MarkSlots::default());
        assert_eq!(MarkSlots::decode(&good[..10]), MarkSlots::default());
    }

    #[test]
    fn a_file_includes_its_commits_and_those_before_but_no_other_attempt() {
        let found = slots(Some(WriteMark::new(5, 1)), Some(WriteMark::new(3, 1)));
        for (mark, included) in [((5, 1), true), ((5, 2), false), ((4, 9), true)] {
            assert_eq!(found.include(WriteMark::new(mark.0, mark.1)), included);
        }
        assert!(!found.include(WriteMark::new(6, 1)));
        assert!(!MarkSlots::default().include(WriteMark::new(0, 1)));
    }

    #[test]
    fn the_mark_that_the_log_relies_on_is_never_overwritten() {
        let [old, new] = [WriteMark::new(3, 1), WriteMark::new(5, 1)];
        for kept in [old, new] {
            let other = if kept == old { new } else { old };
            assert_eq!(slots(Some(kept), Some(other)).next_offset(Some(kept)), 24);
            assert_eq!(slots(Some(other), Some(kept)).next_offset(Some(kept)), 0);
            assert_eq!(slots(Some(kept), None).next_offset(Some(kept)), 24);
        }
        assert_eq!(slots(None, None).next_offset(None), 0);
        assert_eq!(slots(Some(new), Some(old)).next_offset(None), 24);
    }
}
