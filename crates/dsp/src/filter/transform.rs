//! Frequency and bilinear transforms of prototypes.
//!
//! Frequencies are `tan(pi f / rate)`, which the bilinear transform `z = (1 + s) / (1 - s)` maps back to `f`.

use num_complex::Complex64;

use super::prototype::{Roots, Zpk};

impl Roots {
    fn map(&self, real: impl Fn(f64) -> f64, pair: impl Fn(Complex64) -> Complex64) -> Self {
        Self {
            reals: self.reals.iter().map(|&root| real(root)).collect(),
            pairs: self.pairs.iter().map(|&root| above(pair(root))).collect(),
        }
    }

    /// For each root `r`, solves `x² - 2 r x + centre² = 0`.
    fn split(&self, centre: f64) -> Self {
        let mut roots = Self::default();
        for &root in &self.reals {
            let inside = (root - centre) * (root + centre);
            if inside < 0.0 {
                roots.pairs.push(Complex64::new(root, (-inside).sqrt()));
            } else {
                // The larger first: the other would cancel.
                let larger = root + inside.sqrt().copysign(root);
                roots.reals.extend([larger, centre * centre / larger]);
            }
        }
        for &root in &self.pairs {
            let spread = ((root - centre) * (root + centre)).sqrt();
            let same = root.re * spread.re + root.im * spread.im >= 0.0;
            let larger = if same { root + spread } else { root - spread };
            let smaller = centre * centre / larger;
            roots.pairs.extend([above(larger), above(smaller)]);
        }
        roots
    }
}

fn above(root: Complex64) -> Complex64 {
    Complex64::new(root.re, root.im.abs())
}

impl Zpk {
    fn relative_degree(&self) -> usize {
        self.poles.count() - self.zeros.count()
    }

    pub(super) fn lowpass(&self, corner: f64) -> Self {
        let scale = |roots: &Roots| roots.map(|root| root * corner, |root| root * corner);
        Self {
            zeros: scale(&self.zeros),
            poles: scale(&self.poles),
            gain: self.gain * corner.powi(self.relative_degree() as i32),
        }
    }

    pub(super) fn highpass(&self, corner: f64) -> Self {
        let invert = |roots: &Roots| roots.map(|root| corner / root, |root| corner / root);
        let mut zeros = invert(&self.zeros);
        zeros.reals.extend(vec![0.0; self.relative_degree()]);
        Self {
            zeros,
            poles: invert(&self.poles),
            gain: self.gain * self.zeros.product(0.0) / self.poles.product(0.0),
        }
    }

    pub(super) fn bandpass(&self, low: f64, high: f64) -> Self {
        let (width, centre) = (high - low, (low * high).sqrt());
        let halved = self.lowpass(width / 2.0);
        let mut zeros = halved.zeros.split(centre);
        zeros.reals.extend(vec![0.0; self.relative_degree()]);
        Self {
            zeros,
            poles: halved.poles.split(centre),
            gain: self.gain * width.powi(self.relative_degree() as i32),
        }
    }

    pub(super) fn bandstop(&self, low: f64, high: f64) -> Self {
        let (width, centre) = (high - low, (low * high).sqrt());
        let invert =
            |roots: &Roots| roots.map(|root| width / 2.0 / root, |root| width / 2.0 / root);
        let mut zeros = invert(&self.zeros).split(centre);
        let middle = Complex64::new(0.0, centre);
        zeros.pairs.extend(vec![middle; self.relative_degree()]);
        Self {
            zeros,
            poles: invert(&self.poles).split(centre),
            gain: self.gain * self.zeros.product(0.0) / self.poles.product(0.0),
        }
    }

    /// Zeros at infinity move to half the rate.
    pub(super) fn bilinear(&self) -> Self {
        let map = |roots: &Roots| {
            roots.map(
                |root| (1.0 + root) / (1.0 - root),
                |root| (1.0 + root) / (1.0 - root),
            )
        };
        let mut zeros = map(&self.zeros);
        zeros.reals.extend(vec![-1.0; self.relative_degree()]);
        Self {
            zeros,
            poles: map(&self.poles),
            gain: self.gain * self.zeros.product(1.0) / self.poles.product(1.0),
        }
    }
}
