//! Timing a scan in the two parts from which costs are derived.

use std::hint::black_box;
use std::time::Instant;

use isochrony_dsp::stats::{Accumulator, Statistic};
use isochrony_segment::{DType, Sample, dispatch};

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
    let end = signal.end_index();
    dispatch!(signal.dtype(), T => scan::<T, T>(signal, end, strategy, state))
}

/// The same of the samples before `end`, whose bytes are summarised as if they were of another type.
pub(super) fn time_scan_as(
    signal: &Signal,
    end: i64,
    dtype: DType,
    strategy: Strategy,
    state: State,
) -> Result<Option<Trial>, StoreError> {
    dispatch!(signal.dtype(), S => dispatch!(dtype, T => scan::<S, T>(signal, end, strategy, state)))
}

/// Scans samples of type `S`; those that were read together are summarised as `T`.
fn scan<S: Sample, T: Sample + Statistic>(
    signal: &Signal,
    end: i64,
    strategy: Strategy,
    state: State,
) -> Result<Option<Trial>, StoreError> {
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
            let stop = reader.next_piece(&(at..stretch.end)).end;
            let segment = reader.read(at..stop)?;
            lap(&mut outer);
            // Pieces are aligned in memory: all of one is between, but for the last bytes of the last.
            segment.visit::<S>(|samples| accumulator.push(bytemuck::pod_align_to(samples).1))?;
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
