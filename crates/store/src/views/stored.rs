//! Reads samples for views, and compares stored rows with recomputed ones.

use std::ops::Range;

use super::{Builder, MOMENTS, OnPiece, Rows, RowsMut, Samples, Source, bucket, rows_stored};
use crate::StoreError;
use crate::backend::Backend;
use crate::interrupt;
use crate::state::SignalState;

pub(crate) struct StoredSamples<'a> {
    backend: &'a Backend,
    state: &'a SignalState,
    shard: i64,
    is_decoded: bool,
}

impl<'a> StoredSamples<'a> {
    pub(crate) fn new(backend: &'a Backend, state: &'a SignalState) -> Result<Self, StoreError> {
        let shard = backend.shard_samples(state.id)?.max(1);
        Ok(Self {
            backend,
            state,
            shard,
            is_decoded: false,
        })
    }

    pub(crate) fn decoded(
        backend: &'a Backend,
        state: &'a SignalState,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            is_decoded: true,
            ..Self::new(backend, state)?
        })
    }
}

impl Samples for StoredSamples<'_> {
    fn visit(&self, range: Range<i64>, piece: &mut OnPiece<'_>) -> Result<(), StoreError> {
        let (mut at, end) = (range.start.max(0), range.end.min(self.state.end));
        while at < end {
            let stop = match self.state.gaps.first_within(at..end) {
                Some(gap) if gap.start <= at => {
                    at = gap.end();
                    continue;
                }
                Some(gap) => gap.start,
                None => end,
            };
            interrupt::check("read samples")?;
            let most = interrupt::CHECK_INTERVAL_BYTES / self.state.meta.format.size() as i64;
            let border = (at / self.shard + 1).saturating_mul(self.shard);
            let stop = stop.min(border).min((at / most + 1).saturating_mul(most));
            let buffer = self.backend.read(self.state, at, (stop - at) as usize)?;
            let samples = match self.is_decoded {
                true => self.state.meta.format.decoded(buffer)?,
                false => buffer,
            };
            piece(at, samples.bytes())?;
            at = stop;
        }
        Ok(())
    }

    fn missing(&self, range: Range<i64>) -> i64 {
        self.state.gaps.missing_within(range)
    }
}

pub(super) fn difference(source: &Source<'_>) -> Result<Option<String>, StoreError> {
    let mut compare = RowComparison {
        source,
        different: None,
    };
    let mut builder = Builder::open(source.dtype, 0, source.built, &mut compare, source.samples)?;
    builder.flush(&mut compare)?;
    Ok(compare.different.map(|(level, row)| {
        let bucket = bucket(source.dtype, level);
        let start = row as i64 * bucket;
        let end = start + bucket;
        format!("the rows of samples {start}..{end} at bucket {bucket} differ from the samples")
    }))
}

struct RowComparison<'a> {
    source: &'a Source<'a>,
    different: Option<(usize, u64)>,
}

impl Rows for RowComparison<'_> {
    fn read(
        &self,
        level: usize,
        first: u64,
        extrema: &mut [u8],
        moments: &mut [u8],
    ) -> Result<(), StoreError> {
        self.source.rows.read(level, first, extrema, moments)
    }

    fn present(&self, level: usize, rows: Range<u64>) -> Result<Vec<Range<u64>>, StoreError> {
        self.source.rows.present(level, rows)
    }
}

impl RowsMut for RowComparison<'_> {
    fn write(
        &mut self,
        level: usize,
        first: u64,
        extrema: &[u8],
        moments: &[u8],
    ) -> Result<(), StoreError> {
        let row = MOMENTS * size_of::<f64>();
        let stored = rows_stored(self.source.dtype, level, self.source.built);
        let rows = stored
            .saturating_sub(first)
            .min((moments.len() / row) as u64) as usize;
        if rows == 0 || self.different.is_some() {
            return Ok(());
        }
        let width = extrema.len() / (moments.len() / row);
        let (extrema, moments) = (&extrema[..rows * width], &moments[..rows * row]);
        let (mut own_extrema, mut own_moments) = (vec![0; extrema.len()], vec![0; moments.len()]);
        self.source
            .rows
            .read(level, first, &mut own_extrema, &mut own_moments)?;
        let pairs = own_extrema.chunks(width).zip(own_moments.chunks(row));
        let expected = extrema.chunks(width).zip(moments.chunks(row));
        let different = pairs
            .zip(expected)
            .position(|(own, expected)| own != expected);
        self.different = different.map(|at| (level, first + at as u64));
        Ok(())
    }
}
