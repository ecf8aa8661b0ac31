//! Civil times of resampled samples, interpolated between the original ones.
//!
//! Positions are exact ([`Ratio`]); between two original samples time is linear. After the last sample before a break,
//! the previous step is extrapolated: the next index lies in a gap or another clock run.

use std::sync::Arc;

use isochrony_segment::{Stream, StreamId};
use isochrony_time::{Fixed, Ratio, Stamp};

use super::clock::{Clock, registered};
use crate::Cause;

/// Largest difference of one clock's steps, as a fraction of the period.
const STEP_TOLERANCE: f64 = 1e-3;
/// Largest difference of two steps by rounding to whole ns.
const STEP_ROUNDING_NS: f64 = 2.0;
/// Deviation, as a fraction of the period, that marks a gap or clock step.
const BREAK_DEVIATION: f64 = 0.5;

/// The newest registered clock of a stream, adapted to it.
pub(crate) fn clock_of(stream: StreamId) -> Option<Arc<dyn Clock>> {
    registered(stream).map(|clock| on_grid(clock, stream.get()))
}

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
    /// The step ahead, or the one back if they differ and it is nearer to the period. None at a break.
    fn step<T: Copy>(&self, back: Option<T>, ahead: Option<T>, ns: impl Fn(T) -> f64) -> Option<T> {
        let deviation = |step: T| (ns(step) - self.period_ns).abs();
        match (back, ahead) {
            (Some(back), Some(ahead)) => {
                let differ = (ns(ahead) - ns(back)).abs()
                    > STEP_TOLERANCE * self.period_ns + STEP_ROUNDING_NS;
                Some(if differ && deviation(back) < deviation(ahead) {
                    back
                } else {
                    ahead
                })
            }
            (one, other) => one.or(other),
        }
        .filter(|&step| deviation(step) < BREAK_DEVIATION * self.period_ns)
    }
}

impl Clock for Regrid {
    fn times(&self, indices: &[i64], out: &mut [i64]) -> Result<(), Cause> {
        // Index at or before, and the rest in `up`ths of a sample.
        let positions: Vec<_> = indices
            .iter()
            .map(|&index| self.ratio.place(index))
            .collect();
        let index_at =
            |position: &Option<(i64, u64)>| position.map_or(i64::MAX, |(index, _)| index);
        let known = |time: i64| (time != i64::MIN).then_some(time);
        if positions
            .iter()
            .all(|position| position.is_some_and(|(_, numerator)| numerator == 0))
        {
            let samples: Vec<i64> = positions.iter().map(index_at).collect();
            return self.clock.times(&samples, out);
        }
        let around = positions.iter().map(index_at);
        let around: Vec<i64> = around
            .flat_map(|at| [at.saturating_sub(1), at, at.saturating_add(1)])
            .collect();
        let mut times = vec![0; around.len()];
        self.clock.times(&around, &mut times)?;
        let (times, _) = times.as_chunks::<3>();
        for ((out, position), times) in out.iter_mut().zip(positions).zip(times) {
            let [before, here, after] = times.map(known);
            let difference = |to: Option<i64>, from: Option<i64>| to?.checked_sub(from?);
            let step = self.step(difference(here, before), difference(after, here), |step| {
                step as f64
            });
            let step = step.map_or(self.period_ns, |step| step as f64);
            let time = position.zip(here).map(|((_, numerator), here)| {
                let offset = step * numerator as f64 / self.ratio.up() as f64;
                here.saturating_add(offset.round() as i64)
            });
            *out = time.unwrap_or(i64::MIN);
        }
        Ok(())
    }

    fn first_at(&self, near: i64, time: i64) -> Option<i64> {
        let (sample, _) = self.ratio.place(near)?;
        let sample = self.clock.first_at(sample, time)?;
        // After the sample before, or in a run that begins with this one.
        let mut before = self.ratio.first_from(sample - 1)?;
        let mut reached = self.ratio.first_from(sample)?;
        while before < reached {
            let middle = before + (reached - before) / 2;
            let mut at = [i64::MIN];
            self.times(&[middle], &mut at).ok()?;
            match at[0] >= time {
                true => reached = middle,
                false => before = middle + 1,
            }
        }
        Some(reached)
    }

    fn announced_before(&self, index: i64) -> Option<i64> {
        let (sample, _) = self.ratio.place(index)?;
        let announced = self.clock.announced_before(sample)?;
        // The first resampled index of the new run lies up to a step behind its first sample.
        let step = (1.0 + STEP_TOLERANCE) * self.period_ns / self.ratio.to_f64();
        Some(announced.saturating_add(step.ceil() as i64))
    }

    fn stamp(&self, index: i64) -> Option<Stamp> {
        let (sample, numerator) = self.ratio.place(index)?;
        let stamp = self.clock.stamp(sample)?;
        if numerator == 0 {
            return Some(stamp);
        }
        let time_at = |index: Option<i64>| self.clock.stamp(index?).map(|stamp| stamp.civil);
        let difference = |to: Option<Fixed>, from: Option<Fixed>| to?.checked_sub(from?);
        let here = Some(stamp.civil);
        let back = difference(here, time_at(sample.checked_sub(1)));
        let ahead = difference(time_at(sample.checked_add(1)), here);
        let step = self.step(back, ahead, Fixed::to_f64);
        let step = step.or_else(|| Fixed::from_f64_nearest(self.period_ns).ok())?;
        let offset = step.checked_mul_ratio(numerator.cast_signed(), self.ratio.up())?;
        Some(Stamp {
            civil: stamp.civil.checked_add(offset)?,
            ..stamp
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isochrony_time::{Rate, TimebaseId};

    /// 1000 Hz, 100 ppm fast. Index 100 follows a gap of other duration than length; at 200 the clock was set back.
    struct SteppedClock;

    impl SteppedClock {
        fn at(index: i64) -> f64 {
            let (run_start, start_ns) = match index {
                ..100 => (0, 0.0),
                100..200 => (100, 5e9),
                _ => (200, 1e9),
            };
            start_ns + (index - run_start) as f64 * 999_900.0
        }
    }

    impl Clock for SteppedClock {
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
        let clock = on_grid(Arc::new(SteppedClock), &Stream::new("b", timebase, rate));
        let (indices, positions): ([i64; 6], [f64; 6]) = (
            [0, 1, 132, 133, 134, 266],
            [0.0, 0.75, 99.0, 99.75, 100.5, 199.5],
        );
        let mut times = [0; 6];
        clock.times(&indices, &mut times).unwrap();
        for ((index, position), time) in indices.into_iter().zip(positions).zip(times) {
            let want = SteppedClock::at(position as i64) + position.fract() * 999_900.0;
            assert!((time as f64 - want).abs() <= 1.0, "{index}: {time} {want}");
            let stamp = clock.stamp(index).unwrap().civil.to_f64();
            assert!((stamp - want).abs() <= 1.0, "{index}: {stamp} {want}");
        }
    }
}
