//! Values between samples, by polynomials.
//!
//! Largest errors for a sine of amplitude A with w radians per sample (2 pi f / rate):
//!
//! | | samples before, after | error | at a tenth of the rate | at a hundredth |
//! |---|---|---|---|---|
//! | [`Linear`](Interpolation::Linear) | 1, 1 | A w² / 8 | 0.05 A | 5e-4 A |
//! | [`Cubic`](Interpolation::Cubic) | 2, 2 | 3 A w⁴ / 128 | 0.004 A | 4e-7 A |
//!
//! Exact for polynomials of their degree.

/// Interpolation method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interpolation {
    /// Line through both neighbours.
    Linear,
    /// Lagrange cubic through two samples on either side.
    Cubic,
}

impl Interpolation {
    /// Samples needed before that at the position.
    #[must_use]
    pub const fn before(self) -> usize {
        match self {
            Self::Linear => 0,
            Self::Cubic => 1,
        }
    }

    /// Samples needed behind that one.
    #[must_use]
    pub const fn after(self) -> usize {
        match self {
            Self::Linear => 1,
            Self::Cubic => 2,
        }
    }

    /// The value at `at + part`, `part` from 0 to 1. NaN and infinities affect the values that depend on them.
    ///
    /// ```
    /// use isochrony_dsp::interpolate::Interpolation;
    /// let cubes = [0.0, 1.0, 8.0, 27.0, 64.0];
    /// assert_eq!(Interpolation::Cubic.value(&cubes, 2, 0.5), 2.5f64.powi(3));
    /// assert_eq!(Interpolation::Linear.value(&cubes, 3, 0.5), 45.5);
    /// ```
    ///
    /// # Panics
    /// With fewer samples than [`before`](Self::before) and [`after`](Self::after).
    #[inline]
    #[must_use]
    pub fn value(self, samples: &[f64], at: usize, part: f64) -> f64 {
        match self {
            Self::Linear => samples[at] * (1.0 - part) + samples[at + 1] * part,
            Self::Cubic => {
                let near = &samples[at - 1..at + 3];
                let (t, back, rest) = (part, part + 1.0, 1.0 - part);
                let far = 2.0 - part;
                near[0] * (-t * rest * far / 6.0)
                    + near[1] * (back * rest * far / 2.0)
                    + near[2] * (back * t * far / 2.0)
                    + near[3] * (-back * t * rest / 6.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polynomials_are_exact_and_samples_are_reproduced() {
        let (line, cubic) = (
            |x: f64| 3.0 * x - 7.0,
            |x: f64| x * x * x - 4.0 * x * x + x - 2.0,
        );
        let lines: Vec<f64> = (0..20).map(|k| line(f64::from(k))).collect();
        let cubics: Vec<f64> = (0..20).map(|k| cubic(f64::from(k))).collect();
        for at in 1..17 {
            for part in [0.0, 0.125, 0.3, 0.5, 0.9, 1.0] {
                let x = at as f64 + part;
                let got = Interpolation::Linear.value(&lines, at, part);
                assert!((got - line(x)).abs() < 1e-13);
                let got = Interpolation::Cubic.value(&cubics, at, part);
                assert!(
                    (got - cubic(x)).abs() < 8.0 * 6000.0 * 1.2e-16,
                    "{got} {}",
                    cubic(x)
                );
            }
            assert_eq!(Interpolation::Cubic.value(&cubics, at, 0.0), cubics[at]);
        }
    }

    #[test]
    fn sine_errors_are_within_the_stated_bound_and_near_it() {
        for cycles in [0.002, 0.01, 0.05, 0.1, 0.2] {
            let w = std::f64::consts::TAU * cycles;
            let samples: Vec<f64> = (0..2000).map(|k| (w * f64::from(k)).sin()).collect();
            for (method, bound) in [
                (Interpolation::Linear, w * w / 8.0),
                (Interpolation::Cubic, 3.0 * w.powi(4) / 128.0),
            ] {
                let mut worst = 0.0f64;
                for at in 1..1990 {
                    for part in [0.1, 0.25, 0.5, 0.8] {
                        let want = (w * (at as f64 + part)).sin();
                        worst = worst.max((method.value(&samples, at, part) - want).abs());
                    }
                }
                assert!(
                    worst <= bound + 1e-12,
                    "{method:?} at {cycles}: {worst} of {bound}"
                );
                assert!(
                    worst > 0.7 * bound || worst < 1e-11,
                    "{method:?} at {cycles}: {worst} of {bound}"
                );
            }
        }
    }
}
