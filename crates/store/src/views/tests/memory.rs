//! A signal and its rows in memory.

use std::cell::Cell;
use std::ops::Range;

use isochrony_segment::{DType, Sample};

use crate::StoreError;
use crate::views::{EXTREMA, LEVELS, OnPiece, Rows, RowsMut, Samples, extreme_dtype};

#[derive(Default, Clone, PartialEq)]
pub(super) struct Memory {
    pub(super) levels: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) extrema_bytes: usize,
    pub(super) written: usize,
}

impl Memory {
    pub(super) fn new(dtype: DType) -> Self {
        Self {
            levels: vec![Default::default(); LEVELS],
            extrema_bytes: EXTREMA * extreme_dtype(dtype).size(),
            written: 0,
        }
    }
}

pub(super) fn copy_out(stored: &[u8], at: usize, out: &mut [u8]) {
    out.fill(0);
    let from = at.min(stored.len());
    let to = (at + out.len()).min(stored.len());
    out[..to - from].copy_from_slice(&stored[from..to]);
}

pub(super) fn copy_in(stored: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    stored.resize(stored.len().max(at + bytes.len()), 0);
    stored[at..at + bytes.len()].copy_from_slice(bytes);
}

impl Rows for Memory {
    fn read(
        &self,
        level: usize,
        first: u64,
        extrema: &mut [u8],
        moments: &mut [u8],
    ) -> Result<(), StoreError> {
        assert_eq!(extrema.len() / self.extrema_bytes, moments.len() / 24);
        copy_out(
            &self.levels[level].0,
            first as usize * self.extrema_bytes,
            extrema,
        );
        copy_out(&self.levels[level].1, first as usize * 24, moments);
        Ok(())
    }

    fn present(&self, level: usize, rows: Range<u64>) -> Result<Vec<Range<u64>>, StoreError> {
        let end = rows.end.min(self.levels[level].1.len() as u64 / 24);
        Ok(Vec::from_iter(
            (rows.start < end).then_some(rows.start..end),
        ))
    }
}

impl RowsMut for Memory {
    fn write(
        &mut self,
        level: usize,
        first: u64,
        extrema: &[u8],
        moments: &[u8],
    ) -> Result<(), StoreError> {
        assert_eq!(extrema.len() / self.extrema_bytes, moments.len() / 24);
        self.written += extrema.len() + moments.len();
        copy_in(
            &mut self.levels[level].0,
            first as usize * self.extrema_bytes,
            extrema,
        );
        copy_in(&mut self.levels[level].1, first as usize * 24, moments);
        Ok(())
    }
}

#[derive(Clone, Default)]
pub(super) struct Model<T> {
    pub(super) samples: Vec<T>,
    pub(super) valid: Vec<bool>,
    pub(super) visited: Cell<i64>,
}

impl<T: Sample> Model<T> {
    pub(super) fn set(&mut self, index: i64, samples: &[T]) {
        let (start, end) = (index as usize, index as usize + samples.len());
        if end > self.samples.len() {
            self.samples.resize(end, T::default());
            self.valid.resize(end, false);
        }
        self.samples[start..end].copy_from_slice(samples);
        self.valid[start..end].fill(true);
    }
}

impl<T: Sample> Samples for Model<T> {
    fn visit(&self, range: Range<i64>, piece: &mut OnPiece<'_>) -> Result<(), StoreError> {
        let mut index = range.start as usize;
        for group in
            self.valid[index..(range.end as usize).min(self.valid.len())].chunk_by(|a, b| a == b)
        {
            if group[0] {
                self.visited.set(self.visited.get() + group.len() as i64);
                piece(
                    index as i64,
                    bytemuck::cast_slice(&self.samples[index..index + group.len()]),
                )?;
            }
            index += group.len();
        }
        Ok(())
    }

    fn missing(&self, range: Range<i64>) -> i64 {
        self.valid[range.start as usize..range.end as usize]
            .iter()
            .filter(|valid| !**valid)
            .count() as i64
    }
}
