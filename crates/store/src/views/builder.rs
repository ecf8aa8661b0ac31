//! Builds rows while samples are written; rebuilds those of changed samples.

use std::ops::Range;

use isochrony_dsp::stats::Summary;
use isochrony_segment::{DType, dispatch};

use super::cells::Cells;
use super::levels::Levels;
use super::row::{ViewSample, to_row};
use super::{RowsMut, Samples, bucket};
use crate::StoreError;

const BATCH: i64 = 1024;

/// Builds a signal's views.
///
/// Samples are [fed](Self::feed) as they are written, without allocation while in order.
/// [`invalidate`](Self::invalidate) notes other changes, [`refresh`](Self::refresh) computes them.
///
/// After an error, stored rows may be older than the samples: reopen from the last known [`built`](Self::built).
pub struct Builder(Box<dyn BuildRows>);

impl Builder {
    /// Continues from rows up to `built` (0: none) with samples up to `end`.
    ///
    /// # Errors
    /// Reading or writing fails.
    pub fn open(
        dtype: DType,
        built: i64,
        end: i64,
        store: &mut dyn RowsMut,
        samples: &dyn Samples,
    ) -> Result<Self, StoreError> {
        let mut build: Box<dyn BuildRows> = dispatch!(dtype, T => Box::new(Pyramid::<T>::new()));
        build.resume(built.clamp(0, end.max(0)), store)?;
        build.catch_up(end, store, samples)?;
        Ok(Self(build))
    }

    /// Adds samples from `index` on; out of order, as [`invalidate`](Self::invalidate).
    ///
    /// # Errors
    /// Writing rows fails.
    pub fn feed(
        &mut self,
        index: i64,
        bytes: &[u8],
        store: &mut dyn RowsMut,
    ) -> Result<(), StoreError> {
        self.0.feed(index, bytes, store)
    }

    /// Marks samples in `range` as changed.
    pub fn invalidate(&mut self, range: Range<i64>) {
        self.0.invalidate(range);
    }

    /// Whether [`refresh`](Self::refresh) has work.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.0.is_stale()
    }

    /// Recomputes invalidated rows.
    ///
    /// # Errors
    /// Reading or writing fails; invalidated rows stay so.
    pub fn refresh(
        &mut self,
        store: &mut dyn RowsMut,
        samples: &dyn Samples,
    ) -> Result<(), StoreError> {
        self.0.refresh(store, samples)
    }

    /// Rolls fed samples back to `end`.
    ///
    /// # Errors
    /// As [`refresh`](Self::refresh).
    pub fn rewind(
        &mut self,
        end: i64,
        store: &mut dyn RowsMut,
        samples: &dyn Samples,
    ) -> Result<(), StoreError> {
        let built = self.0.built().min(end.max(0));
        self.0.resume(built, store)?;
        self.0.catch_up(end, store, samples)
    }

    /// Writes all complete rows.
    ///
    /// # Errors
    /// Writing fails.
    pub fn flush(&mut self, store: &mut dyn RowsMut) -> Result<(), StoreError> {
        self.0.flush(store)
    }

    /// One past the last sample fed in order.
    #[must_use]
    pub fn next(&self) -> i64 {
        self.0.next()
    }

    /// Rows up to here are stored, by [`super::rows_stored`].
    #[must_use]
    pub fn built(&self) -> i64 {
        self.0.built()
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("built", &self.built())
            .finish_non_exhaustive()
    }
}

/// One virtual call per block.
trait BuildRows: Send {
    fn resume(&mut self, built: i64, store: &mut dyn RowsMut) -> Result<(), StoreError>;
    fn catch_up(
        &mut self,
        end: i64,
        store: &mut dyn RowsMut,
        samples: &dyn Samples,
    ) -> Result<(), StoreError>;
    fn feed(&mut self, index: i64, bytes: &[u8], store: &mut dyn RowsMut)
    -> Result<(), StoreError>;
    fn invalidate(&mut self, range: Range<i64>);
    fn is_stale(&self) -> bool;
    fn refresh(&mut self, store: &mut dyn RowsMut, samples: &dyn Samples)
    -> Result<(), StoreError>;
    fn flush(&mut self, store: &mut dyn RowsMut) -> Result<(), StoreError>;
    fn built(&self) -> i64;
    fn next(&self) -> i64;
}

