//! Timing a scan in the two parts from which costs are derived.

use std::hint::black_box;
use std::time::Instant;

use isochrony_dsp::stats::{Accumulator, Statistic};
use isochrony_segment::{Sample, dispatch};

use super::cache::faults;
use super::costs::{State, Trial};
use crate::error::StoreError;
use crate::interrupt;
use crate::signal::Signal;
use crate::strategy::{SignalReader, Strategy};

/// Scans a signal once: each piece is asked for, then summarised. None if the strategy does not apply here; `state` is what
/// the caller knows about where the samples are.
///
/// # Errors
/// Those of reading, or [`StoreError::Interrupted`].
pub fn time_scan(
    signal: &Signal,
    strategy: Strategy,
    state: State,
) -> Result<Option<Trial>, StoreError> {
    dispatch!(signal.dtype(), T => scan::<T>(signal, strategy, state))
}

fn scan<T: Sample + Statistic>(
    signal: &Signal,
    strategy: Strategy,
    state: State,
) -> Result<Option<Trial>, StoreError> {
    let end = signal.end_index();
    let size = signal.dtype().size() as u64;
    let all = signal.select(0..end)?;
    let parts = all.parts().to_vec();
    let stretches: Vec<_> = all.stretches().map(|one| one.range).collect();
    let piece = (strategy.piece_bytes() / size).cast_signed();
    let before = faults();
    let (mut outer, mut inner, mut samples) = (0.0, 0.0, 0);
    let mut accumulator = Accumulator::<T>::new();
    let mut then = Instant::now();
    let mut lap = |sum: &mut f64| {
        let now = Instant::now();
        *sum += (now - then).as_secs_f64();
        then = now;
    };
    let mut reader = SignalReader::new(signal, &parts, piece, strategy)?;
    for stretch in stretches {
        let mut at = stretch.start;
        while at < stretch.end {
            interrupt::look("calibrate")?;
            let stop = stretch.end.min(at + piece);
            let segment = reader.read(at..stop)?;
            lap(&mut outer);
            segment.visit::<T>(|samples| accumulator.push(samples))?;
            drop(segment);
            lap(&mut inner);
            samples += stop - at;
            at = stop;
        }
    }
    let after = faults();
    black_box(accumulator.finish());
    if reader.reading().used != Some(strategy) {
        return Ok(None);
    }
    Ok(Some(Trial {
        strategy,
        state,
        bytes: (samples.cast_unsigned() * size) as f64,
        outer,
        inner,
        minor: (after.0 - before.0) as f64,
        major: (after.1 - before.1) as f64,
    }))
}
