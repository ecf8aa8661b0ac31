//! Resampling on a grid that depends on the ratio, not on the recording.
//!
//! Output sample `j` lies at input index `j * down / up` ([`Ratio`]), wherever computing starts: any range on any
//! worker gives the same samples. Each is a sum weighted by a Kaiser-windowed sinc of even length that stops at half
//! the lower rate, without delay.
//!
//! - `design` computes weights from a [`Quality`]: a row per phase, or cubics between rows if there are too many.
//! - `split` divides large ratios into stages: coarse ones with wide transitions need few weights.
//! - `kernels` computes sums with `vectors`; `Stage` buffers samples; [`Resampler`] chains stages.
//!
//! Weights are computed in f64 and applied in the samples' precision, in a fixed order: the same bits for any chunking
//! and instruction set.

mod design;
mod kernels;
mod resampler;
mod split;
mod stage;
mod vectors;
#[cfg(target_arch = "x86_64")]
mod vectors_x86;

pub use isochrony_time::Ratio;
pub use resampler::Resampler;

use crate::DspError;
use crate::filter::parameter_error;

/// Quality of the lowpass.
///
/// Up to `passband` of half the lower rate, gain is within `10^(-attenuation_db / 20)` of 1; from that half on,
/// frequencies, aliases and images are attenuated by `attenuation_db`. Samples per result: about `(attenuation_db - 8)
/// / (7.2 * (1 - passband))` at the lower rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quality {
    /// Stopband attenuation in dB, 20 to 160.
    pub attenuation_db: f64,
    /// Passband as a fraction of half the lower rate: 0.05 to 0.99.
    pub passband: f64,
}

impl Default for Quality {
    fn default() -> Self {
        Self {
            attenuation_db: 100.0,
            passband: 0.9,
        }
    }
}

impl Quality {
    fn check(self, operator: &'static str) -> Result<Self, DspError> {
        let refused = |parameter, value: f64, allowed| {
            Err(parameter_error(
                operator,
                parameter,
                value.to_string(),
                allowed,
            ))
        };
        if !(20.0..=160.0).contains(&self.attenuation_db) {
            return refused("attenuation_db", self.attenuation_db, "from 20 to 160 dB");
        }
        if !(0.05..=0.99).contains(&self.passband) {
            let allowed = "from 0.05 to 0.99 of half the lower rate";
            return refused("passband", self.passband, allowed);
        }
        Ok(self)
    }
}

/// Results near the ends of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Edges {
    /// Only those with all samples in the range.
    #[default]
    Inside,
    /// One per position, with zeros outside.
    Zeros,
    /// One per position, with the nearest sample outside.
    Steady,
}
