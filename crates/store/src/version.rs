//! Versions of the sample data of signals.
//!
//! During a read a signal may be overwritten, sealed, unsealed or renamed, or a shard replaced, so a path identifies
//! nothing. Every shard file carries its identity ([`ShardHeader`](crate::layout::shard::ShardHeader)), and every state
//! of a signal has a [`DataVersion`] that says which to expect. Readers compare them on the open file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::layout::mark::WriteMark;

/// Above this number, shards are not listed one by one.
const MAX_LISTED: u64 = 1 << 16;

/// Version of an array or shard within a signal.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
pub struct FileVersion(pub u128);

impl FileVersion {
    /// Version of what was created with a signal, before stores stated their uuid.
    pub const ORIGINAL: Self = Self(0);

    /// Version of what was created with a signal: the store's uuid, so that another store's file is never accepted.
    #[must_use]
    pub fn of_store(uuid: Uuid) -> Self {
        Self(uuid.as_u128())
    }

    /// Files of a sealed array never change.
    pub(crate) fn sealed_content(self) -> u64 {
        let mut hash = ContentHash::default();
        hash.add(&self.0.to_le_bytes());
        hash.0
    }

    /// Version of a replacement: the 128-bit FNV-1a hash of its name in `tmp/`, which is used once.
    #[must_use]
    pub fn of_replacement(tmp: &str) -> Self {
        const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
        let hash = tmp.bytes().fold(BASIS, |hash, byte| {
            (hash ^ u128::from(byte)).wrapping_mul(PRIME)
        });
        Self(hash)
    }
}

