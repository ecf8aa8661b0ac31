//! Counts a literal with vectors, also where matches are frequent.
//!
//! Searchers restart after each match, which costs more than the search if every line has one. Counting needs no
//! positions: 64 at a time are compared with up to eight bytes of the literal, the rarest first; the result is a bit
//! mask. Longer literals, and those whose matches may overlap, are checked bit by bit.
#![allow(unsafe_code)] // Loads through pointers, and instructions beyond the baseline.

use memchr::memmem::Finder;

/// Positions compared at a time.
#[cfg(target_arch = "x86_64")]
const STEP: usize = 64;

/// Bytes of the literal that are compared.
const PROBES: usize = 8;

/// A literal of at least two bytes, on a CPU with AVX2.
#[derive(Debug)]
pub(super) struct Counter {
    /// Positions of these in the literal, rarest first.
    probes: Vec<usize>,
    /// Matches may overlap.
    overlaps: bool,
}

impl Counter {
    /// None for another CPU or a short literal.
    pub(super) fn new(literal: &[u8]) -> Option<Self> {
        if !available() || literal.len() < 2 {
            return None;
        }
        let last = literal.len() - 1;
        let count = literal.len().min(PROBES);
        let mut probes: Vec<_> = (0..count).map(|k| k * last / (count - 1)).collect();
        probes.sort_by_key(|&at| commonness(literal[at]));
        Some(Self {
            probes,
            overlaps: has_border(literal),
        })
    }

    /// Counts matches without overlaps; also returns the end of the last.
    pub(super) fn count(&self, bytes: &[u8], finder: &Finder<'_>) -> (u64, usize) {
        let literal = finder.needle();
        let mut so_far = SoFar::default();
        #[cfg(target_arch = "x86_64")]
        self.count_blocks(bytes, literal, &mut so_far);
        // The last positions, which do not fill a block.
        let mut from = so_far.looked_at.max(so_far.end);
        while let Some(at) = bytes.get(from..).and_then(|rest| finder.find(rest)) {
            from += at + literal.len();
            so_far.count += 1;
            so_far.end = from;
        }
        (so_far.count, so_far.end)
    }

    #[cfg(target_arch = "x86_64")]
    fn count_blocks(&self, bytes: &[u8], literal: &[u8], so_far: &mut SoFar) {
        let each = self.overlaps || literal.len() > PROBES;
        macro_rules! with_probes {
            ($($count:literal)*) => {
                match self.probes.len() {
                    $($count => {
                        let mut probes = [(0, 0); $count];
                        for (probe, &at) in probes.iter_mut().zip(&self.probes) {
                            *probe = (at, literal[at]);
                        }
                        // SAFETY: a counter exists only if the CPU has AVX2 and POPCNT.
                        unsafe { count_avx2(bytes, literal, probes, each, so_far) }
                    })*
                    // Without blocks the finder does all.
                    _ => {}
                }
            };
        }
        with_probes!(2 3 4 5 6 7 8);
    }
}

#[derive(Default)]
struct SoFar {
    count: u64,
    end: usize,
    /// Positions before this were compared.
    looked_at: usize,
}

/// How common a byte is in text, code and logs. A guess: a wrong one only costs time.
fn commonness(byte: u8) -> usize {
    const COMMON: &[u8] = b"\0 etaoinsr0lhd1cu2mp\nf.g3,y5bw46789-v_k\"/=:()";
    let place = COMMON
        .iter()
        .position(|&common| common == byte.to_ascii_lowercase());
    place.map_or(0, |place| COMMON.len() - place)
}

/// Whether the literal's end equals its beginning, so that matches may overlap: the last value of the prefix function
/// (Knuth, Morris and Pratt 1977).
fn has_border(literal: &[u8]) -> bool {
    let mut border = vec![0; literal.len()];
    for at in 1..literal.len() {
        let mut length: usize = border[at - 1];
        while length > 0 && literal[at] != literal[length] {
            length = border[length - 1];
        }
        border[at] = length + usize::from(literal[at] == literal[length]);
    }
    border.last().is_some_and(|&length| length > 0)
}

