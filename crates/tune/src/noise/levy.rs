//! The modified Levy distribution.

use std::f64::consts::PI;

use libm::erfc;
use serde::Serialize;
use statrs::function::erf::erfc_inv;

use crate::TuneError;

/// In widths of the support; less than 1.6e-12 of the untruncated mass remains beyond.
pub(super) const MAX_SCALE_PER_WIDTH: f64 = 50.0;

/// Levy distribution truncated to `(location, upper]`, for deviations with a sharp lower end and a heavy, bounded upper
/// tail.
///
/// # Parameters
/// - `location` α: lower end of the support in seconds, finite.
/// - `scale` β: seconds, above 0 and at most 50 `(upper - location)`.
/// - `upper` Ω: upper end of the support in seconds, finite and above `location`.
///
/// # Conventions
/// With `y = x - α`, `L = Ω - α` and `u = √(β / 2L)`, the density is `√(β / 2π) y^(-3/2) exp(-β / 2y) / erfc(u)` (eqs.
/// 5.1 to 5.3). The mean is `α + β (exp(-u²) / (u √π erfc(u)) - 1)`, eq. 5.4 with `Γ(-1/2, u²)` written out. The
/// variance uses the second moment about α, `β² Γ(-3/2, u²) / (4 √π erfc(u))`, shorter than eq. 5.5 and equal to it.
///
/// In eqs. 5.3 to 5.5 only `w` is negative: `-w = u²`. Eq. 5.8, with coefficients of one or two digits, integrates to
/// 0.84 to 1.11 over the ranges of [`from_sharing`](Self::from_sharing), which therefore uses eqs. 5.7 and the exact
/// normalisation.
///
/// # Source
/// Beard (2015), section 5.1.3.
///
/// ```
/// use isochrony_tune::noise::ModifiedLevy;
///
/// let noise = ModifiedLevy::new(-1e-6, 0.5e-6, 20e-6)?;
/// assert!((noise.cumulative(noise.quantile(0.9)?) - 0.9).abs() < 1e-12);
/// assert!(noise.quantile(0.5)? < noise.mean()); // The upper tail is the heavy one.
/// # Ok::<(), isochrony_tune::TuneError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ModifiedLevy {
    location: f64,
    scale: f64,
    upper: f64,
}

impl ModifiedLevy {
    /// A distribution with these parameters.
    ///
    /// # Errors
    /// [`TuneError::Parameter`] for a value outside the type's ranges.
    pub fn new(location: f64, scale: f64, upper: f64) -> Result<Self, TuneError> {
        const PLACE: &str = "ModifiedLevy::new";
        let unless = TuneError::unless;
        unless(
            location.is_finite(),
            "location",
            location,
            "finite seconds",
            PLACE,
        )?;
        let above = upper.is_finite() && upper > location;
        unless(above, "upper", upper, "finite and above location", PLACE)?;
        let most = MAX_SCALE_PER_WIDTH * (upper - location);
        let allowed = "above 0 and at most 50 (upper - location)";
        unless(scale > 0.0 && scale <= most, "scale", scale, allowed, PLACE)?;
        Ok(Self {
            location,
            scale,
            upper,
        })
    }

    /// The distribution that the dissertation's regression predicts for a kernel (eqs. 5.7a to 5.7c).
    ///
    /// # Parameters
    /// - `processes_per_core`: processes that share a core, 1 to 20.
    /// - `nominal_s`: nominal execution time in seconds, 0.25e-6 to 3.7e-3.
    ///
    /// # Conventions
    /// The regression holds for two machines of 2010 and a fair scheduler; prefer fitting samples.
    ///
    /// # Errors
    /// [`TuneError::Parameter`] outside the ranges.
    ///
    /// ```
    /// use isochrony_tune::noise::ModifiedLevy;
    ///
    /// let noise = ModifiedLevy::from_sharing(4, 1e-3)?;
    /// assert!(noise.location() < 0.0 && noise.upper() > 0.7e-3);
    /// # Ok::<(), isochrony_tune::TuneError>(())
    /// ```
    pub fn from_sharing(processes_per_core: u32, nominal_s: f64) -> Result<Self, TuneError> {
        const PLACE: &str = "ModifiedLevy::from_sharing";
        let shared = (1..=20).contains(&processes_per_core);
        let got = processes_per_core;
        TuneError::unless(shared, "processes_per_core", got, "1 to 20", PLACE)?;
        let measured = (0.25e-6..=3.7e-3).contains(&nominal_s);
        let allowed = "0.25e-6 to 3.7e-3 seconds";
        TuneError::unless(measured, "nominal_s", nominal_s, allowed, PLACE)?;
        let p = f64::from(processes_per_core);
        Self::new(
            4.75e-9 * p - 0.220 * nominal_s,
            4.19e-10 * p + 0.007 * nominal_s,
            3.19e-6 * p + 0.742 * nominal_s,
        )
    }

