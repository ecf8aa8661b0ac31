//! [`MeanRate`]: how fast a run's samples came, over all of it.

use crate::clock::{FLOOR_SLOPE, prior_reach};
use crate::{Empirical, Fixed, Piece, Rate, RunId, TimeError};

/// A run's mean rate: its samples over the true time that they took.
///
/// What [`crate::Clock::rate`] gives is another quantity: the rate that the
/// clock has *now*, which sizes the next gap. Clocks wander, so neither stands
/// for the other.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MeanRate {
    /// Samples per second.
    pub hz: f64,
    /// Half-width around `hz` that holds the true mean in 99 % of cases or
    /// more, parts per million.
    pub uncertainty_ppm: f64,
}

impl Empirical {
    /// Mean rate of a run; `None` for an unknown one, or one that still grows
    /// ([`Empirical::closed_at`] ends it).
    ///
    /// Samples over civil time, both summed over the run's gap-free stretches:
    /// the time of a gap is nobody's. A stretch's duration is as uncertain as
    /// its two ends together, plus what a piece between them is more uncertain
    /// than they are: a step that was bridged within the slip is time that no
    /// sample took. Clocks are within 350 ppm of `nominal` (the estimator
    /// supposes so, too): a greater uncertainty would say nothing and is cut to
    /// that, unless the stamps contradict it.
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
        let half = (uncertain_ns / ns).min(reach).max(FLOOR_SLOPE);
        Ok(Some(MeanRate {
            hz,
            uncertainty_ppm: half * 1e6,
        }))
    }
}
