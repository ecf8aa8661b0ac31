//! Sums of floats and 64-bit integers in a fixed number of lanes.
//!
//! Sample `i` belongs to lane `i % LANES`, and lanes are added in a fixed tree: vector width and cuts do not matter.
//! Deviations from the first finite sample bound cancellation: `n * (shift - mean)^2 <= n * M2`.

use serde::{Deserialize, Serialize};

use super::{Extreme, Moments, Summary};
use crate::isa::Level;

/// Partial sums; a multiple of every vector width.
pub const LANES: usize = 16;

const GROUPS: usize = 64;

/// A number that lanes sum.
pub trait Lane: Extreme {
    const LOWEST: Self;
    const HIGHEST: Self;

    fn is_finite(self) -> bool;

    /// `self - shift` in f64, rounded once.
    fn deviation(self, shift: Self) -> f64;
}

macro_rules! float_lane {
    ($($type:ident)*) => {$(
        impl Lane for $type {
            const LOWEST: Self = $type::NEG_INFINITY;
            const HIGHEST: Self = $type::INFINITY;

            #[inline(always)]
            fn is_finite(self) -> bool {
                $type::is_finite(self)
            }

            #[inline(always)]
            #[allow(clippy::cast_lossless)]
            fn deviation(self, shift: Self) -> f64 {
                self as f64 - shift as f64
            }
        }
    )*};
}

float_lane!(f32 f64);

impl Lane for i64 {
    const LOWEST: Self = i64::MIN;
    const HIGHEST: Self = i64::MAX;

    #[inline(always)]
    fn is_finite(self) -> bool {
        true
    }

    /// Differences of halves have 33 bits: only their sum is rounded.
    #[inline(always)]
    fn deviation(self, shift: Self) -> f64 {
        // Unsigned order: vectors lack signed 64-bit shifts.
        let (a, b) = (self as u64 ^ 1 << 63, shift as u64 ^ 1 << 63);
        let high = (a >> 32) as i64 - (b >> 32) as i64;
        let low = (a & 0xffff_ffff) as i64 - (b & 0xffff_ffff) as i64;
        short_to_f64(high) * 4_294_967_296.0 + short_to_f64(low)
    }
}

/// Without vector conversion of 64-bit integers: converts 51 bits, since in [2^52, 2^53) an f64's last bit counts ones.
#[inline(always)]
fn short_to_f64(value: i64) -> f64 {
    const MAGIC: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52
    f64::from_bits((MAGIC.to_bits() as i64 + value) as u64) - MAGIC
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Sums<T> {
    deviations: [f64; LANES],
    squares: [f64; LANES],
    min: [T; LANES],
    max: [T; LANES],
}

impl<T: Lane> Sums<T> {
    #[inline(always)]
    fn extend(&mut self, lane: usize, sample: T) {
        let (min, max) = (&mut self.min[lane], &mut self.max[lane]);
        *min = if sample < *min { sample } else { *min };
        *max = if sample > *max { sample } else { *max };
    }

    #[inline(always)]
    fn add(&mut self, lane: usize, deviation: f64) {
        self.deviations[lane] += deviation;
        self.squares[lane] += deviation * deviation;
    }

    /// Extremes and sums have a loop each over the L1 cache: together they exceed AVX2's registers.
    #[inline(always)]
    fn add_finite(mut self, groups: &[[T; LANES]], shift: T) -> Self {
        for group in groups {
            for (lane, &sample) in group.iter().enumerate() {
                self.extend(lane, sample);
            }
        }
        for group in groups {
            let deviations = group.map(|sample| sample.deviation(shift));
            for (lane, &deviation) in deviations.iter().enumerate() {
                self.add(lane, deviation);
            }
        }
        self
    }
}

/// Sums of a window.
#[derive(Clone, Serialize, Deserialize)]
pub struct Lanes<T> {
    sums: Sums<T>,
    shift: Option<T>,
    seen: u64,
    skipped: u64,
}

impl<T: Lane> Default for Lanes<T> {
    fn default() -> Self {
        Self {
            sums: Sums {
                deviations: [0.0; LANES],
                squares: [0.0; LANES],
                min: [T::HIGHEST; LANES],
                max: [T::LOWEST; LANES],
            },
            shift: None,
            seen: 0,
            skipped: 0,
        }
    }
}

impl<T: Lane> Lanes<T> {
    #[inline(always)]
    fn add_each(&mut self, samples: &[T], shift: T) {
        for &sample in samples {
            let lane = (self.seen % LANES as u64) as usize;
            if sample.is_finite() {
                self.sums.extend(lane, sample);
                self.sums.add(lane, sample.deviation(shift));
            } else {
                self.skipped += 1;
            }
            self.seen += 1;
        }
    }
}

impl<T: Lane> Moments<T> for Lanes<T> {
    type Extreme = T;

    #[inline(always)]
    fn update<L: Level>(&mut self, _level: L, mut samples: &[T]) {
        let shift = match self.shift {
            Some(shift) => shift,
            None => {
                let first = samples.iter().position(|s| s.is_finite());
                let lost = first.unwrap_or(samples.len());
                self.seen += lost as u64;
                self.skipped += lost as u64;
                samples = &samples[lost..];
                let Some(&shift) = samples.first() else {
                    return;
                };
                self.shift = Some(shift);
                shift
            }
        };
        let misplaced = (self.seen.wrapping_neg() % LANES as u64) as usize;
        let (head, body) = samples.split_at(misplaced.min(samples.len()));
        self.add_each(head, shift);
        let (groups, tail) = body.as_chunks::<LANES>();
        for groups in groups.chunks(GROUPS) {
            let sums = self.sums.add_finite(groups, shift);
            // A non-finite sample makes a sum non-finite.
            if sums.deviations.iter().all(|sum| sum.is_finite()) {
                self.sums = sums;
                self.seen += (groups.len() * LANES) as u64;
            } else {
                self.add_each(groups.as_flattened(), shift);
            }
        }
        self.add_each(tail, shift);
    }

    fn finish(&self) -> Summary<T> {
        let count = self.seen - self.skipped;
        let Some(shift) = self.shift else {
            return Summary::EMPTY;
        };
        let (sum, squares) = (tree(self.sums.deviations), tree(self.sums.squares));
        let mean = sum / count as f64;
        let m2 = if sum.is_finite() && squares.is_finite() {
            (squares - sum * mean).max(0.0)
        } else {
            f64::INFINITY
        };
        Summary {
            min: fold(self.sums.min, |a, b| if b < a { b } else { a }),
            max: fold(self.sums.max, |a, b| if b > a { b } else { a }),
            count,
            mean: shift.to_f64() + mean,
            m2,
        }
    }
}

fn tree(mut lanes: [f64; LANES]) -> f64 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

fn fold<T: Copy>(lanes: [T; LANES], better: impl Fn(T, T) -> T) -> T {
    lanes[1..].iter().fold(lanes[0], |a, &b| better(a, b))
}
