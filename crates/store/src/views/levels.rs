//! Builds the rows of all levels, higher ones from lower ones.
//!
//! After rollbacks and crashes, rows from the first unwritten one on are undefined, so skipped rows are cleared
//! ([`blank`]).

use std::ops::Range;

use isochrony_dsp::stats::{Extreme, Summary};
use isochrony_segment::DType;

use super::row::{from_row, to_row};
use super::{EXTREMA, FACTOR, LEVELS, MIN_ROWS, MOMENTS, Rows, RowsMut, bucket, rows_stored};
use crate::StoreError;

/// Rows of level 0 between writes: 2 MiB of samples.
const BATCH: usize = 2048;

/// Rows `first..first + extrema.len()` are complete and unwritten; `partial` is the next. Earlier rows are stored;
/// `first` is 0 while the level is too short for that.
#[derive(Debug)]
struct Level<E> {
    first: u64,
    extrema: Vec<[E; EXTREMA]>,
    moments: Vec<[f64; MOMENTS]>,
    partial: Summary<E>,
}

impl<E: Extreme + bytemuck::Pod> Level<E> {
    fn row(&self) -> u64 {
        self.first + self.extrema.len() as u64
    }

    fn push(&mut self, summary: &Summary<E>) {
        let (extrema, moments) = to_row(summary);
        self.extrema.push(extrema);
        self.moments.push(moments);
    }

    fn restart(&mut self, first: u64) {
        self.first = first;
        self.extrema.clear();
        self.moments.clear();
        self.partial = Summary::EMPTY;
    }

    fn write(&mut self, level: usize, store: &mut dyn RowsMut) -> Result<(), StoreError> {
        if !self.extrema.is_empty() && self.row() >= MIN_ROWS {
            let (extrema, moments) = (
                bytemuck::cast_slice(&self.extrema),
                bytemuck::cast_slice(&self.moments),
            );
            store.write(level, self.first, extrema, moments)?;
            self.first = self.row();
            self.extrema.clear();
            self.moments.clear();
        }
        Ok(())
    }
}

/// `partial` of level `l + 1` covers exactly the complete rows of level `l` that are in none of its own rows.
#[derive(Debug)]
pub(crate) struct Levels<E> {
    dtype: DType,
    built: i64,
    levels: Vec<Level<E>>,
}

impl<E: Extreme + bytemuck::Pod> Levels<E> {
    pub(crate) fn new(dtype: DType) -> Self {
        let level = || Level {
            first: 0,
            extrema: Vec::new(),
            moments: Vec::new(),
            partial: Summary::EMPTY,
        };
        Self {
            dtype,
            built: 0,
            levels: (0..LEVELS).map(|_| level()).collect(),
        }
    }

    pub(crate) fn built(&self) -> i64 {
        self.built
    }

    /// Adds row `row` of level 0; skipped ones are empty.
    pub(crate) fn take(
        &mut self,
        row: u64,
        summary: &Summary<E>,
        store: &mut dyn RowsMut,
    ) -> Result<(), StoreError> {
        let missing = row - self.levels[0].row();
        if missing > BATCH as u64 {
            self.jump(row, store)?;
        } else {
            for _ in 0..missing {
                self.complete(&Summary::EMPTY);
            }
        }
        self.complete(summary);
        if self.levels[0].extrema.len() >= BATCH {
            self.flush(store)?;
        }
        Ok(())
    }

    /// Appends a row to level 0 and those that it completes above.
    fn complete(&mut self, summary: &Summary<E>) {
        let mut summary = *summary;
        for l in 0..LEVELS {
            let level = &mut self.levels[l];
            level.push(&summary);
            let full = level.row().is_multiple_of(FACTOR);
            let Some(parent) = self.levels.get_mut(l + 1) else {
                break;
            };
            parent.partial = parent.partial.merge(&summary);
            if !full {
                break;
            }
            summary = std::mem::replace(&mut parent.partial, Summary::EMPTY);
        }
    }

    fn jump(&mut self, row: u64, store: &mut dyn RowsMut) -> Result<(), StoreError> {
        self.flush(store)?;
        let mut target = row;
        for l in 0..LEVELS {
            let level = &mut self.levels[l];
            if level.row() < target {
                let summary = std::mem::replace(&mut level.partial, Summary::EMPTY);
                // Level 0 gets whole rows only.
                if l > 0 {
                    level.push(&summary);
                    if let Some(parent) = self.levels.get_mut(l + 1) {
                        parent.partial = parent.partial.merge(&summary);
                    }
                }
                let level = &mut self.levels[l];
                if target < MIN_ROWS {
                    while level.row() < target {
                        level.push(&Summary::EMPTY);
                    }
                } else {
                    level.write(l, store)?;
                    // Unwritten rows remain only if too few to be stored.
                    while !level.extrema.is_empty() && level.row() < MIN_ROWS {
                        level.push(&Summary::EMPTY);
                    }
                    level.write(l, store)?;
                    blank::<E>(l, level.row()..target, store)?;
                    level.first = target;
                }
            }
            target /= FACTOR;
        }
        self.settle();
        Ok(())
    }

