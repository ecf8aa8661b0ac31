//! Samples at another rate, on a grid that belongs to the ratio and not to a recording.
//!
//! Sample `j` of what comes out lies at index `j * down / up` of what goes in ([`Ratio`]), whatever stretch that index is
//! in and wherever computing begins. So the same samples come of any range, on any worker, and where they lie is one exact
//! map. Each is a sum over the samples around its place, weighted by a lowpass that ends where the lower rate's half
//! begins: a sinc under a Kaiser window, of even length, centred on the place, so nothing is delayed.
//!
//! - [`design`] turns a [`Quality`] into weights: a row for each of the `up` phases, or, where there were too many, cubics
//!   between rows, exact to the quality. Each row adds up to 1, so that constants stay what they are.
//! - [`split`] does large ratios in stages: coarse ones far from the edge of what passes, where few weights are enough.
//! - [`kernels`] are the sums, in [`vectors`], [`Stage`](stage::Stage) keeps the samples that are still needed, [`Resampler`] is a
//!   chain of stages.
//!
//! Weights are computed in double precision and applied in that of the samples. A sum runs in a fixed order over the
//! samples around its place: the same bits for any chunking and on every instruction set.

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

/// How near to ideal the lowpass is.
///
/// Frequencies up to `passband` of half the lower rate pass within `10^(-attenuation_db / 20)` of 1; from that half on
/// they are weakened by `attenuation_db`, so that what aliases or mirrors lies below. Samples that each result is of:
/// about `(attenuation_db - 8) / (7.2 * (1 - passband))` at the lower rate, 128 by default.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quality {
    /// What stops is weakened by so many dB, 20 to 160.
    pub attenuation_db: f64,
    /// What passes, as a part of half the lower rate: 0.05 to 0.99.
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
            return refused("attenuation_db", self.attenuation_db, "20 to 160 dB");
        }
        if !(0.05..=0.99).contains(&self.passband) {
            let allowed = "0.05 to 0.99 of half the lower rate";
            return refused("passband", self.passband, allowed);
        }
        Ok(self)
    }
}

/// What a result near the end of a stretch is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Edges {
    /// There is none unless all samples that it needs lie in the stretch: nothing is made up.
    #[default]
    Inside,
    /// Zeros lie outside; a result for each place in the stretch.
    Zeros,
    /// The first and the last sample go on; a result for each place in the stretch.
    Steady,
}
