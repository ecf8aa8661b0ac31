//! Checksums of inner chunks, made while samples stream by.
//!
//! A chunk that is written from its first byte to its last in order gets its checksum without being read again. All
//! others (begun before the store was opened, touched by a gap, written twice) are noted in `recheck` and computed from
//! the file when a commit makes them count. What is in `recheck` overrides what is in `ready`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::layout::flat::Flat;
use crate::state::GapTable;

/// Progress of one signal's checksums.
#[derive(Debug, Default)]
pub(crate) struct Checksums {
    /// The chunk that is being streamed, the bytes of it seen, their checksum.
    stream: Option<(u64, u64, u32)>,
    /// Finished chunks that no commit has told of.
    pub(crate) ready: BTreeMap<u64, u32>,
    /// Chunks to compute from the file once they are full.
    pub(crate) recheck: BTreeSet<u64>,
}

impl Checksums {
    /// Of an array whose last chunk has `seen` bytes with the checksum `crc`.
    pub(crate) fn going_on(chunk: u64, seen: u64, crc: u32) -> Self {
        Self {
            stream: Some((chunk, seen, crc)),
            ..Self::default()
        }
    }

    /// Takes in bytes written at byte `start` of the array.
    pub(crate) fn feed(&mut self, flat: Flat, start: u64, mut bytes: &[u8]) {
        let size = flat.chunk_bytes;
        let mut at = start;
        while !bytes.is_empty() {
            let (chunk, within) = (at / size, at % size);
            let take =
                usize::try_from(size - within).map_or(bytes.len(), |room| room.min(bytes.len()));
            let (part, rest) = bytes.split_at(take);
            let before = match self.stream {
                Some((streaming, seen, crc)) if (streaming, seen) == (chunk, within) => Some(crc),
                _ => {
                    // Whatever was begun stays unfinished.
                    self.recheck
                        .extend(self.stream.take().map(|(chunk, ..)| chunk));
                    (within == 0 && !self.ready.contains_key(&chunk)).then_some(0)
                }
            };
            match before {
                None => {
                    self.recheck.insert(chunk);
                    self.stream = None;
                }
                Some(crc) => {
                    let crc = crc32c::crc32c_append(crc, part);
                    let seen = within + part.len() as u64;
                    if seen == size {
                        self.ready.insert(chunk, crc);
                        self.stream = None;
                    } else {
                        self.stream = Some((chunk, seen, crc));
                    }
                }
            }
            at += part.len() as u64;
            bytes = rest;
        }
    }

    /// Samples of `range` became a gap: chunks that it covers in part must be looked at again.
    pub(crate) fn gap(&mut self, chunk_samples: i64, range: Range<i64>) {
        if range.start >= range.end {
            return;
        }
        for index in [range.start, range.end - 1] {
            self.touch(index / chunk_samples);
        }
        // Chunks in between have no samples, and so no checksum.
        let (first, last) = (range.start / chunk_samples, (range.end - 1) / chunk_samples);
        if let (Ok(first), Ok(last)) = (u64::try_from(first), u64::try_from(last)) {
            self.ready
                .retain(|chunk, _| *chunk <= first || *chunk >= last);
        }
    }

    /// Samples of `range`, a gap until now, became valid.
    pub(crate) fn filled(&mut self, chunk_samples: i64, range: Range<i64>) {
        if range.start >= range.end {
            return;
        }
        for chunk in range.start / chunk_samples..=(range.end - 1) / chunk_samples {
            let whole =
                chunk * chunk_samples >= range.start && (chunk + 1) * chunk_samples <= range.end;
            let streamed = chunk
                .try_into()
                .is_ok_and(|chunk: u64| self.ready.contains_key(&chunk));
            if !(whole && streamed) {
                self.touch(chunk);
            }
        }
    }

    /// Forgets what is not committed.
    pub(crate) fn rollback(&mut self) {
        self.recheck
            .extend(self.stream.take().map(|(chunk, ..)| chunk));
        // Recomputing a chunk that did not change after all gives the value that it has.
        self.recheck
            .extend(std::mem::take(&mut self.ready).into_keys());
    }

    pub(crate) fn touch(&mut self, chunk: i64) {
        if let Ok(chunk) = u64::try_from(chunk) {
            self.recheck.insert(chunk);
        }
    }
}

/// Checksum of a chunk whose first sample has index `first`: samples in gaps count as zero. `None` if all are.
pub(crate) fn masked(
    bytes: &mut [u8],
    first: i64,
    sample_bytes: usize,
    gaps: &GapTable,
) -> Option<u32> {
    let samples = (bytes.len() / sample_bytes) as i64;
    let range = first..first + samples;
    if gaps.missing_within(range.clone()) >= samples {
        return None;
    }
    for gap in gaps.within(range) {
        let from = (gap.start - first) as usize * sample_bytes;
        bytes[from..from + gap.length as usize * sample_bytes].fill(0);
    }
    Some(crc32c::crc32c(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_pieces_in_order_give_the_checksums_of_whole_chunks(
            data in prop::collection::vec(any::<u8>(), 0..400), cuts in prop::collection::vec(0usize..400, 0..12),
        ) {
            let flat = Flat::new(64, 4);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(data.len())).collect();
            cuts.extend([0, data.len()]);
            cuts.sort_unstable();
            let mut sums = Checksums::default();
            for pair in cuts.windows(2) {
                sums.feed(flat, pair[0] as u64, &data[pair[0]..pair[1]]);
            }
            prop_assert!(sums.recheck.is_empty());
            let expected: BTreeMap<u64, u32> = data
                .chunks_exact(64)
                .enumerate()
                .map(|(chunk, bytes)| (chunk as u64, crc32c::crc32c(bytes)))
                .collect();
            prop_assert_eq!(sums.ready, expected);
        }
    }

    #[test]
    fn chunks_written_twice_or_from_the_middle_are_checked_again() {
        let flat = Flat::new(64, 4);
        let mut sums = Checksums::default();
        sums.feed(flat, 10, &[1; 100]);
        assert_eq!(sums.recheck, BTreeSet::from([0]));
        sums.feed(flat, 64, &[2; 64]);
        assert_eq!(sums.recheck, BTreeSet::from([0, 1]));
        sums.feed(flat, 64, &[2; 64]);
        assert!(sums.recheck.contains(&1));
    }
}
