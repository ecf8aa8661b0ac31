//! Civil times of resampled samples, interpolated between the original ones.
//!
//! Positions are exact ([`Ratio`]); between two original samples time is linear. After the last sample before a break
//! the next index lies in a gap or has another clock: there the step before it is extrapolated.

use std::sync::Arc;

use isochrony_segment::Stream;
use isochrony_time::{Fixed, Ratio, Stamp};

use super::Clock;
use crate::Cause;

/// Largest difference between steps of one clock, as a fraction of the period.
const STEP_TOLERANCE: f64 = 1e-3;

/// Adapts a recording's clock to its stream, or one resampled from it.
pub(crate) fn on_grid(clock: Arc<dyn Clock>, stream: &Stream) -> Arc<dyn Clock> {
    let (_, ratio) = stream.timebase.origin();
    if ratio.is_one() {
        return clock;
    }
    Arc::new(Regrid {
        clock,
        ratio,
        period_ns: 1e9 * ratio.to_f64() / stream.rate.to_f64(),
    })
}

struct Regrid {
    clock: Arc<dyn Clock>,
    ratio: Ratio,
    /// Of the original stream.
    period_ns: f64,
}

impl Regrid {
    /// The step ahead of a sample, unless it differs and the one back is nearer to the period.
    fn step<T: Copy>(&self, back: Option<T>, ahead: Option<T>, ns: impl Fn(T) -> f64) -> Option<T> {
        let off = |step: T| (ns(step) - self.period_ns).abs();
        match (back, ahead) {
            (Some(back), Some(ahead)) => {
                let differ = (ns(ahead) - ns(back)).abs() > STEP_TOLERANCE * self.period_ns + 2.0;
                Some(if differ && off(back) < off(ahead) {
                    back
                } else {
                    ahead
                })
            }
            (one, other) => one.or(other),
        }
        // A step far from the period is a gap or a clock step.
        .filter(|&step| off(step) < 0.5 * self.period_ns)
    }
}

impl Clock for Regrid {
    fn times(&self, indices: &[i64], out: &mut [i64]) -> Result<(), Cause> {
        let places: Vec<_> = indices
            .iter()
            .map(|&index| self.ratio.place(index))
            .collect();
        let near = |at: &Option<(i64, u64)>| at.map_or(i64::MAX, |(at, _)| at);
        let known = |time: i64| (time != i64::MIN).then_some(time);
        if places
            .iter()
            .all(|place| place.is_some_and(|(_, part)| part == 0))
        {
            let samples: Vec<i64> = places.iter().map(near).collect();
            return self.clock.times(&samples, out);
        }
        let around = places.iter().map(near);
        let around: Vec<i64> = around
            .flat_map(|at| [at.saturating_sub(1), at, at.saturating_add(1)])
            .collect();
        let mut times = vec![0; around.len()];
        self.clock.times(&around, &mut times)?;
        let (times, _) = times.as_chunks::<3>();
        for ((out, place), times) in out.iter_mut().zip(places).zip(times) {
            let [before, here, after] = times.map(known);
            let from = |to: Option<i64>, at: Option<i64>| to?.checked_sub(at?);
            let step = self.step(from(here, before), from(after, here), |step| step as f64);
            let step = step.map_or(self.period_ns, |step| step as f64);
            let at = place.zip(here).map(|((_, part), here)| {
                let behind = step * part as f64 / self.ratio.up() as f64;
                here.saturating_add(behind.round() as i64)
            });
            *out = at.unwrap_or(i64::MIN);
        }
        Ok(())
    }

    fn stamp(&self, index: i64) -> Option<Stamp> {
        let (at, part) = self.ratio.place(index)?;
        let stamp = self.clock.stamp(at)?;
        if part == 0 {
            return Some(stamp);
        }
        let near = |index: Option<i64>| self.clock.stamp(index?).map(|stamp| stamp.civil);
        let from = |to: Option<Fixed>, at: Option<Fixed>| to?.checked_sub(at?);
        let here = Some(stamp.civil);
        let back = from(here, near(at.checked_sub(1)));
        let ahead = from(near(at.checked_add(1)), here);
        let step = self.step(back, ahead, Fixed::to_f64);
        let step = step.or_else(|| Fixed::from_f64_nearest(self.period_ns).ok())?;
        let behind = step.checked_mul_ratio(part.cast_signed(), self.ratio.up())?;
        Some(Stamp {
            civil: stamp.civil.checked_add(behind)?,
            ..stamp
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isochrony_time::{Rate, TimebaseId};

    /// 1000 Hz, 100 ppm fast; a gap from 100 on of another duration, and a clock that was set at 200.
    struct Broken;

    impl Broken {
        fn at(index: i64) -> f64 {
            let (from, begins) = match index {
                ..100 => (0, 0.0),
                100..200 => (100, 5e9),
                _ => (200, 1e9),
            };
            begins + (index - from) as f64 * 999_900.0
        }
    }

    impl Clock for Broken {
        fn times(&self, indices: &[i64], out: &mut [i64]) -> Result<(), Cause> {
            let pairs = out.iter_mut().zip(indices);
            pairs.for_each(|(out, &index)| *out = Self::at(index) as i64);
            Ok(())
        }
    }

    #[test]
    fn times_between_samples_are_those_of_their_own_clock_also_at_its_ends() {
        let ratio = Ratio::new(4, 3).unwrap();
        let rate = Rate::new(4000, 3).unwrap();
        let timebase = TimebaseId(9).resampled(ratio).unwrap();
        let clock = on_grid(Arc::new(Broken), &Stream::new("b", timebase, rate));
        // Places 0, 0.75, 99, 99.75 (the next index is behind the gap), 100.5, 199.5 (behind which the clock was
        // set).
        let (indices, places): ([i64; 6], [f64; 6]) = (
            [0, 1, 132, 133, 134, 266],
            [0.0, 0.75, 99.0, 99.75, 100.5, 199.5],
        );
        let mut times = [0; 6];
        clock.times(&indices, &mut times).unwrap();
        for ((index, place), time) in indices.into_iter().zip(places).zip(times) {
            let want = Broken::at(place as i64) + place.fract() * 999_900.0;
            assert!((time as f64 - want).abs() <= 1.0, "{index}: {time} {want}");
            let stamp = clock.stamp(index).unwrap().civil.to_f64();
            assert!((stamp - want).abs() <= 1.0, "{index}: {stamp} {want}");
        }
    }
}
