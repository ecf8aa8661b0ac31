//! Elliptic integrals and functions.
//!
//! By the arithmetic-geometric mean (Abramowitz and Stegun 16.4, 17.6). The parameter `m` and `m1 = 1 - m` are
//! separate, to keep digits near zero.

use std::f64::consts::{FRAC_PI_2, PI};

/// Each doubles the digits; parameters are at least 1e-308.
const STEPS: usize = 16;

/// Complete integral of the first kind, for the complement `m1`.
pub(super) fn quarter_period(m1: f64) -> f64 {
    let (mut a, mut b) = (1.0, m1.sqrt());
    for _ in 0..STEPS {
        (a, b) = (0.5 * (a + b), (a * b).sqrt());
    }
    FRAC_PI_2 / a
}

pub(super) fn jacobi(u: f64, m: f64, m1: f64) -> (f64, f64, f64) {
    let (mut a, mut b) = ([1.0; STEPS + 1], m1.sqrt());
    let mut c = [m.sqrt(); STEPS + 1];
    let mut last = 0;
    while last < STEPS && c[last].abs() > f64::EPSILON * a[last] {
        a[last + 1] = 0.5 * (a[last] + b);
        c[last + 1] = 0.5 * (a[last] - b);
        b = (a[last] * b).sqrt();
        last += 1;
    }
    let mut phase = a[last] * u * (1u64 << last) as f64;
    for k in (1..=last).rev() {
        phase = 0.5 * (phase + (c[k] * phase.sin() / a[k]).clamp(-1.0, 1.0).asin());
    }
    let (sn, cn) = phase.sin_cos();
    (sn, cn, (m1 + m * cn * cn).sqrt())
}

/// `z` with `w = sc(z, 1 - m)`.
pub(super) fn arc_sc(w: f64, m: f64) -> f64 {
    let (mut k, mut w, mut scale) = (m.sqrt(), w, 1.0);
    // Landen's transformation squares the modulus.
    for _ in 0..STEPS {
        if k == 0.0 {
            break;
        }
        let complement = ((1.0 - k) * (1.0 + k)).sqrt();
        // Without cancellation for small k.
        let next = (k / (1.0 + complement)).powi(2);
        w = 2.0 * w / ((1.0 + next) * (1.0 + (1.0 + (k * w) * (k * w)).sqrt()));
        scale *= 1.0 + next;
        k = next;
    }
    scale * w.asinh()
}

/// Parameter and complement of a filter, from `m1` of its selectivity: the degree equation, by nomes.
pub(super) fn degree(order: usize, m1: f64) -> (f64, f64) {
    let q1 = (-PI * quarter_period(m1) / quarter_period(1.0 - m1)).exp();
    let q = q1.powf(1.0 / order as f64);
    // Complementary nome; neither sum cancels.
    (parameter(q), parameter((PI * PI / q.ln()).exp()))
}

fn parameter(q: f64) -> f64 {
    let (mut above, mut below) = (0.0, 0.5);
    for n in (0..24).rev() {
        above += q.powi(n * (n + 1));
        below += q.powi((n + 1) * (n + 1));
    }
    16.0 * q * (above / (2.0 * below)).powi(4)
}