    pub(crate) fn flush(&mut self, store: &mut dyn RowsMut) -> Result<(), StoreError> {
        for (l, level) in self.levels.iter_mut().enumerate() {
            level.write(l, store)?;
        }
        self.settle();
        Ok(())
    }

    fn settle(&mut self) {
        let rows = self.levels[0].row();
        if rows >= MIN_ROWS {
            self.built = rows as i64 * bucket(self.dtype, 0);
        }
    }

    /// Rounds `built` down to a bucket.
    pub(crate) fn resume(&mut self, built: i64, store: &dyn Rows) -> Result<(), StoreError> {
        let stored = |level| rows_stored(self.dtype, level, built);
        self.built = stored(0) as i64 * bucket(self.dtype, 0);
        self.levels[0].restart(stored(0));
        for l in 1..LEVELS {
            let children = self.levels[l - 1].row();
            let first = rows_stored(self.dtype, l, self.built);
            let from = first * FACTOR;
            // At most MIN_ROWS * FACTOR rows: with more below, a level is stored.
            let (extrema, moments) = self.rows(l - 1, from..children, store)?;
            let level = &mut self.levels[l];
            level.restart(first);
            let factor = FACTOR as usize;
            for (extrema, moments) in extrema.chunks(factor).zip(moments.chunks(factor)) {
                let summary = fold(extrema, moments);
                if extrema.len() == factor {
                    level.push(&summary);
                } else {
                    level.partial = summary;
                }
            }
        }
        Ok(())
    }

    /// Rows from memory if the level is too short to be stored.
    fn rows(
        &self,
        level: usize,
        range: Range<u64>,
        store: &dyn Rows,
    ) -> Result<RowVecs<E>, StoreError> {
        let kept = &self.levels[level];
        let count = (range.end - range.start) as usize;
        if kept.first == 0 {
            let range = range.start as usize..range.end as usize;
            return Ok((
                kept.extrema[range.clone()].to_vec(),
                kept.moments[range].to_vec(),
            ));
        }
        let mut rows = (
            vec![[E::default(); EXTREMA]; count],
            vec![[0.0; MOMENTS]; count],
        );
        if count > 0 {
            store.read(
                level,
                range.start,
                bytemuck::cast_slice_mut(&mut rows.0),
                bytemuck::cast_slice_mut(&mut rows.1),
            )?;
        }
        Ok(rows)
    }

    /// Also rewrites all stored rows above that contain one.
    pub(crate) fn rewrite(
        &self,
        first: u64,
        extrema: &[[E; EXTREMA]],
        moments: &[[f64; MOMENTS]],
        store: &mut dyn RowsMut,
    ) -> Result<(), StoreError> {
        store.write(
            0,
            first,
            bytemuck::cast_slice(extrema),
            bytemuck::cast_slice(moments),
        )?;
        let (mut from, mut to) = (first, first + extrema.len() as u64);
        let (mut own_extrema, mut own_moments) = (Vec::new(), Vec::new());
        for l in 1..LEVELS {
            from /= FACTOR;
            to = to
                .div_ceil(FACTOR)
                .min(rows_stored(self.dtype, l, self.built));
            if from >= to {
                break;
            }
            let (extrema, moments) = self.rows(l - 1, from * FACTOR..to * FACTOR, store)?;
            let factor = FACTOR as usize;
            own_extrema.clear();
            own_moments.clear();
            for (extrema, moments) in extrema.chunks(factor).zip(moments.chunks(factor)) {
                let (extrema, moments) = to_row(&fold(extrema, moments));
                own_extrema.push(extrema);
                own_moments.push(moments);
            }
            store.write(
                l,
                from,
                bytemuck::cast_slice(&own_extrema),
                bytemuck::cast_slice(&own_moments),
            )?;
        }
        Ok(())
    }
}

/// Writes only non-empty rows; in a gap there are few.
fn blank<E>(level: usize, rows: Range<u64>, store: &mut dyn RowsMut) -> Result<(), StoreError> {
    let (mut extrema, mut moments) = (Vec::new(), Vec::new());
    for mut stretch in store.present(level, rows)? {
        while !stretch.is_empty() {
            let count = (stretch.end - stretch.start).min(BATCH as u64);
            extrema.resize(count as usize * size_of::<[E; EXTREMA]>(), 0);
            moments.resize(count as usize * size_of::<[f64; MOMENTS]>(), 0);
            store.read(level, stretch.start, &mut extrema, &mut moments)?;
            if extrema.iter().chain(&moments).any(|byte| *byte != 0) {
                extrema.fill(0);
                moments.fill(0);
                store.write(level, stretch.start, &extrema, &moments)?;
            }
            stretch.start += count;
        }
    }
    Ok(())
}

type RowVecs<E> = (Vec<[E; EXTREMA]>, Vec<[f64; MOMENTS]>);

/// In the order of [`Levels::complete`], so that both give the same bits.
fn fold<E: Extreme>(extrema: &[[E; EXTREMA]], moments: &[[f64; MOMENTS]]) -> Summary<E> {
    let rows = extrema.iter().zip(moments);
    rows.fold(Summary::EMPTY, |sum, (extrema, moments)| {
        sum.merge(&from_row(*extrema, *moments))
    })
}
