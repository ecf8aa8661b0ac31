//! [`Metric`]: the maps between two timebases.

use std::sync::Arc;

use crate::{
    Derived, Empirical, Exact, Fixed, PointMetric, Prefer, Range, Time, TimeError, TimebaseId,
};

/// A map between two timebases.
#[derive(Clone, PartialEq, Debug)]
pub enum Metric {
    /// Rational and linear.
    Derived(Derived),
    /// Sample index to civil time.
    Empirical(Arc<Empirical>),
    /// Fitted to pairs of points.
    Points(Arc<PointMetric>),
}

#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) from: TimebaseId,
    pub(crate) to: TimebaseId,
    pub(crate) metric: Metric,
}

impl Edge {
    pub(crate) fn other(&self, id: TimebaseId) -> TimebaseId {
        if id == self.from { self.to } else { self.from }
    }

    pub(crate) fn apply(&self, time: &Time<Exact>) -> Result<Time<Exact>, TimeError> {
        let forward = time.timebase == self.from;
        let timebase = if forward { self.to } else { self.from };
        match &self.metric {
            Metric::Derived(map) => {
                let value = if forward {
                    map.forward_exact(&time.value)
                } else {
                    map.backward_exact(&time.value)
                };
                Ok(Time {
                    timebase,
                    ..time.with(value)
                })
            }
            Metric::Points(metric) => {
                let value = match forward {
                    true => metric.forward_exact(&time.value)?,
                    false => metric.backward_exact(&time.value)?,
                };
                Ok(Time {
                    timebase,
                    ..time.with(value)
                })
            }
            Metric::Empirical(metric) if forward => {
                let at = metric.time_of_exact(&time.value)?;
                let in_gap = time.in_gap || at.in_gap;
                Ok(Time {
                    timebase,
                    in_gap,
                    origin: Some(self.from),
                    ..at
                })
            }
            Metric::Empirical(metric) => {
                let run = time.run.filter(|_| time.origin == Some(self.from));
                let prefer = run.map(Prefer::Run);
                // Lines begin and end at rounded times: rounding down finds the right one.
                let span = metric.civil_span(time.value.floor_fixed()?, prefer)?;
                let in_gap = time.in_gap || span.in_gap;
                let value = span.line.position_exact(&time.value)?;
                let (run, origin) = (Some(span.run), Some(self.from));
                Ok(Time {
                    value,
                    timebase,
                    run,
                    in_gap,
                    origin,
                })
            }
        }
    }

    /// The end of an index range belongs to the samples before it.
    pub(crate) fn apply_range(&self, range: &Range<Exact>) -> Result<Range<Exact>, TimeError> {
        let (start, mut end) = (self.apply(&range.start)?, self.apply(&range.end)?);
        match &self.metric {
            Metric::Derived(map) if map.num() < 0 => return Range::new(end, start),
            Metric::Points(metric) if !metric.rises() => return Range::new(end, start),
            Metric::Empirical(metric)
                if range.timebase() == self.from && range.start.value < range.end.value =>
            {
                let at = metric.end_of_exact(&range.end.value)?;
                (end.value, end.run) = (at.value, at.run);
                end.in_gap = range.end.in_gap || at.in_gap;
            }
            _ => {}
        }
        Range::new(start, end)
    }

    /// `half` is the half-width of `time`.
    pub(crate) fn apply_with_uncertainty(
        &self,
        time: &Time<Exact>,
        half: f64,
    ) -> Result<(Time<Exact>, f64), TimeError> {
        let after = self.apply(time)?;
        let forward = time.timebase == self.from;
        let half = match &self.metric {
            Metric::Derived(map) => {
                let slope = (map.num() as f64 / map.den() as f64).abs();
                if forward { half * slope } else { half / slope }
            }
            Metric::Points(metric) => {
                let value = time.value.to_fixed()?;
                match forward {
                    true => half * metric.rate(value).abs() + metric.uncertainty(value),
                    false => {
                        let slope = metric.rate(after.value.to_fixed()?).abs();
                        half / slope + metric.uncertainty_back(value)?
                    }
                }
            }
            Metric::Empirical(metric) => {
                let index = if forward { &time.value } else { &after.value };
                let index = index.floor_i64();
                let index = index.ok_or(TimeError::Overflow { what: "index" })?;
                let (own, slope) = metric.uncertainty_and_slope(index)?;
                match forward {
                    true => half * slope + own,
                    false => (half + own) / slope,
                }
            }
        };
        Ok((after, half))
    }

    /// Also gives the tolerance from rounding and uncertainty.
    pub(crate) fn apply_with_slack(
        &self,
        time: Time<Exact>,
        slack: f64,
    ) -> Result<(Time<Exact>, f64), TimeError> {
        const ROUNDING: f64 = 4.0 / (1u64 << 32) as f64;
        let forward = time.timebase == self.from;
        let (slope, own) = match &self.metric {
            Metric::Points(_) => {
                let (after, half) = self.apply_with_uncertainty(&time, slack)?;
                return Ok((after, half + ROUNDING));
            }
            Metric::Derived(map) => ((map.num() as f64 / map.den() as f64).abs(), 0.0),
            Metric::Empirical(metric) => {
                let worst =
                    |f: fn(&crate::Piece) -> f64| metric.pieces().iter().map(f).fold(0.0, f64::max);
                (worst(|p| p.ns_per_sample()), worst(|p| p.uncertainty_ns))
            }
        };
        let slack = if forward {
            slack * slope + own
        } else {
            (slack + own) / slope
        };
        Ok((self.apply(&time)?, slack + ROUNDING))
    }

    /// Values of `from` for comparison with another path.
    pub(crate) fn probes(&self) -> Vec<Fixed> {
        match &self.metric {
            // The far one shows small slope errors.
            Metric::Derived(_) => [0, 1 << 40, -(1 << 40)].map(Fixed::from_int).to_vec(),
            Metric::Points(metric) => metric.knots().map(|(from, _)| from).take(1000).collect(),
            Metric::Empirical(metric) => {
                let ends = metric.runs().iter().take(1000);
                ends.flat_map(|r| [Some(r.index), r.end.map(|e| e - 1)])
                    .flatten()
                    .map(Fixed::from_int)
                    .collect()
            }
        }
    }
}
