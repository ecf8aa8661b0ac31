//! [`MeanRate`]: the mean sample rate of a run.

use crate::clock::{MIN_SLOPE_UNCERTAINTY, prior_reach};
use crate::{Empirical, Fixed, Piece, Rate, RunId, TimeError};

/// A run's samples over their true duration.
///
/// [`crate::Clock::rate`] is the *current* rate; clocks wander.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MeanRate {
    /// Samples per second.
    pub hz: f64,
    /// Half-width around `hz` that holds the true mean in at least 99 % of cases, ppm.
    pub uncertainty_ppm: f64,
}

impl Empirical {
    /// Mean rate of a run; `None` if unknown or still growing ([`Empirical::closed_at`] ends it).
    ///
    /// Gaps do not count. A contiguous range is as uncertain as both ends, plus the excess uncertainty of pieces
    /// between (bridged steps). Larger uncertainties are cut to 350 ppm about `nominal`, unless the stamps contradict
    /// it.
    ///
    /// # Errors
    /// [`TimeError::Overflow`].
    pub fn mean_rate(&self, run: RunId, nominal: Rate) -> Result<Option<MeanRate>, TimeError> {
        let overflow = || TimeError::Overflow {
            what: "duration of a run",
        };
        let pieces: Vec<&Piece> = self.pieces_of(run).collect();
        let (mut samples, mut ns, mut uncertain_ns) = (0.0, 0.0, 0.0);
        for stretch in pieces.chunk_by(|a, b| a.end == Some(b.index)) {
            let (first, last) = (stretch[0], stretch[stretch.len() - 1]);
            let Some(end) = last.end else {
                return Ok(None);
            };
            let after = last.civil_at(Fixed::from_int(end))?;
            let took = after.checked_sub(first.civil).ok_or_else(overflow)?;
            samples += (i128::from(end) - i128::from(first.index)) as f64;
            ns += took.to_f64();
            let worst = first.uncertainty_ns.max(last.uncertainty_ns);
            let within = stretch.iter().map(|p| (p.uncertainty_ns - worst).max(0.0));
            uncertain_ns += first.uncertainty_ns + last.uncertainty_ns + within.sum::<f64>();
        }
        if ns <= 0.0 {
            return Ok(None);
        }
        let hz = samples / ns * 1e9;
        let reach = prior_reach(hz / nominal.to_f64() - 1.0).unwrap_or(f64::INFINITY);
        let half = (uncertain_ns / ns).min(reach).max(MIN_SLOPE_UNCERTAINTY);
        Ok(Some(MeanRate {
            hz,
            uncertainty_ppm: half * 1e6,
        }))
    }
}
