//! Runs of a signal, and times of its gaps.

use isochrony_time::{Fixed, MeanRate, RunId};

use super::Signal;
use crate::error::StoreError;
use crate::op::{RunReason, RunRow};
use crate::state::Gap;

/// One clock between two clock steps.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Run {
    /// Unique in the signal, in order of storing.
    pub id: RunId,
    /// First index.
    pub start: i64,
    /// One past the last index.
    pub end: i64,
    /// Why it began.
    pub reason: RunReason,
    /// Civil time of its first index and after its last, if known.
    pub civil: Option<(Fixed, Fixed)>,
    /// True mean rate over the run, without later clock changes, if it has civil time.
    pub rate: Option<MeanRate>,
    /// Half-width of the interval that contains the true civil time, ns; the largest of the run's pieces.
    pub uncertainty_ns: Option<f64>,
}

/// Civil times of a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GapTimes {
    /// End of the sample before.
    pub start: Fixed,
    /// Time of the sample after.
    pub end: Fixed,
}

impl GapTimes {
    /// Duration in ns.
    #[must_use]
    pub fn duration_ns(&self) -> Fixed {
        self.end.checked_sub(self.start).unwrap_or(Fixed::ZERO)
    }
}

impl Signal {
    /// Times of a gap; `None` without civil time.
    ///
    /// # Errors
    /// [`StoreError::Time`].
    pub fn gap_times(&self, gap: Gap) -> Result<Option<GapTimes>, StoreError> {
        if self.empirical()?.is_none() {
            return Ok(None);
        }
        let start = match gap.start.checked_sub(1).filter(|last| *last >= 0) {
            Some(last) if self.run_at(last) == self.run_at(gap.start) => {
                self.end_of_sample(last)?
            }
            _ => self.time_of(gap.start)?.value,
        };
        let end = if gap.end() < self.state.end && self.run_at(gap.end()) == self.run_at(gap.start)
        {
            self.time_of(gap.end())?.value
        } else {
            self.end_of_sample(gap.end() - 1)?
        };
        Ok(Some(GapTimes { start, end }))
    }

    /// The runs by index.
    ///
    /// # Errors
    /// [`StoreError::Time`].
    pub fn runs(&self) -> Result<Vec<Run>, StoreError> {
        self.state
            .runs
            .iter()
            .map(|run| self.describe(run))
            .collect()
    }

    fn describe(&self, run: RunRow) -> Result<Run, StoreError> {
        let known = self.state.fit.of_run(run.id).next().is_some();
        let civil = if known && run.start < run.end {
            Some((
                self.time_of(run.start)?.value,
                self.end_of_sample(run.end - 1)?,
            ))
        } else {
            None
        };
        let rate = self.mean_rate(RunId(run.id))?;
        let uncertainty_ns = match self.empirical()? {
            Some(civil) if known => civil.run_uncertainty_ns(RunId(run.id)),
            _ => None,
        };
        Ok(Run {
            id: RunId(run.id),
            start: run.start,
            end: run.end,
            reason: run.reason,
            civil,
            rate,
            uncertainty_ns,
        })
    }

    fn mean_rate(&self, run: RunId) -> Result<Option<MeanRate>, StoreError> {
        let Some(civil) = self.empirical()? else {
            return Ok(None);
        };
        Ok(civil.mean_rate(run, self.state.meta.expected_rate())?)
    }

    /// Mean rate of the run with the lowest uncertainty. `None` without civil time.
    ///
    /// # Errors
    /// [`StoreError::Time`].
    pub fn true_rate(&self) -> Result<Option<MeanRate>, StoreError> {
        let mut best: Option<MeanRate> = None;
        for run in self.state.runs.iter() {
            let Some(rate) = self.mean_rate(RunId(run.id))? else {
                continue;
            };
            if best.is_none_or(|best| rate.uncertainty_ppm < best.uncertainty_ppm) {
                best = Some(rate);
            }
        }
        Ok(best)
    }
}