    /// Lower end α of the support, in seconds.
    pub fn location(&self) -> f64 {
        self.location
    }

    /// Scale β, in seconds.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Upper end Ω of the support, in seconds.
    pub fn upper(&self) -> f64 {
        self.upper
    }

    /// Density at `x` seconds, per second; 0 outside the support.
    pub fn density(&self, x: f64) -> f64 {
        let y = x - self.location;
        if !(y > 0.0 && x <= self.upper) {
            return 0.0;
        }
        let z = self.scale / (2.0 * y);
        // The exponential comes first: near the lower end `y` to the power 3/2 underflows.
        let levy = ((self.scale / (2.0 * PI)).ln() / 2.0 - 1.5 * y.ln() - z).exp();
        levy / self.mass()
    }

    /// Probability of at most `x` seconds, 0 to 1.
    pub fn cumulative(&self, x: f64) -> f64 {
        let y = x - self.location;
        if y <= 0.0 {
            return 0.0;
        }
        if x >= self.upper {
            return 1.0;
        }
        (erfc((self.scale / (2.0 * y)).sqrt()) / self.mass()).min(1.0)
    }

    /// The quantile in seconds.
    ///
    /// # Errors
    /// [`TuneError::Parameter`] unless `probability` is 0 to 1.
    pub fn quantile(&self, probability: f64) -> Result<f64, TuneError> {
        let legal = (0.0..=1.0).contains(&probability);
        let place = "ModifiedLevy::quantile";
        TuneError::unless(legal, "probability", probability, "0 to 1", place)?;
        Ok(self.inverse(probability))
    }

    pub(super) fn inverse(&self, probability: f64) -> f64 {
        let root = erfc_inv(probability * self.mass());
        let y = self.scale / (2.0 * root * root);
        (self.location + y).min(self.upper)
    }

    /// Mean in seconds.
    pub fn mean(&self) -> f64 {
        self.location + self.moments().0
    }

    /// Variance in seconds squared.
    pub fn variance(&self) -> f64 {
        let (first, second) = self.moments();
        second - first * first
    }

    /// Draws values in seconds by inversion, deterministic by seed.
    pub fn samples(&self, count: usize, seed: u64) -> Vec<f64> {
        // Must not correlate with generators of the same or the next seed.
        let mut random = fastrand::Rng::with_seed(fastrand::Rng::with_seed(seed).u64(..));
        (0..count).map(|_| self.inverse(random.f64())).collect()
    }

    fn root(&self) -> f64 {
        (self.scale / (2.0 * (self.upper - self.location))).sqrt()
    }

    /// `erfc` of `statrs` has relative errors of 1e-10, which moments of a narrow support amplify.
    fn mass(&self) -> f64 {
        erfc(self.root())
    }

    fn moments(&self) -> (f64, f64) {
        let u = self.root();
        let mass = self.mass();
        let edge = (-u * u).exp();
        let gamma_half = 2.0 * (edge / u - PI.sqrt() * mass);
        let gamma_three_halves = 2.0 / 3.0 * (edge / (u * u * u) - gamma_half);
        let first = self.scale * gamma_half / (2.0 * PI.sqrt() * mass);
        let second = self.scale.powi(2) * gamma_three_halves / (4.0 * PI.sqrt() * mass);
        (first, second)
    }
}
