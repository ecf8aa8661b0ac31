//! The axis on which rows are compared.

use std::sync::Arc;

use isochrony_segment::StreamId;
use isochrony_time::{Rate, SampleCount};

use crate::plan::rows::Clock;
use crate::{Length, OpError};

pub(crate) struct Axis {
    clock: Option<Arc<dyn Clock>>,
    /// Axis units per second and per sample.
    second: Option<Rate>,
    sample: f64,
}

impl Axis {
    pub(crate) fn index(stream: StreamId) -> Self {
        Self {
            clock: None,
            second: Some(stream.get().rate),
            sample: 1.0,
        }
    }

    pub(crate) fn civil(stream: StreamId, clock: Arc<dyn Clock>) -> Self {
        Self {
            clock: Some(clock),
            second: Rate::from_hz(1_000_000_000).ok(),
            sample: 1e9 / stream.get().rate.to_f64(),
        }
    }

    pub(super) fn units_in(&self, seconds: f64) -> i64 {
        let units = self
            .second
            .and_then(|rate| rate.samples_in_seconds(seconds).ok());
        let units = units.and_then(SampleCount::floor);
        units
            .and_then(|units| i64::try_from(units).ok())
            .unwrap_or(i64::MAX)
    }

    /// Rounds to whole axis units; None beyond 63 bits.
    pub(crate) fn units(&self, length: Length) -> Option<i64> {
        let units = length.samples(self.second?)?;
        i64::try_from(units).ok()
    }

    /// Positions of indices; `i64::MIN` if unknown.
    pub(crate) fn positions(&self, indices: &[i64]) -> Result<Vec<i64>, OpError> {
        let Some(clock) = &self.clock else {
            return Ok(indices.to_vec());
        };
        let mut times = vec![0; indices.len()];
        clock.times(indices, &mut times)?;
        Ok(times)
    }

    /// What begins before this place is late in the run of an index; `i64::MIN`: nothing.
    pub(super) fn announced_before(&self, index: i64) -> i64 {
        let announced = self.clock.as_ref();
        let announced = announced.and_then(|clock| clock.announced_before(index));
        announced.unwrap_or(i64::MIN)
    }

    /// First index at or after a position, in the run of `near`. None if unknown.
    pub(crate) fn first_at(&self, near: i64, position: i64) -> Option<i64> {
        match &self.clock {
            Some(clock) => clock.first_at(near, position),
            None => Some(position),
        }
    }

    pub(crate) fn is_civil(&self) -> bool {
        self.clock.is_some()
    }

    pub(crate) fn unit(&self) -> &'static str {
        match self.clock {
            Some(_) => "ns",
            None => "samples",
        }
    }

    /// Starts and ends on the axis; `i64::MIN` if unknown.
    pub(crate) fn ranges(&self, starts: &[i64], ends: &[i64]) -> Result<Vec<(i64, i64)>, OpError> {
        let pairs = starts.iter().zip(ends);
        let Some(clock) = &self.clock else {
            return Ok(pairs.map(|(&start, &end)| (start, end)).collect());
        };
        let from = self.positions(starts)?;
        // A row ends one period after its last sample: the next index may be of another clock.
        let last: Vec<i64> = pairs.map(|(&start, &end)| (end - 1).max(start)).collect();
        let mut to = vec![0; last.len()];
        clock.times(&last, &mut to)?;
        let period = self.sample.round() as i64;
        let one = |(((&from, &to), &start), &end): (((&i64, &i64), &i64), &i64)| match end > start {
            true if to == i64::MIN => (from, to),
            true => (from, to.saturating_add(period)),
            false => (from, from),
        };
        Ok(from
            .iter()
            .zip(&to)
            .zip(starts)
            .zip(ends)
            .map(one)
            .collect())
    }
}
