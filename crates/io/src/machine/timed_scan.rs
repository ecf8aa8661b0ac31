//! Times the outer and the inner part of a scan.

use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use isochrony_dsp::stats::{Accumulator, Statistic};
use isochrony_segment::{DType, Sample, dispatch};
use isochrony_system::usage::page_faults;

use super::costs::{CacheState, Trial};
use crate::error::IoError;
use crate::scan::{PieceIter, PieceReader};
use crate::source::{SampleSource, SourceError};
use crate::strategy::Strategy;

/// A scan to be timed.
#[derive(Clone, Copy)]
pub struct TimedScan<'a> {
    /// Source to read.
    pub source: &'a Arc<dyn SampleSource>,
    /// Parts of it.
    pub parts: &'a [Range<i64>],
    /// Called before each piece; an error ends the scan.
    pub check: &'a dyn Fn() -> Result<(), SourceError>,
}

impl TimedScan<'_> {
    /// Reads and summarises each piece once. None if the strategy does not apply.
    ///
    /// # Errors
    /// Those of reading, and of [`check`](Self::check).
    pub fn time(&self, strategy: Strategy, state: CacheState) -> Result<Option<Trial>, IoError> {
        dispatch!(self.source.dtype(), T => self.run::<T, T>(strategy, state))
    }

    /// As [`time`](Self::time), with the bytes as another type.
    pub(super) fn time_as(
        &self,
        dtype: DType,
        strategy: Strategy,
        state: CacheState,
    ) -> Result<Option<Trial>, IoError> {
        dispatch!(self.source.dtype(), S => dispatch!(dtype, T => self.run::<S, T>(strategy, state)))
    }

    /// Samples of type `S`, summarised as `T`.
    fn run<S: Sample, T: Sample + Statistic>(
        &self,
        strategy: Strategy,
        state: CacheState,
    ) -> Result<Option<Trial>, IoError> {
        let size = self.source.dtype().size() as u64;
        let piece = (strategy.piece_bytes() / size).cast_signed();
        let pieces = PieceIter::new(self.source.clone(), self.parts.to_vec(), piece);
        let pieces: Vec<_> = pieces.collect();
        let before = page_faults();
        let (mut outer, mut inner, mut samples) = (0.0, 0.0, 0_i64);
        let mut accumulator = Accumulator::<T>::new();
        let mut then = Instant::now();
        let mut lap = |sum: &mut f64| {
            let now = Instant::now();
            *sum += (now - then).as_secs_f64();
            then = now;
        };
        let mut reader = PieceReader::new(self.source, self.parts, piece, strategy)?;
        for piece in pieces {
            (self.check)().map_err(IoError::Source)?;
            samples += piece.end - piece.start;
            let segment = reader.read(piece)?;
            lap(&mut outer);
            // Pieces are aligned: only the last bytes are left out.
            segment.visit::<S>(|samples| accumulator.push(bytemuck::pod_align_to(samples).1))?;
            drop(segment);
            lap(&mut inner);
        }
        let after = page_faults();
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
}
