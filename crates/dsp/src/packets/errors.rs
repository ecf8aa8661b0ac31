//! Bit errors of receivers, and how much they are correlated.

use super::{is_intact, words};

/// Counts of bit errors of receivers, alone and together, over packets of which one copy was intact.
///
/// ```
/// use isochrony_dsp::packets::ErrorCounts;
/// let mut packet = *b"weather: fair....";
/// let check = crc32fast::hash(&packet[..13]).to_le_bytes();
/// packet[13..].copy_from_slice(&check);
/// let mut broken = packet;
/// broken[3] ^= 0b11;
/// let mut counts = ErrorCounts::new(3);
/// assert!(counts.add(&[Some(&packet), Some(&broken), Some(&broken)]));
/// let mut matrix = [0.0; 9];
/// counts.matrix(&mut matrix);
/// assert_eq!(matrix[4], 2.0 / 136.0); // two of 136 bits are wrong
/// assert_eq!(matrix[5], 1.0); // and they are the same ones
/// ```
#[derive(Debug, Clone)]
pub struct ErrorCounts {
    receivers: usize,
    /// Of receivers i and j, at `i * receivers + j`: bits of packets of which both have a copy.
    common: Vec<u64>,
    /// Errors of i in these.
    errors: Vec<u64>,
    /// Errors of both in the same bits.
    joint: Vec<u64>,
    /// The copies of a packet that have errors, and these, a word for each 64 bits.
    broken: Vec<(usize, u64)>,
    wrong: Vec<u64>,
}

impl ErrorCounts {
    /// None yet, of so many receivers.
    #[must_use]
    pub fn new(receivers: usize) -> Self {
        let pairs = receivers * receivers;
        Self {
            receivers,
            common: vec![0; pairs],
            errors: vec![0; pairs],
            joint: vec![0; pairs],
            broken: Vec::with_capacity(receivers),
            wrong: Vec::new(),
        }
    }

    /// Adds the copies of one packet, equally long, None of receivers that have none. Whether one of them is intact: else
    /// nobody knows what was sent, and nothing is counted.
    ///
    /// # Panics
    /// Where there are not as many as receivers, or not all are equally long.
    pub fn add(&mut self, copies: &[Option<&[u8]>]) -> bool {
        assert_eq!(copies.len(), self.receivers, "one copy for each receiver");
        let Some(truth) = copies
            .iter()
            .flatten()
            .copied()
            .find(|copy| is_intact(copy))
        else {
            return false;
        };
        let bits = 8 * truth.len() as u64;
        self.broken.clear();
        self.wrong.clear();
        for (receiver, copy) in copies.iter().enumerate() {
            let Some(copy) = *copy else { continue };
            assert_eq!(copy.len(), truth.len(), "copies are equally long");
            let row = &mut self.common[receiver * self.receivers..][..self.receivers];
            for (common, other) in row.iter_mut().zip(copies) {
                *common += if other.is_some() { bits } else { 0 };
            }
            if copy == truth {
                continue;
            }
            let from = self.wrong.len();
            let differ = words(copy).zip(words(truth)).map(|(a, b)| a ^ b);
            self.wrong.extend(differ);
            let count = ones(self.wrong[from..].iter().copied());
            self.broken.push((receiver, count));
            let row = &mut self.errors[receiver * self.receivers..][..self.receivers];
            for (errors, other) in row.iter_mut().zip(copies) {
                *errors += if other.is_some() { count } else { 0 };
            }
        }
        let words = truth.len().div_ceil(8);
        for (nth, &(i, count)) in self.broken.iter().enumerate() {
            self.joint[i * self.receivers + i] += count;
            let ours = &self.wrong[nth * words..][..words];
            for (other, &(j, _)) in self.broken.iter().enumerate().skip(nth + 1) {
                let theirs = &self.wrong[other * words..][..words];
                let both = ones(ours.iter().zip(theirs).map(|(a, b)| a & b));
                self.joint[i * self.receivers + j] += both;
                self.joint[j * self.receivers + i] += both;
            }
        }
        true
    }

    /// Forgets all counts.
    pub fn clear(&mut self) {
        for counts in [&mut self.common, &mut self.errors, &mut self.joint] {
            counts.fill(0);
        }
    }

    /// Writes what is known as a square of numbers, row by row: on the diagonal the share of each receiver's bits that are
    /// wrong, elsewhere the correlation of two receivers' errors (the phi coefficient, from -1 to 1), over the packets of
    /// which both have a copy. NaN where nothing is known: no such packet, or one of them without errors.
    ///
    /// # Panics
    /// If `matrix` does not have a number for each pair.
    pub fn matrix(&self, matrix: &mut [f64]) {
        assert_eq!(matrix.len(), self.receivers * self.receivers);
        for i in 0..self.receivers {
            for j in 0..self.receivers {
                let (ij, ji) = (i * self.receivers + j, j * self.receivers + i);
                matrix[ij] = if i == j {
                    self.errors[ij] as f64 / self.common[ij] as f64
                } else {
                    phi(
                        self.common[ij],
                        self.errors[ij],
                        self.errors[ji],
                        self.joint[ij],
                    )
                };
            }
        }
    }
}

/// Ones in words.
fn ones(words: impl Iterator<Item = u64>) -> u64 {
    words.map(|word| u64::from(word.count_ones())).sum()
}

/// Correlation of two bits that are 1 in `a` and `b` of `n` cases, in `both` of them together.
fn phi(n: u64, a: u64, b: u64, both: u64) -> f64 {
    // Products of counts lose nothing here, so that their difference is exact.
    let [n, a, b, both] = [n, a, b, both].map(i128::from);
    let spread = |x: i128| (x as f64 * (n - x) as f64).sqrt();
    (n * both - a * b) as f64 / (spread(a) * spread(b))
}
