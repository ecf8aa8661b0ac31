//! The axis on which rows of two streams are compared.

use std::sync::Arc;

use isochrony_segment::StreamId;
use isochrony_time::{Rate, SampleCount};

use crate::OpError;
use crate::plan::rows::Clock;

/// Where rows are compared: indices, or civil time in ns.
pub(crate) struct Axis {
    clock: Option<Arc<dyn Clock>>,
    /// Axis units per second, and per sample.
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

    /// Unit in messages.
    pub(super) fn unit(&self) -> &'static str {
        match self.clock {
            Some(_) => "ns",
            None => "samples",
        }
    }

    /// Starts and ends on the axis; `i64::MIN` if unknown.
    pub(super) fn ranges(&self, starts: &[i64], ends: &[i64]) -> Result<Vec<(i64, i64)>, OpError> {
        let pairs = starts.iter().zip(ends);
        let Some(clock) = &self.clock else {
            return Ok(pairs.map(|(&start, &end)| (start, end)).collect());
        };
        let mut from = vec![0; starts.len()];
        clock.times(starts, &mut from)?;
        // A row ends one period after its last sample, because the next index may belong to another clock.
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
