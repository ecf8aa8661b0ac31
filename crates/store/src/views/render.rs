//! Renders rows and samples as columns of a plot.

use std::ops::Range;

use isochrony_dsp::stats::{Accumulator, Summary};
use isochrony_segment::{Buffer, DType, dispatch};

use super::row::{ViewSample, merge_rows};
use super::{EXTREMA, LEVELS, MOMENTS, Rows, Samples, bucket, extreme_dtype, rows_stored};
use crate::StoreError;

/// Statistics of consecutive index ranges of a signal, one per column.
///
/// Column *k* is exact for samples `start[k]..end[k]`: inner edges are multiples of [`bucket`](Self::bucket), so no
/// bucket is split. All vectors have one entry per column; values are counts.
#[derive(Debug, Clone)]
pub struct View {
    /// Dtype of `min` and `max`: the signal's, or that of the magnitude of complex samples.
    pub dtype: DType,
    /// Samples per stored bucket, the largest if parts differ; 1 if all columns came from samples.
    pub bucket: i64,
    /// First index.
    pub start: Vec<i64>,
    /// One past the last index.
    pub end: Vec<i64>,
    /// Minimum of finite samples; if `count` is 0, NaN, or 0 for integers and bool.
    pub min: Buffer,
    /// Maximum, likewise.
    pub max: Buffer,
    /// Mean of finite samples; NaN if none.
    pub mean: Vec<f64>,
    /// Population standard deviation of finite samples; NaN if none.
    pub std: Vec<f64>,
    /// Number of finite samples.
    pub count: Vec<u64>,
    /// Fraction of indices in gaps, 0 to 1.
    pub gap_fraction: Vec<f64>,
}

impl View {
    /// Number of columns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// Whether there are no columns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }
}

/// A signal's rows and samples.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// Sample type.
    pub dtype: DType,
    /// `rows` has what [`rows_stored`] gives for this.
    pub built: i64,
    /// The rows.
    pub rows: &'a dyn Rows,
    /// The samples.
    pub samples: &'a dyn Samples,
}

impl std::fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source")
            .field("dtype", &self.dtype)
            .field("built", &self.built)
            .finish_non_exhaustive()
    }
}

/// Renders `parts`, in order, into about `pixels` columns.
///
/// Each part, a non-empty index range, gets columns in proportion to its length: at least one, at most one per sample.
/// The cost is proportional to the columns.
///
/// # Errors
/// Reading fails.
pub fn render(
    source: &Source<'_>,
    parts: &[Range<i64>],
    pixels: usize,
) -> Result<View, StoreError> {
    dispatch!(source.dtype, T => Renderer::<T>::new(*source).render(parts, pixels))
}

pub(super) struct Renderer<'a, T: ViewSample> {
    source: Source<'a>,
    columns: Vec<Summary<T::Extreme>>,
}

impl<'a, T: ViewSample> Renderer<'a, T> {
    pub(super) fn new(source: Source<'a>) -> Self {
        Self {
            source,
            columns: Vec::new(),
        }
    }

    fn render(mut self, parts: &[Range<i64>], pixels: usize) -> Result<View, StoreError> {
        let total: i128 = parts
            .iter()
            .map(|part| i128::from(part.end - part.start))
            .sum();
        let mut edges = Vec::with_capacity(pixels + 1);
        let (mut start, mut end) = (Vec::with_capacity(pixels), Vec::with_capacity(pixels));
        let mut coarsest = 1;
        for part in parts.iter().filter(|part| part.start < part.end) {
            let length = part.end - part.start;
            let share = (i128::from(length) * pixels as i128 + total / 2) / total;
            let columns = (share as i64).clamp(1, length);
            let level = self.level_for(length / columns);
            let step = level.map_or(1, |level| bucket(T::DTYPE, level));
            coarsest = coarsest.max(step);
            edges.clear();
            edges.push(part.start);
            edges.extend((1..columns).map(|k| {
                let ideal =
                    part.start + (i128::from(length) * i128::from(k) / i128::from(columns)) as i64;
                ideal / step * step
            }));
            edges.push(part.end);
            start.extend_from_slice(&edges[..edges.len() - 1]);
            end.extend_from_slice(&edges[1..]);
            match level {
                Some(level) => self.columns_of_rows(level, &edges)?,
                None => self.columns_of_samples(&edges)?,
            }
        }
        self.finish(start, end, coarsest)
    }

    /// The highest level with buckets of at most a column.
    fn level_for(&self, samples: i64) -> Option<usize> {
        let stored = |&level: &usize| rows_stored(T::DTYPE, level, self.source.built) > 0;
        (0..LEVELS)
            .rev()
            .filter(|&level| bucket(T::DTYPE, level) <= samples)
            .find(stored)
    }

