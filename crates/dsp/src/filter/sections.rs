//! Cascades of second-order sections.

use std::f64::consts::PI;

use num_complex::Complex64;

use crate::DspError;

/// `y[n] = b0 x[n] + b1 x[n-1] + b2 x[n-2] - a1 y[n-1] - a2 y[n-2]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Section {
    /// Numerator.
    pub b: [f64; 3],
    /// Denominator without its leading 1.
    pub a: [f64; 2],
}

impl Section {
    /// Gain at 0 Hz.
    #[must_use]
    pub fn gain_of_constant(&self) -> f64 {
        let [b0, b1, b2] = self.b;
        (b0 + b1 + b2) / (1.0 + self.a[0] + self.a[1])
    }

    /// Distance of the farther pole from the origin.
    #[must_use]
    pub fn radius(&self) -> f64 {
        let [a1, a2] = self.a;
        let inside = a1 * a1 - 4.0 * a2;
        if inside < 0.0 {
            a2.sqrt()
        } else {
            0.5 * (a1.abs() + inside.sqrt())
        }
    }

    fn is_stable(&self) -> bool {
        let [a1, a2] = self.a;
        let finite = self.b.iter().chain(&self.a).all(|x| x.is_finite());
        finite && a2.abs() < 1.0 && a1.abs() < 1.0 + a2
    }
}

/// A stable recursive filter.
#[derive(Debug, Clone, PartialEq)]
pub struct Sections(Vec<Section>);

impl Sections {
    /// Sections in running order.
    ///
    /// # Errors
    /// [`DspError::Unstable`] if a pole is not inside the unit circle; [`DspError::Parameter`] for no sections.
    pub fn new(operator: &'static str, sections: Vec<Section>) -> Result<Self, DspError> {
        if sections.is_empty() {
            return Err(super::parameter_error(
                operator,
                "sections",
                "none",
                "one section or more",
            ));
        }
        match sections.iter().position(|section| !section.is_stable()) {
            Some(section) => Err(DspError::Unstable {
                operator,
                section,
                sections: sections.len(),
            }),
            None => Ok(Self(sections)),
        }
    }

    /// Sections in running order.
    #[must_use]
    pub fn as_slice(&self) -> &[Section] {
        &self.0
    }

    /// SciPy's rows of six: b0, b1, b2, 1, a1, a2.
    #[must_use]
    pub fn to_sos(&self) -> Vec<[f64; 6]> {
        let row = |s: &Section| [s.b[0], s.b[1], s.b[2], 1.0, s.a[0], s.a[1]];
        self.0.iter().map(row).collect()
    }

    /// Response at a frequency.
    #[must_use]
    pub fn response(&self, hz: f64, rate: f64) -> Complex64 {
        let delay = Complex64::from_polar(1.0, -2.0 * PI * hz / rate);
        let one = |s: &Section| {
            let above = s.b[0] + delay * (s.b[1] + delay * s.b[2]);
            above / (1.0 + delay * (s.a[0] + delay * s.a[1]))
        };
        self.0.iter().map(one).product()
    }

    /// Samples until the rest of the impulse response is below `rel_err`; `u64::MAX` if never.
    ///
    /// As if all `m` poles lay at the largest radius r on the real axis: the rest after n samples is the probability of
    /// fewer than m events at rate `n (1 - r)`.
    #[must_use]
    pub fn settling(&self, rel_err: f64) -> u64 {
        let radius = self.0.iter().map(Section::radius).fold(0.0, f64::max);
        let poles: usize = self.0.iter().map(|s| 2 - usize::from(s.a[1] == 0.0)).sum();
        if radius <= f64::EPSILON {
            return 2 * self.0.len() as u64;
        }
        if radius >= 1.0 || rel_err <= 0.0 {
            return u64::MAX;
        }
        let left = |mean: f64| -> f64 {
            let mut term = 1.0;
            let mut sum = 0.0;
            for j in 0..poles {
                sum += term;
                term *= mean / (j + 1) as f64;
            }
            (sum.ln() - mean).exp()
        };
        let (mut low, mut high) = (0.0, 1.0);
        while left(high) > rel_err {
            high *= 2.0;
        }
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if left(middle) > rel_err {
                low = middle;
            } else {
                high = middle;
            }
        }
        let samples = high / -radius.ln();
        // Poles at the origin and zeros: two samples per section.
        samples.ceil() as u64 + 2 * self.0.len() as u64
    }
}
