//! Checksums of inner chunks, computed while samples are written.
//!
//! A chunk written in order, or in pieces in any order, is not read again. Other chunks (begun before opening, touched
//! by a gap, written twice, incomplete) are in `recheck` and computed from the file when a commit needs them. `recheck`
//! overrides `ready`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::layout::flat::Flat;
use crate::state::GapTable;

/// Start, end, checksum.
type Piece = (u64, u64, u32);

/// Pieces per chunk, and chunks with pieces; beyond that chunks are read again.
const MAX_PIECES: usize = 64;
const MAX_CHUNKS_WITH_PIECES: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Checksums {
    /// Streamed chunk, its bytes so far, their checksum.
    stream: Option<(u64, u64, u32)>,
    /// Sorted pieces of chunks that were not overwritten. Until one piece covers the chunk, it is in `recheck`, or a
    /// commit has recorded its previous state.
    pieces: BTreeMap<u64, Vec<Piece>>,
    /// Finished, not yet recorded by a commit.
    pub(crate) ready: BTreeMap<u64, u32>,
    /// Chunks to compute from the file once full.
    pub(crate) recheck: BTreeSet<u64>,
}

impl Checksums {
    pub(crate) fn continuing(chunk: u64, seen: u64, crc: u32) -> Self {
        Self {
            stream: Some((chunk, seen, crc)),
            ..Self::default()
        }
    }