/// `cells` covers `levels.row()` to `cells.next()`; `dirty` lies before.
struct Pyramid<T: ViewSample> {
    cells: Cells<T>,
    levels: Levels<T::Extreme>,
    dirty: Vec<Range<i64>>,
}

impl<T: ViewSample> Pyramid<T> {
    fn new() -> Self {
        Self {
            cells: Cells::new(bucket(T::DTYPE, 0)),
            levels: Levels::new(T::DTYPE),
            dirty: Vec::new(),
        }
    }

    fn recompute(
        &self,
        range: Range<i64>,
        store: &mut dyn RowsMut,
        samples: &dyn Samples,
    ) -> Result<(), StoreError> {
        let bucket = bucket(T::DTYPE, 0);
        let end = (range.end as u64).div_ceil(bucket as u64) as i64 * bucket;
        let end = end.min(self.levels.built());
        let mut from = range.start / bucket * bucket;
        let mut cells = Cells::<T>::new(bucket);
        while from < end {
            let to = (from + BATCH * bucket).min(end);
            let (first, count) = ((from / bucket) as u64, ((to - from) / bucket) as usize);
            let mut extrema = vec![Default::default(); count];
            let mut moments = vec![[0.0; 3]; count];
            let mut take = |row: u64, summary: &Summary<T::Extreme>| {
                let at = (row - first) as usize;
                (extrema[at], moments[at]) = to_row(summary);
                Ok(())
            };
            cells.restart(from);
            samples.visit(from..to, &mut |index, bytes| {
                cells.feed(index, bytes, &mut take)
            })?;
            cells.finish(&mut take)?;
            self.levels.rewrite(first, &extrema, &moments, store)?;
            from = to;
        }
        Ok(())
    }
}

impl<T: ViewSample> BuildRows for Pyramid<T> {
    fn resume(&mut self, built: i64, store: &mut dyn RowsMut) -> Result<(), StoreError> {
        self.levels.resume(built, store)?;
        self.cells.restart(self.levels.built());
        Ok(())
    }

    fn catch_up(
        &mut self,
        end: i64,
        store: &mut dyn RowsMut,
        samples: &dyn Samples,
    ) -> Result<(), StoreError> {
        let from = self.cells.next();
        if from >= end {
            return Ok(());
        }
        let Self { cells, levels, .. } = self;
        samples.visit(from..end, &mut |index, bytes| {
            cells.feed(index, bytes, |row, summary| {
                levels.take(row, summary, store)
            })
        })
    }

    fn feed(
        &mut self,
        index: i64,
        bytes: &[u8],
        store: &mut dyn RowsMut,
    ) -> Result<(), StoreError> {
        let next = self.cells.next();
        if index < next {
            let end = index + (bytes.len() / size_of::<T>()) as i64;
            self.invalidate(index..end.min(next));
            if end <= next {
                return Ok(());
            }
            let known = (next - index) as usize * size_of::<T>();
            return self.feed(next, &bytes[known..], store);
        }
        let Self { cells, levels, .. } = self;
        cells.feed(index, bytes, |row, summary| {
            levels.take(row, summary, store)
        })
    }

    fn invalidate(&mut self, range: Range<i64>) {
        let range = range.start.max(0)..range.end.min(self.cells.next());
        if range.start >= range.end {
            return;
        }
        match self.dirty.last_mut() {
            Some(last) if last.start <= range.start && range.start <= last.end => {
                last.end = last.end.max(range.end)
            }
            _ => self.dirty.push(range),
        }
    }

    fn is_stale(&self) -> bool {
        !self.dirty.is_empty()
    }

    fn refresh(
        &mut self,
        store: &mut dyn RowsMut,
        samples: &dyn Samples,
    ) -> Result<(), StoreError> {
        if self.dirty.is_empty() {
            return Ok(());
        }
        for range in &self.dirty {
            self.recompute(range.clone(), store, samples)?;
        }
        // They are few: rebuild them from samples.
        let end = self.cells.next();
        self.resume(self.levels.built(), store)?;
        self.catch_up(end, store, samples)?;
        self.dirty.clear();
        Ok(())
    }

    fn flush(&mut self, store: &mut dyn RowsMut) -> Result<(), StoreError> {
        self.levels.flush(store)
    }

    fn next(&self) -> i64 {
        self.cells.next()
    }

    fn built(&self) -> i64 {
        self.levels.built()
    }
}
