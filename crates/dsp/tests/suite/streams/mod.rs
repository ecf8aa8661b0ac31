//! Noise, and kernels called in pieces.
#![allow(dead_code)] // Not every test needs all.

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) + 1) as f64 / 9_007_199_254_740_992.0
    }

    pub(crate) fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }

    /// Box-Muller.
    pub(crate) fn gaussian(&mut self) -> f64 {
        (2.0 * self.exponential()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// Calls have these lengths, cyclically.
pub(crate) fn in_parts(
    values: &[f64],
    cuts: &[usize],
    mut run: impl FnMut(&[f64], &mut [f64]),
) -> Vec<f64> {
    let mut results = vec![0.0; values.len()];
    let mut at = 0;
    let mut cuts = cuts.iter().cycle();
    while at < values.len() {
        let to = values.len().min(at + cuts.next().unwrap());
        run(&values[at..to], &mut results[at..to]);
        at = to;
    }
    results
}

pub(crate) fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}
