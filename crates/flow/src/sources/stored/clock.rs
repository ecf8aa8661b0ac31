//! Clock of a stored signal at the commit of the last pass.

use std::sync::{PoisonError, RwLock};

use isochrony_store::{Signal, StoreError};
use isochrony_time::{Fixed, Stamp, TimeError};

use crate::{Cause, Clock};

/// Signal of the last pass; replaced when the next begins.
#[derive(Debug)]
pub(crate) struct StoredClock(pub(crate) RwLock<Signal>);

const LOOKUP_LEN: usize = 1 << 12;

impl Clock for StoredClock {
    fn stamp(&self, index: i64) -> Option<Stamp> {
        let signal = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let time = signal.time_of(index).ok()?;
        Some(Stamp::new(time.value, Fixed::ZERO))
    }

    fn first_at(&self, near: i64, time: i64) -> Option<i64> {
        let signal = self.0.read().unwrap_or_else(PoisonError::into_inner);
        signal.first_index_at(near, time).ok().flatten()
    }

    fn times(&self, indices: &[i64], out: &mut [i64]) -> Result<(), Cause> {
        let signal = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut exact = vec![Fixed::ZERO; indices.len().min(LOOKUP_LEN)];
        let ns = |time: Fixed| {
            time.round_i64().ok_or(TimeError::Overflow {
                what: "a time in ns since 1970",
            })
        };
        for (indices, out) in indices.chunks(LOOKUP_LEN).zip(out.chunks_mut(LOOKUP_LEN)) {
            match signal.civil_many(indices, &mut exact) {
                Ok(()) => {
                    for (out, &time) in out.iter_mut().zip(&exact) {
                        *out = ns(time)?;
                    }
                }
                // Some runs have no civil time: look up one by one.
                Err(StoreError::NoCivilTime { .. }) => {
                    for (out, &index) in out.iter_mut().zip(indices) {
                        *out = match signal.time_of(index) {
                            Ok(time) => ns(time.value)?,
                            Err(StoreError::NoCivilTime { .. }) => i64::MIN,
                            Err(other) => return Err(other.into()),
                        };
                    }
                }
                Err(other) => return Err(other.into()),
            }
        }
        Ok(())
    }
}

/// Why one clock cannot have sampled both signals; None if it can.
pub(crate) fn clock_difference(signal: &Signal, other: &Signal) -> Option<String> {
    let rates = [signal, other].map(|signal| signal.stream().get().rate);
    if rates[0] != rates[1] {
        return Some(format!("its rate is {} Hz, not {} Hz", rates[0], rates[1]));
    }
    let begin = signal.start_index().max(other.start_index());
    let end = signal.end_index().min(other.end_index());
    let period = 1e9 / rates[0].to_f64();
    // Without civil time nothing contradicts.
    let time = |signal: &Signal, index| Some(signal.time_of(index).ok()?.value);
    [begin, end - 1].into_iter().filter(|_| begin < end).find_map(|index| {
        let apart = time(signal, index)?.checked_sub(time(other, index)?)?.to_f64();
        (apart.abs() * 2.0 >= period).then(|| {
            format!("sample {index} is {apart:+.0} ns away from its counterpart, and the sampling interval is {period:.0} ns")
        })
    })
}
