//! Conversions between a signal's indices and civil time.

use std::sync::Arc;

use isochrony_time::{Empirical, Fixed, IndexAt, Lookup, Prefer, Round, RunId, Time, TimebaseId};

use super::Signal;
use crate::clock;
use crate::corrections::corrected_clock;
use crate::error::{StoreError, overflow};
use crate::op::RunRow;

impl Signal {
    /// Corrected metric from indices to civil time, if any; computed on first use.
    ///
    /// # Errors
    /// [`StoreError::Time`] if the stored fit is invalid, [`StoreError::NewerFormat`] for a correction of a newer
    /// version.
    pub fn empirical(&self) -> Result<Option<&Arc<Empirical>>, StoreError> {
        if let Some(civil) = self.civil.get() {
            return Ok(civil.as_ref());
        }
        let built = match self.is_as_recorded {
            true => clock::empirical(&self.state)?,
            false => corrected_clock::empirical(&self.state)?,
        };
        // Times carry their run's timebase: run 1 of another signal is another clock.
        let built = built.map(|civil| Arc::new(civil.with_timebase(self.timebase())));
        Ok(self.civil.get_or_init(|| built).as_ref())
    }

    pub(super) fn civil(&self) -> Result<&Empirical, StoreError> {
        let civil = self.empirical()?.map(|civil| &**civil);
        civil.ok_or_else(|| self.no_civil_time())
    }

    fn no_civil_time(&self) -> StoreError {
        StoreError::NoCivilTime {
            signal: self.name().into(),
        }
    }

    /// Civil time of a sample, extrapolated beyond the ends, with its run and whether it is in a gap.
    ///
    /// # Errors
    /// [`StoreError::NoCivilTime`], [`StoreError::Time`] on overflow.
    pub fn time_of(&self, index: i64) -> Result<Time, StoreError> {
        let civil = self.civil()?;
        if !self
            .state
            .runs
            .at(index)
            .is_none_or(|run| self.is_timed(run))
        {
            return Err(self.no_civil_time());
        }
        let mut time = civil.time_of(index)?;
        time.in_gap |= self.state.gaps.at(index).is_some();
        Ok(time)
    }

    /// The run before must not be extrapolated into a run without stamps.
    fn is_timed(&self, run: RunRow) -> bool {
        self.state.fit.last_of_run(run.id).is_some()
    }

    /// Civil time of a sample's end: its start plus one period of its clock.
    ///
    /// # Errors
    /// As [`time_of`](Self::time_of).
    pub fn end_of_sample(&self, index: i64) -> Result<Fixed, StoreError> {
        let start = self.time_of(index)?.value;
        let period = self.state.meta.expected_rate().duration_ns(1)?;
        start
            .checked_add(period)
            .ok_or_else(|| overflow("end of a sample"))
    }

    /// Index of a time in any timebase of the store; a civil time by the fit.
    ///
    /// # Errors
    /// [`StoreError::NoCivilTime`], [`StoreError::Time`]: ambiguous after a backward step unless `prefer` is given, not
    /// on a sample with [`Round::Exact`], unknown timebase.
    pub fn index_of(
        &self,
        time: &Time,
        round: Round,
        prefer: Option<Prefer>,
    ) -> Result<IndexAt, StoreError> {
        let mut at = self
            .civil()?
            .index_of_time(time, Lookup { round, prefer })?;
        at.in_gap |= self.state.gaps.at(at.index).is_some();
        Ok(at)
    }

    /// Extrapolated beyond the run's ends.
    pub(crate) fn index_in_run(&self, run: &RunRow, civil: Fixed) -> Result<i64, StoreError> {
        let lookup = Lookup {
            round: Round::Nearest,
            prefer: Some(Prefer::Run(RunId(run.id))),
        };
        Ok(self.civil()?.index_of(civil, lookup)?.index)
    }

    /// First index, or the end, of the run of `near` with civil time, to the nearest ns, at or after `civil_ns`. The
    /// last run is extrapolated. `None` without civil time.
    ///
    /// # Errors
    /// [`StoreError::Time`] on overflow.
    pub fn first_index_at(&self, near: i64, civil_ns: i64) -> Result<Option<i64>, StoreError> {
        let runs = &self.state.runs;
        let run = runs.at(near).filter(|run| self.is_timed(*run));
        let (Some(run), Some(_)) = (run, self.empirical()?) else {
            return Ok(None);
        };
        let is_last = runs.last().is_some_and(|last| last.id == run.id);
        let end = if is_last { i64::MAX } else { run.end };
        let nearest = self.index_in_run(&run, Fixed::from_int(civil_ns))?;
        let mut index = nearest.clamp(run.start, end);
        let is_reached = |index| {
            let time = self.time_of(index)?.value.round_i64();
            Ok::<_, StoreError>(time.is_none_or(|time| time >= civil_ns))
        };
        // It is at most one off.
        if index < end && !is_reached(index)? {
            index += 1;
        } else if index > run.start && is_reached(index - 1)? {
            index -= 1;
        }
        Ok(Some(index))
    }

    /// Timebase of this signal's indices only.
    #[must_use]
    pub fn timebase(&self) -> TimebaseId {
        self.stream().get().timebase
    }

    /// Civil times, whole ns, of indices from `start` in steps of `step`.
    ///
    /// # Errors
    /// [`StoreError::NoCivilTime`], [`StoreError::Time`] outside the years 1677 to 2262.
    pub fn civil_grid_ns(&self, start: i64, step: i64, out: &mut [i64]) -> Result<(), StoreError> {
        Ok(self.civil()?.civil_ns_grid(start, step, out)?)
    }

    /// Civil times of many indices.
    ///
    /// # Errors
    /// As [`time_of`](Self::time_of).
    pub fn civil_many(&self, indices: &[i64], out: &mut [Fixed]) -> Result<(), StoreError> {
        let civil = self.civil()?;
        let runs = &self.state.runs;
        if !runs.iter().all(|run| self.is_timed(run)) {
            let mut at = indices.iter().filter_map(|index| runs.at(*index));
            if !at.all(|run| self.is_timed(run)) {
                return Err(self.no_civil_time());
            }
        }
        Ok(civil.civil_many(indices, out)?)
    }

    /// Indices of many civil times.
    ///
    /// # Errors
    /// As [`index_of`](Self::index_of).
    pub fn index_many(
        &self,
        civil: &[Fixed],
        lookup: Lookup,
        out: &mut Vec<IndexAt>,
    ) -> Result<(), StoreError> {
        Ok(self.civil()?.index_many(civil, lookup, out)?)
    }
}
