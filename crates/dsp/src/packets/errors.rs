//! Bit errors of receivers and their correlation.

use super::{is_intact, words};

/// Counts bit errors per receiver and pair, over packets with an intact copy.
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
    /// By pair of receivers, at `i * receivers + j`.
    common: Vec<u64>,
    errors: Vec<u64>,
    joint: Vec<u64>,
    broken: Vec<(usize, u64)>,
    wrong: Vec<u64>,
}

impl ErrorCounts {
    /// No counts.
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

    /// Adds one packet's copies, None for receivers without. Without an intact copy counts nothing and returns false.
    ///
    /// # Panics
    /// Unless there is one copy per receiver, of equal length.
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

    /// Clears all counts.
    pub fn clear(&mut self) {
        for counts in [&mut self.common, &mut self.errors, &mut self.joint] {
            counts.fill(0);
        }
    }

    /// Writes a square matrix by rows: error rates on the diagonal, elsewhere the correlation of two receivers' errors
    /// (phi coefficient, -1 to 1) over common packets; NaN without such packets or errors.
    ///
    /// # Panics
    /// Unless `matrix` has a number per pair.
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

fn ones(words: impl Iterator<Item = u64>) -> u64 {
    words.map(|word| u64::from(word.count_ones())).sum()
}

/// Phi coefficient: bits are 1 in `a` and `b` of `n` cases, and in `both` together.
fn phi(n: u64, a: u64, b: u64, both: u64) -> f64 {
    // The difference of integer products is exact.
    let [n, a, b, both] = [n, a, b, both].map(i128::from);
    let spread = |x: i128| (x as f64 * (n - x) as f64).sqrt();
    (n * both - a * b) as f64 / (spread(a) * spread(b))
}