    pub(crate) fn streamed(&self) -> Option<(u64, u64, u32)> {
        self.stream
            .filter(|(chunk, ..)| !self.recheck.contains(chunk))
    }

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
                    self.leave_stream();
                    let known = self.ready.contains_key(&chunk) || self.pieces.contains_key(&chunk);
                    (within == 0 && !known).then_some(0)
                }
            };
            match before {
                None => {
                    let end = within + part.len() as u64;
                    self.piece(chunk, (within, end, crc32c::crc32c(part)), size);
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

    fn leave_stream(&mut self) {
        if let Some((chunk, seen, crc)) = self.stream.take() {
            self.piece(chunk, (0, seen, crc), u64::MAX);
        }
    }

    fn piece(&mut self, chunk: u64, (mut start, mut end, mut crc): Piece, size: u64) {
        let pieces = self.pieces.entry(chunk).or_default();
        if pieces.iter().any(|&(from, to, _)| from < end && start < to) {
            pieces.clear();
        }
        let at = pieces.partition_point(|&(from, ..)| from < start);
        if let Some(&(from, _, after)) = pieces.get(at).filter(|&&(from, ..)| from == end) {
            let to = pieces.remove(at).1;
            crc = crc32c::crc32c_combine(crc, after, (to - from) as usize);
            end = to;
        }
        match at.checked_sub(1).and_then(|before| pieces.get_mut(before)) {
            Some((from, to, before)) if *to == start => {
                *before = crc32c::crc32c_combine(*before, crc, (end - start) as usize);
                *to = end;
                (start, crc) = (*from, *before);
            }
            _ => pieces.insert(at, (start, end, crc)),
        }
        if (start, end) == (0, size) {
            self.pieces.remove(&chunk);
            self.recheck.remove(&chunk);
            self.ready.insert(chunk, crc);
            return;
        }
        self.recheck.insert(chunk);
        if pieces.len() > MAX_PIECES {
            self.pieces.remove(&chunk);
        } else if self.pieces.len() > MAX_CHUNKS_WITH_PIECES {
            self.pieces.pop_first();
        }
    }

    /// Chunks partly in `range` must be rechecked.
    pub(crate) fn gap(&mut self, chunk_samples: i64, range: Range<i64>) {
        if range.start >= range.end {
            return;
        }
        for index in [range.start, range.end - 1] {
            self.touch(index / chunk_samples);
        }
        // Chunks in between have no samples, so no checksum.
        let (first, last) = (range.start / chunk_samples, (range.end - 1) / chunk_samples);
        if let (Ok(first), Ok(last)) = (u64::try_from(first), u64::try_from(last)) {
            let outside = |chunk: &u64| *chunk <= first || *chunk >= last;
            self.ready.retain(|chunk, _| outside(chunk));
            self.pieces.retain(|chunk, _| outside(chunk));
            self.stream = self.stream.filter(|(chunk, ..)| outside(chunk));
        }
    }

    pub(crate) fn filled(&mut self, chunk_samples: i64, range: Range<i64>) {
        if range.start >= range.end {
            return;
        }
        for chunk in range.start / chunk_samples..=(range.end - 1) / chunk_samples {
            let Ok(chunk) = u64::try_from(chunk) else {
                continue;
            };
            if self
                .stream
                .is_some_and(|(streaming, ..)| streaming == chunk)
            {
                self.leave_stream();
            }
            // A finished chunk includes all writes.
            if !self.ready.contains_key(&chunk) {
                self.recheck.insert(chunk);
            }
        }
    }

    pub(crate) fn rollback(&mut self) {
        self.recheck
            .extend(self.stream.take().map(|(chunk, ..)| chunk));
        self.recheck
            .extend(std::mem::take(&mut self.pieces).into_keys());
        self.recheck
            .extend(std::mem::take(&mut self.ready).into_keys());
    }

    pub(crate) fn touch(&mut self, chunk: i64) {
        if let Ok(chunk) = u64::try_from(chunk) {
            self.recheck.insert(chunk);
            self.pieces.remove(&chunk);
            self.stream = self.stream.filter(|(streaming, ..)| *streaming != chunk);
        }
    }
}

/// The chunk starts with sample `first`; gap samples count as zero. `None` if all are.
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

    proptest! {
        #[test]
        fn ready_checksums_are_of_the_last_writes(
            writes in prop::collection::vec((0usize..320, 1usize..90, any::<u8>(), 0u8..12), 1..40),
        ) {
            let flat = Flat::new(64, 4);
            let (mut file, mut sums) = (vec![0u8; 320], Checksums::default());
            for (start, len, value, then) in writes {
                let end = (start + len).min(320);
                let bytes: Vec<u8> = (start..end).map(|at| value.wrapping_add(at as u8)).collect();
                file[start..end].copy_from_slice(&bytes);
                sums.feed(flat, start as u64, &bytes);
                match then {
                    0 => sums.touch((start / 64) as i64),
                    1 => sums.rollback(),
                    2..6 => sums.filled(64, start as i64..end as i64),
                    6 => drop((std::mem::take(&mut sums.recheck), std::mem::take(&mut sums.ready))),
                    _ => {}
                }
                for (&chunk, &crc) in sums.ready.iter().filter(|(chunk, _)| !sums.recheck.contains(chunk)) {
                    prop_assert_eq!(crc, crc32c::crc32c(&file[chunk as usize * 64..][..64]));
                }
            }
        }

        #[test]
        fn pieces_in_any_order_give_the_checksums_of_whole_chunks(
            data in prop::collection::vec(any::<u8>(), 320..=320), cuts in prop::collection::vec(0usize..320, 0..12), seed in any::<u64>(),
        ) {
            let flat = Flat::new(64, 4);
            let mut cuts = cuts;
            cuts.extend([0, 320]);
            cuts.sort_unstable();
            let mut pieces: Vec<_> = cuts.windows(2).map(|pair| pair[0]..pair[1]).collect();
            pieces.sort_by_key(|piece| (piece.start as u64 ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut sums = Checksums::default();
            for piece in pieces {
                sums.feed(flat, piece.start as u64, &data[piece.clone()]);
                sums.filled(64, piece.start as i64..piece.end as i64);
            }
            prop_assert!(sums.recheck.is_empty(), "{:?}", sums.recheck);
            let expected: BTreeMap<u64, u32> = (0..5).map(|chunk| (chunk, crc32c::crc32c(&data[chunk as usize * 64..][..64]))).collect();
            prop_assert_eq!(sums.ready, expected);
        }
    }

    #[test]
    fn partially_rewritten_chunks_are_rechecked() {
        let flat = Flat::new(64, 4);
        let mut sums = Checksums::default();
        sums.feed(flat, 10, &[1; 100]);
        assert_eq!(sums.recheck, BTreeSet::from([0]));
        sums.feed(flat, 64, &[2; 64]);
        assert_eq!(sums.recheck, BTreeSet::from([0]));
        assert_eq!(sums.ready, BTreeMap::from([(1, crc32c::crc32c(&[2; 64]))]));
        sums.feed(flat, 70, &[3; 10]);
        assert!(sums.recheck.contains(&1));
    }
}