    fn columns_of_samples(&mut self, edges: &[i64]) -> Result<(), StoreError> {
        let first = self.columns.len();
        self.columns.resize(first + edges.len() - 1, Summary::EMPTY);
        let columns = &mut self.columns[first..];
        let mut column = Accumulator::<T>::new();
        let mut at = 0;
        let range = edges[0]..edges[edges.len() - 1];
        self.source.samples.visit(range, &mut |mut index, bytes| {
            let copy;
            let mut samples: &[T] = match bytemuck::try_cast_slice(bytes) {
                Ok(samples) => samples,
                Err(_) => {
                    copy = bytemuck::pod_collect_to_vec::<u8, T>(bytes);
                    &copy
                }
            };
            while !samples.is_empty() {
                if edges[at + 1] <= index {
                    columns[at] = column.finish();
                    column.reset();
                    at += edges[at + 1..].partition_point(|edge| *edge <= index);
                }
                let room = (edges[at + 1] - index) as usize;
                let (part, rest) = samples.split_at(samples.len().min(room));
                column.push(part);
                index += part.len() as i64;
                samples = rest;
            }
            Ok(())
        })?;
        columns[at] = column.finish();
        Ok(())
    }

    /// `edges` are multiples of the bucket of `level`, except first and last.
    fn columns_of_rows(&mut self, level: usize, edges: &[i64]) -> Result<(), StoreError> {
        let bucket = bucket(T::DTYPE, level);
        let body = self.whole(level, edges[0]..edges[edges.len() - 1]);
        let rows = self.read(level, &body)?;
        for edge in edges.windows(2) {
            let column = edge[0]..edge[1];
            let own = self.whole(level, column.clone());
            if own.is_empty() {
                let summary = self.finer(level, column)?;
                self.columns.push(summary);
                continue;
            }
            let within = (own.start - body.start) as usize..(own.end - body.start) as usize;
            let mut summary = merge_rows(&rows.0[within.clone()], &rows.1[within]);
            let (from, to) = (own.start as i64 * bucket, own.end as i64 * bucket);
            if column.start < from {
                summary = self.finer(level, column.start..from)?.merge(&summary);
            }
            if to < column.end {
                summary = summary.merge(&self.finer(level, to..column.end)?);
            }
            self.columns.push(summary);
        }
        Ok(())
    }

    /// Reads at most a few rows of each lower level and one bucket of samples at either end, unless rows are missing.
    pub(super) fn finer(
        &self,
        level: usize,
        range: Range<i64>,
    ) -> Result<Summary<T::Extreme>, StoreError> {
        if range.is_empty() {
            return Ok(Summary::EMPTY);
        }
        for level in (0..level).rev() {
            let own = self.whole(level, range.clone());
            if own.is_empty() {
                continue;
            }
            let rows = self.read(level, &own)?;
            let bucket = bucket(T::DTYPE, level);
            let head = self.finer(level, range.start..own.start as i64 * bucket)?;
            let tail = self.finer(level, own.end as i64 * bucket..range.end)?;
            return Ok(head.merge(&merge_rows(&rows.0, &rows.1)).merge(&tail));
        }
        let mut sum = Accumulator::<T>::new();
        self.source.samples.visit(range, &mut |_, bytes| {
            match bytemuck::try_cast_slice(bytes) {
                Ok(samples) => sum.push(samples),
                Err(_) => sum.push(&bytemuck::pod_collect_to_vec::<u8, T>(bytes)),
            }
            Ok(())
        })?;
        Ok(sum.finish())
    }

    pub(super) fn whole(&self, level: usize, range: Range<i64>) -> Range<u64> {
        let bucket = bucket(T::DTYPE, level) as u64;
        let first = (range.start as u64).div_ceil(bucket);
        let end = (range.end as u64 / bucket).min(rows_stored(T::DTYPE, level, self.source.built));
        first..end.max(first)
    }

    pub(super) fn read(
        &self,
        level: usize,
        rows: &Range<u64>,
    ) -> Result<RowVecs<T::Extreme>, StoreError> {
        let count = (rows.end - rows.start) as usize;
        let mut out = (
            vec![[T::Extreme::default(); EXTREMA]; count],
            vec![[0.0; MOMENTS]; count],
        );
        if count > 0 {
            let (extrema, moments) = (
                bytemuck::cast_slice_mut(&mut out.0),
                bytemuck::cast_slice_mut(&mut out.1),
            );
            self.source.rows.read(level, rows.start, extrema, moments)?;
        }
        Ok(out)
    }

    fn finish(self, start: Vec<i64>, end: Vec<i64>, bucket: i64) -> Result<View, StoreError> {
        let columns = &self.columns;
        let extremes = |of: fn(&Summary<T::Extreme>) -> T::Extreme| {
            let values: Vec<_> = columns.iter().map(of).collect();
            Buffer::concat([bytemuck::cast_slice(&values)])
        };
        let gaps = |(start, end): (&i64, &i64)| {
            self.source.samples.missing(*start..*end) as f64 / (end - start) as f64
        };
        Ok(View {
            dtype: extreme_dtype(T::DTYPE),
            bucket,
            min: extremes(|column| column.min)?,
            max: extremes(|column| column.max)?,
            mean: columns.iter().map(|column| column.mean).collect(),
            std: columns.iter().map(Summary::std).collect(),
            count: columns.iter().map(|column| column.count).collect(),
            gap_fraction: start.iter().zip(&end).map(gaps).collect(),
            start,
            end,
        })
    }
}

pub(super) type RowVecs<E> = (Vec<[E; EXTREMA]>, Vec<[f64; MOMENTS]>);