#[cfg(target_arch = "x86_64")]
fn available() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt")
}

#[cfg(not(target_arch = "x86_64"))]
fn available() -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
fn count_avx2<const N: usize>(
    bytes: &[u8],
    literal: &[u8],
    probes: [(usize, u8); N],
    each: bool,
    so_far: &mut SoFar,
) {
    use std::arch::x86_64::*;

    let last = literal.len() - 1;
    // A block at `from` reads up to `from + last + STEP`.
    let Some(blocks) = bytes.len().checked_sub(last).map(|places| places / STEP) else {
        return;
    };
    let wanted = probes.map(|(_, byte)| _mm256_set1_epi8(byte as i8));
    'blocks: for block in 0..blocks {
        let from = block * STEP;
        let mut equal = [_mm256_set1_epi8(-1); 2];
        for (probe, ((at, _), wanted)) in probes.iter().zip(&wanted).enumerate() {
            if probe == 2 {
                let either = _mm256_or_si256(equal[0], equal[1]);
                if _mm256_testz_si256(either, either) == 1 {
                    continue 'blocks;
                }
            }
            let places = &bytes[from + at..from + at + STEP];
            for (half, equal) in equal.iter_mut().enumerate() {
                // SAFETY: the slice has both halves of 32 bytes, and the load needs no alignment.
                let there = unsafe { _mm256_loadu_si256(places.as_ptr().add(32 * half).cast()) };
                *equal = _mm256_and_si256(*equal, _mm256_cmpeq_epi8(there, *wanted));
            }
        }
        let [low, high] = equal.map(|equal| u64::from(_mm256_movemask_epi8(equal) as u32));
        let mut bits = low | high << 32;
        if bits == 0 {
            continue;
        }
        if !each {
            so_far.count += u64::from(bits.count_ones());
            so_far.end = from + STEP - bits.leading_zeros() as usize + last;
            continue;
        }
        while bits != 0 {
            let place = from + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            if place >= so_far.end && (N < PROBES || bytes[place..].starts_with(literal)) {
                so_far.count += 1;
                so_far.end = place + literal.len();
            }
        }
    }
    so_far.looked_at = blocks * STEP;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(bytes: &[u8], literal: &[u8]) -> (u64, usize) {
        let (mut count, mut end, mut at) = (0, 0, 0);
        while at + literal.len() <= bytes.len() {
            if bytes[at..].starts_with(literal) {
                count += 1;
                at += literal.len();
                end = at;
            } else {
                at += 1;
            }
        }
        (count, end)
    }

    #[test]
    fn literals_of_any_length_are_counted_as_one_place_after_another() {
        let mut state = 1u64;
        let mut letters = |count: usize, of: u64| -> Vec<u8> {
            (0..count)
                .map(|_| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    b'a' + ((state >> 33) % of) as u8
                })
                .collect()
        };
        let mut matched = 0;
        for round in 0..600 {
            let bytes = letters(round % 331, 1 + round as u64 % 3);
            // Taken from the text, so that it is found.
            let length = 2 + round % 13;
            let Some(literal) = bytes.get(round % 7..round % 7 + length) else {
                continue;
            };
            let finder = Finder::new(literal);
            let Some(counter) = Counter::new(literal) else {
                eprintln!("no AVX2: skipped");
                return;
            };
            let got = counter.count(&bytes, &finder);
            assert_eq!(got, slow(&bytes, literal), "{bytes:?} {literal:?}");
            matched += got.0;
        }
        assert!(matched > 5000, "{matched}");
    }

    #[test]
    fn borders_are_seen() {
        for (literal, bordered) in [
            (&b"ab"[..], false),
            (b"aa", true),
            (b"aba", true),
            (b"needle", false),
            (b"station", false),
            (b"abcabcab", true),
            (b"entertainment", true),
            (b"onion", true),
        ] {
            assert_eq!(has_border(literal), bordered, "{literal:?}");
        }
    }
}
