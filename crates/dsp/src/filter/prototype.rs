//! Analog lowpass prototypes with corner 1 rad/s.
//!
//! Conjugate pairs and real roots are apart, so no tolerance pairs them. Formulas: T. W. Parks and C. S. Burrus,
//! "Digital Filter Design", Wiley 1987, chapter 7; elliptic filters: S. J. Orfanidis, "Lecture Notes on Elliptic Filter
//! Design", Rutgers 2006.

use std::f64::consts::{LN_10, PI};

use num_complex::Complex64;

use super::elliptic::{arc_sc, degree, jacobi, quarter_period};

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Roots {
    pub(super) reals: Vec<f64>,
    /// The roots above the real axis.
    pub(super) pairs: Vec<Complex64>,
}

impl Roots {
    pub(super) fn count(&self) -> usize {
        self.reals.len() + 2 * self.pairs.len()
    }

    pub(super) fn product(&self, at: f64) -> f64 {
        let reals: f64 = self.reals.iter().map(|root| at - root).product();
        let pairs = self.pairs.iter().map(|root| (at - root).norm_sqr());
        reals * pairs.product::<f64>()
    }
}

/// `gain * product(s - zero) / product(s - pole)`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Zpk {
    pub(super) zeros: Roots,
    pub(super) poles: Roots,
    pub(super) gain: f64,
}

/// `10^(db / 10) - 1`, without cancellation.
fn power_above_one(db: f64) -> f64 {
    (db / 10.0 * LN_10).exp_m1()
}

fn angles(order: usize) -> impl Iterator<Item = f64> {
    let steps = (1 - order % 2..order).step_by(2).filter(|&m| m > 0);
    steps.map(move |m| PI * m as f64 / (2 * order) as f64)
}

pub(super) fn butterworth(order: usize) -> Zpk {
    let pairs = angles(order).map(|angle| Complex64::new(-angle.cos(), angle.sin()));
    Zpk {
        zeros: Roots::default(),
        poles: Roots {
            pairs: pairs.collect(),
            reals: vec![-1.0; order % 2],
        },
        gain: 1.0,
    }
}

/// The gain leaves the passband ripple at the corner.
pub(super) fn chebyshev1(order: usize, ripple_db: f64) -> Zpk {
    let ripple = power_above_one(ripple_db);
    let (sinh, cosh) = sinh_cosh((1.0 / ripple.sqrt()).asinh() / order as f64);
    let pairs = angles(order).map(|angle| Complex64::new(-sinh * angle.cos(), cosh * angle.sin()));
    let poles = Roots {
        pairs: pairs.collect(),
        reals: vec![-sinh; order % 2],
    };
    let even = if order.is_multiple_of(2) {
        (1.0 + ripple).sqrt()
    } else {
        1.0
    };
    Zpk {
        gain: poles.product(0.0) / even,
        zeros: Roots::default(),
        poles,
    }
}

/// The stopband begins at the corner.
pub(super) fn chebyshev2(order: usize, attenuation_db: f64) -> Zpk {
    let (sinh, cosh) = sinh_cosh(power_above_one(attenuation_db).sqrt().asinh() / order as f64);
    let pole = |angle: f64| {
        // Its conjugate lies above the axis.
        let inverse = Complex64::new(-sinh * angle.cos(), -cosh * angle.sin());
        1.0 / inverse
    };
    let poles = Roots {
        pairs: angles(order).map(pole).collect(),
        reals: vec![-1.0 / sinh; order % 2],
    };
    let zeros = Roots {
        pairs: angles(order)
            .map(|angle| Complex64::new(0.0, 1.0 / angle.sin()))
            .collect(),
        reals: vec![],
    };
    Zpk {
        gain: poles.product(0.0) / zeros.product(0.0),
        zeros,
        poles,
    }
}

/// The gain leaves the passband at the corner. None if double precision cannot represent the range of gains.
pub(super) fn elliptic(order: usize, ripple_db: f64, attenuation_db: f64) -> Option<Zpk> {
    let ripple = power_above_one(ripple_db);
    if order == 1 {
        let pole = (1.0 / ripple).sqrt();
        return Some(Zpk {
            zeros: Roots::default(),
            poles: Roots {
                reals: vec![-pole],
                pairs: vec![],
            },
            gain: pole,
        });
    }
    let selectivity = ripple / power_above_one(attenuation_db);
    let (m, m1) = degree(order, selectivity);
    if !(m > 0.0 && m1 > 0.0) {
        return None;
    }
    let quarter = quarter_period(m1);
    let shift = quarter * arc_sc(1.0 / ripple.sqrt(), selectivity)
        / (order as f64 * quarter_period(1.0 - selectivity));
    let (sv, cv, dv) = jacobi(shift, m1, m);
    let (mut zeros, mut poles) = (Roots::default(), Roots::default());
    for j in (1 - order % 2..order).step_by(2) {
        let (s, c, d) = jacobi(j as f64 * quarter / order as f64, m, m1);
        let below = 1.0 - (d * sv) * (d * sv);
        let pole = Complex64::new(-(c * d * sv * cv) / below, s * dv / below);
        if j == 0 {
            poles.reals.push(pole.re);
        } else {
            poles.pairs.push(pole);
            zeros.pairs.push(Complex64::new(0.0, 1.0 / (m.sqrt() * s)));
        }
    }
    let even = if order.is_multiple_of(2) {
        (1.0 + ripple).sqrt()
    } else {
        1.0
    };
    Some(Zpk {
        gain: poles.product(0.0) / zeros.product(0.0) / even,
        zeros,
        poles,
    })
}

fn sinh_cosh(x: f64) -> (f64, f64) {
    (x.sinh(), x.cosh())
}
