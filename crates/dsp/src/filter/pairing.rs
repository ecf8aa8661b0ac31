//! Poles and zeros as second-order sections.
//!
//! The pole nearest to the unit circle takes the nearest zero, and so on; sections run in reverse order, the first has
//! the gain. As SciPy's `zpk2sos(pairing="nearest")`.

use num_complex::Complex64;

use super::prototype::{Roots, Zpk};
use super::sections::Section;

/// Of each pair the root above the real axis, then real ones.
fn listed(roots: &Roots, pad: usize) -> Vec<Complex64> {
    let mut pairs = roots.pairs.clone();
    pairs.sort_by(|x, y| x.re.total_cmp(&y.re).then(x.im.total_cmp(&y.im)));
    let mut reals = roots.reals.clone();
    reals.extend(vec![0.0; pad]);
    reals.sort_by(f64::total_cmp);
    pairs.extend(reals.into_iter().map(Complex64::from));
    pairs
}

fn is_real(root: Complex64) -> bool {
    root.im == 0.0
}

fn take(
    roots: &mut Vec<Complex64>,
    fit: impl Fn(Complex64) -> bool,
    cost: impl Fn(Complex64) -> f64,
) -> Option<Complex64> {
    let fitting = roots.iter().enumerate().filter(|(_, root)| fit(**root));
    let (at, _) = fitting.min_by(|(_, x), (_, y)| cost(**x).total_cmp(&cost(**y)))?;
    Some(roots.remove(at))
}

/// `(1 - r1/z) (1 - r2/z)`; a complex root stands for its pair.
fn polynomial(first: Complex64, second: Complex64) -> [f64; 3] {
    if is_real(first) {
        [1.0, -(first.re + second.re), first.re * second.re]
    } else {
        [1.0, -2.0 * first.re, first.norm_sqr()]
    }
}

impl Zpk {
    pub(super) fn sections(&self) -> Vec<Section> {
        // A pole and a zero at the origin cancel.
        let odd = self.poles.count() % 2;
        let mut poles = listed(&self.poles, odd);
        let mut zeros = listed(&self.zeros, odd);
        let to_circle = |root: Complex64| (1.0 - root.norm()).abs();
        let reals = |roots: &[Complex64]| roots.iter().filter(|root| is_real(**root)).count();
        let mut sections = Vec::new();
        while let Some(pole) = take(&mut poles, |_| true, to_circle) {
            let near = |root: Complex64| (root - pole).norm();
            let last_real = !is_real(pole) && reals(&poles) == 1 && reals(&zeros) == 1;
            let alone = last_real && poles.len() + 1 == zeros.len();
            let second_pole = if is_real(pole) {
                take(&mut poles, is_real, to_circle).unwrap_or_default()
            } else {
                pole.conj()
            };
            let zero = take(&mut zeros, |root| !alone || !is_real(root), near).unwrap_or_default();
            let second_zero = if is_real(zero) {
                take(&mut zeros, is_real, near).unwrap_or_default()
            } else {
                zero.conj()
            };
            let [_, a1, a2] = polynomial(pole, second_pole);
            sections.push(Section {
                b: polynomial(zero, second_zero),
                a: [a1, a2],
            });
        }
        sections.reverse();
        if let Some(first) = sections.first_mut() {
            first.b = first.b.map(|b| b * self.gain);
        }
        sections
    }
}