/// Expected identity of the files of a signal's `data`, and which samples were removed or replaced.
///
/// Shards are numbered as in the flat layout, even while sealed. The order of fields is the file format of
/// [`Op::Data`](crate::op::Op::Data).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DataVersion {
    array: FileVersion,
    /// Versions of shards replaced after the array.
    replaced: BTreeMap<u64, FileVersion>,
    /// Per shard, a number that changes when valid samples are replaced or removed.
    content: BTreeMap<u64, u64>,
    content_of_all: u64,
    /// Shards with gaps where valid samples were. Earlier readers still show these, so a fill must not overwrite them.
    retired: BTreeSet<u64>,
    all_retired: bool,
    /// Bounds of retired samples per shard. Not stored; a missing shard may have any.
    #[serde(skip)]
    retired_samples: BTreeMap<u64, (i64, i64)>,
    /// Shards replaced after all were retired. Not stored.
    #[serde(skip)]
    replaced_since: BTreeSet<u64>,
    /// Required write marks. Not stored here: the log has them ([`Op::WriteMark`](crate::op::Op::WriteMark)).
    #[serde(skip)]
    marks: BTreeMap<u64, ShardMark>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShardMark {
    pub(crate) last: WriteMark,
    /// Mark of the last commit that synced the file: it survives a power cut.
    pub(crate) synced: Option<WriteMark>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ContentHash(pub(crate) u64);

impl Default for ContentHash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl ContentHash {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

impl DataVersion {
    /// Version of the file of a flat shard.
    #[must_use]
    pub fn file(&self, shard: u64) -> FileVersion {
        self.replaced.get(&shard).copied().unwrap_or(self.array)
    }

    /// Version of the array; all shards of a sealed one share it.
    #[must_use]
    pub fn array(&self) -> FileVersion {
        self.array
    }

    /// Whether a shard's samples that are valid in both states are equal.
    #[must_use]
    pub fn has_content_of(&self, other: &Self, shard: u64) -> bool {
        self.content_of_all == other.content_of_all
            && self.content.get(&shard) == other.content.get(&shard)
    }

    /// [`has_content_of`](Self::has_content_of) for the first `shards` shards.
    pub(crate) fn has_content_of_first(&self, other: &Self, shards: u64) -> bool {
        self.content_of_all == other.content_of_all
            && self
                .content
                .range(..shards)
                .eq(other.content.range(..shards))
    }

    /// First of `shards` shards of which samples are gone from the files of `now`, a later version.
    pub(crate) fn first_replaced(&self, now: &Self, shards: u64) -> Option<u64> {
        let is_replaced = |shard: &u64| {
            !self.has_content_of(now, *shard) && self.file(*shard) != now.file(*shard)
        };
        if self.content_of_all != now.content_of_all {
            return (0..shards).find(is_replaced);
        }
        let listed = |version: &Self| {
            let mut shards = version.content.range(..shards).map(|(shard, _)| *shard);
            shards.find(is_replaced)
        };
        [listed(self), listed(now)].into_iter().flatten().min()
    }

    pub(crate) fn content_of_first(&self, shards: u64) -> u32 {
        let listed = self.content.range(..shards);
        let all = crc32c::crc32c(&self.content_of_all.to_le_bytes());
        listed.fold(all, |crc, (shard, mark)| {
            let crc = crc32c::crc32c_append(crc, &shard.to_le_bytes());
            crc32c::crc32c_append(crc, &mark.to_le_bytes())
        })
    }

    /// Content version of a flat shard, for copies of its bytes. Changes with a replacement, removal or fill, and with
    /// the array's files. An append changes it only if it leaves a write mark.
    ///
    /// A 64-bit FNV-1a hash of the state.
    #[must_use]
    pub fn content_version(&self, shard: u64) -> u64 {
        let mut hash = ContentHash::default();
        self.hash_content(shard, &mut hash);
        hash.0
    }

    pub(crate) fn hash_content(&self, shard: u64, hash: &mut ContentHash) {
        hash.add(&self.file(shard).0.to_le_bytes());
        hash.add(&self.content.get(&shard).copied().unwrap_or(0).to_le_bytes());
        hash.add(&self.content_of_all.to_le_bytes());
        let mark = self.mark(shard).map_or(0, |mark| mark.last.0);
        hash.add(&mark.to_le_bytes());
    }

    /// Whether earlier readers may still show gap samples in `range` of a shard.
    #[must_use]
    pub fn is_retired(&self, shard: u64, range: &Range<i64>) -> bool {
        if self.all_retired && !self.replaced_since.contains(&shard) {
            return true;
        }
        self.retired.contains(&shard)
            && (self.retired_samples.get(&shard))
                .is_none_or(|(start, end)| *start < range.end && range.start < *end)
    }

    /// Version before any replacement or removal.
    #[must_use]
    pub fn of_store(uuid: Uuid) -> Self {
        Self {
            array: FileVersion::of_store(uuid),
            ..Self::default()
        }
    }

    /// Whether nothing was replaced or removed, and no store is stated.
    #[must_use]
    pub fn is_original(&self) -> bool {
        self.is_same(&Self::default())
    }

    /// Whether files, replacements and removals are equal, whatever was written since.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let marks = self.marks.clone();
        let other = other.clone();
        *self == Self { marks, ..other }
    }

    pub(crate) fn mark(&self, shard: u64) -> Option<ShardMark> {
        self.marks.get(&shard).copied()
    }

    pub(crate) fn marks(&self) -> impl Iterator<Item = (u64, ShardMark)> + '_ {
        self.marks.iter().map(|(shard, mark)| (*shard, *mark))
    }

    pub(crate) fn set_mark(&mut self, shard: u64, last: WriteMark, is_synced: bool) {
        let synced = match is_synced {
            true => Some(last),
            false => self.mark(shard).and_then(|mark| mark.synced),
        };
        self.marks.insert(shard, ShardMark { last, synced });
    }

    /// Whether a power cut may undo a mark.
    pub(crate) fn has_unsynced_marks(&self) -> bool {
        (self.marks.values()).any(|mark| mark.synced != Some(mark.last))
    }

    pub(crate) fn note_synced_marks(&mut self, durable: &Self) {
        for (shard, mark) in &mut self.marks {
            if let Some(durable) = durable.mark(*shard)
                && durable.last == mark.last
            {
                mark.synced = Some(mark.last);
            }
        }
    }

    pub(crate) fn replace_shard(&mut self, shard: u64, tmp: &str) {
        let version = FileVersion::of_replacement(tmp);
        self.replaced.insert(shard, version);
        self.marks.remove(&shard);
        self.content
            .insert(shard, (version.0 ^ (version.0 >> 64)) as u64);
        self.retired.remove(&shard);
        self.retired_samples.remove(&shard);
        if self.all_retired {
            self.replaced_since.insert(shard);
        }
    }

    pub(crate) fn replace_array(&mut self, tmp: &str) {
        self.array = FileVersion::of_replacement(tmp);
        self.replaced.clear();
        self.marks.clear();
        self.retired.clear();
        self.retired_samples.clear();
        self.all_retired = false;
        self.replaced_since.clear();
    }

    /// Records that samples in `range`, some valid, become invalid.
    pub(crate) fn take_away(&mut self, range: Range<i64>, shard_samples: i64) {
        let length = shard_samples.max(1).cast_unsigned();
        let first = range.start.max(0).cast_unsigned() / length;
        let last = (range.end - 1).max(0).cast_unsigned() / length;
        let mix = |mark: u64, number: i64| {
            let mixed = (mark ^ number.cast_unsigned()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ mixed >> 32).wrapping_add(1)
        };
        let change = |mark: u64| mix(mix(mark, range.start), range.end);
        if last - first >= MAX_LISTED {
            self.content_of_all = change(self.content_of_all);
            self.all_retired = true;
            self.replaced_since.clear();
            return;
        }
        for shard in first..=last {
            let mark = self.content.entry(shard).or_default();
            *mark = change(*mark);
            match self.retired_samples.get_mut(&shard) {
                Some((start, end)) => {
                    *start = range.start.min(*start);
                    *end = range.end.max(*end);
                }
                None if !self.retired.contains(&shard) => {
                    let samples = (range.start, range.end);
                    self.retired_samples.insert(shard, samples);
                }
                None => {}
            }
            self.retired.insert(shard);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_shard_is_another_file_with_another_content() {
        let before = DataVersion::default();
        let mut after = before.clone();
        after.replace_shard(3, "new-1");
        assert_eq!(after.file(3), FileVersion::of_replacement("new-1"));
        assert_eq!(after.file(2), FileVersion::ORIGINAL);
        assert!(after.has_content_of(&before, 2) && !after.has_content_of(&before, 3));
    }

    #[test]
    fn a_replaced_array_is_other_files_with_the_same_content() {
        let mut before = DataVersion::default();
        before.replace_shard(3, "new-1");
        let mut after = before.clone();
        after.replace_array("new-2");
        for shard in [0, 3] {
            assert_eq!(after.file(shard), FileVersion::of_replacement("new-2"));
            assert!(after.has_content_of(&before, shard));
        }
    }

    #[test]
    fn samples_taken_away_stay_in_the_file_until_the_shard_is_replaced() {
        let before = DataVersion::default();
        let mut after = before.clone();
        after.take_away(95..205, 100);
        for shard in 0..4 {
            assert_eq!(after.file(shard), before.file(shard));
            let first = shard.cast_signed() * 100;
            let whole = first..first + 100;
            assert_eq!(after.is_retired(shard, &whole), shard < 3, "{shard}");
            assert_eq!(after.has_content_of(&before, shard), shard == 3);
        }
        let again = after.clone();
        after.take_away(95..205, 100);
        assert!(!after.has_content_of(&again, 1));
        after.replace_shard(1, "new-1");
        assert!(after.is_retired(0, &(0..100)) && !after.is_retired(1, &(100..200)));
    }

    #[test]
    fn only_samples_that_were_taken_away_are_retired() {
        let mut version = DataVersion::default();
        version.take_away(20..30, 100);
        assert!(!version.is_retired(0, &(0..20)) && !version.is_retired(0, &(30..100)));
        assert!(version.is_retired(0, &(29..31)));
        version.take_away(60..70, 100);
        assert!(version.is_retired(0, &(65..66)) && !version.is_retired(0, &(70..80)));
        let stored = postcard::to_allocvec(&version).expect("encoded");
        let mut loaded: DataVersion = postcard::from_bytes(&stored).expect("decoded");
        assert!(loaded.is_retired(0, &(0..10)));
        loaded.take_away(20..30, 100);
        assert!(loaded.is_retired(0, &(0..10)));
    }

    #[test]
    fn rejects_changed_samples_in_another_file() {
        let before = DataVersion::default();
        let mut after = before.clone();
        after.take_away(250..260, 100);
        assert_eq!(before.first_replaced(&after, 4), None);
        assert!(!before.has_content_of_first(&after, 4) && before.has_content_of_first(&after, 2));
        after.replace_shard(2, "new-1");
        assert_eq!(before.first_replaced(&after, 4), Some(2));
        assert_eq!(before.first_replaced(&after, 2), None);
        let mut sealed = after.clone();
        sealed.replace_array("new-2");
        assert_eq!(after.first_replaced(&sealed, 4), None);
        assert_eq!(before.first_replaced(&sealed, 4), Some(2));
        let mut absurd = before.clone();
        absurd.take_away(0..i64::MAX, 1);
        assert_eq!(before.first_replaced(&absurd, 4), None);
        absurd.replace_shard(1, "new-3");
        assert_eq!(before.first_replaced(&absurd, 4), Some(1));
    }

    #[test]
    fn an_absurd_range_is_noted_without_a_list() {
        let mut version = DataVersion::default();
        version.take_away(0..i64::MAX, 1);
        assert!(version.is_retired(u64::MAX, &(0..1)));
        assert!(!version.has_content_of(&DataVersion::default(), 0));
        version.replace_shard(7, "new-0");
        assert!(!version.is_retired(7, &(7..8)) && version.is_retired(8, &(8..9)));
        version.take_away(0..i64::MAX, 1);
        assert!(version.is_retired(7, &(7..8)));
        version.replace_array("new-1");
        assert!(!version.is_retired(0, &(0..1)));
    }
}
