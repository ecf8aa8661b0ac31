//! Statistics of complex samples, by magnitude.

use isochrony_segment::{Complex32, Complex64};
use serde::{Deserialize, Serialize};

use super::lanes::Lanes;
use super::{Extreme, Moments, Summary};
use crate::isa::Level;

const BLOCK: usize = 256;

/// A sample with a magnitude.
pub trait Complex: Copy + Send + Sync + 'static {
    type Extreme: Extreme;

    /// `|z|` in f64; not finite if a part is not.
    fn magnitude(self) -> f64;

    /// Monotonic: extremes may be rounded last.
    fn round(magnitude: f64) -> Self::Extreme;
}

impl Complex for Complex32 {
    type Extreme = f32;

    #[inline(always)]
    fn magnitude(self) -> f64 {
        // Squares of f32 are exact in f64.
        let (re, im) = (f64::from(self.re), f64::from(self.im));
        (re * re + im * im).sqrt()
    }

    #[inline(always)]
    fn round(magnitude: f64) -> f32 {
        magnitude as f32
    }
}

impl Complex for Complex64 {
    type Extreme = f64;

    /// Scaled by a power of two if squares would overflow or lose digits. `hypot`'s last bit depends on the C library.
    #[inline(always)]
    fn magnitude(self) -> f64 {
        const BIG: f64 = f64::from_bits((1023 + 600) << 52); // 2^600
        const SMALL: f64 = f64::from_bits((1023 - 600) << 52); // 2^-600
        let (re, im) = (self.re.abs(), self.im.abs());
        let larger = if re > im { re } else { im };
        let (down, up) = if larger > f64::from_bits((1023 + 500) << 52) {
            (SMALL, BIG)
        } else if larger < f64::from_bits((1023 - 450) << 52) {
            (BIG, SMALL)
        } else {
            (1.0, 1.0)
        };
        let (re, im) = (re * down, im * down);
        (re * re + im * im).sqrt() * up
    }

    #[inline(always)]
    fn round(magnitude: f64) -> f64 {
        magnitude
    }
}

/// Running sums of magnitudes.
#[derive(Clone, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Magnitudes<T> {
    lanes: Lanes<f64>,
    samples: std::marker::PhantomData<T>,
}

impl<T> Default for Magnitudes<T> {
    fn default() -> Self {
        Self {
            lanes: Lanes::default(),
            samples: std::marker::PhantomData,
        }
    }
}

impl<T: Complex> Moments<T> for Magnitudes<T> {
    type Extreme = T::Extreme;

    #[inline(always)]
    fn update<L: Level>(&mut self, level: L, samples: &[T]) {
        let mut magnitudes = [0.0; BLOCK];
        for samples in samples.chunks(BLOCK) {
            for (magnitude, sample) in magnitudes.iter_mut().zip(samples) {
                *magnitude = sample.magnitude();
            }
            self.lanes.update(level, &magnitudes[..samples.len()]);
        }
    }

    fn finish(&self) -> Summary<T::Extreme> {
        let summary = self.lanes.finish();
        Summary {
            min: T::round(summary.min),
            max: T::round(summary.max),
            count: summary.count,
            mean: summary.mean,
            m2: summary.m2,
        }
    }
}
