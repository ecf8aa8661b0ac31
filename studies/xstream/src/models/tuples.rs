//! `<time, value>` tuples: one ([`Row`]), and consecutive ones in shared pieces ([`Rows`]).

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::Data;
use crate::kernels::Cell;

/// Time stamp and value: 12 bytes for a 32-bit sample, 16 for 64 bits.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, packed(4))]
pub struct Row<T> {
    pub time: i64,
    pub value: T,
}

impl Cell for Row<f64> {
    fn get(self) -> f64 {
        self.value
    }

    fn set(&mut self, value: f64) {
        self.value = value;
    }
}

pub(super) type Piece<T> = (Arc<Vec<Row<T>>>, Range<usize>);

/// Consecutive rows, in pieces.
#[derive(Clone)]
pub struct Rows<T> {
    pub(super) start: i64,
    pub(super) len: usize,
    pub(super) pieces: SmallVec<[Piece<T>; 1]>,
}

impl<T: Copy> Rows<T> {
    pub fn new(start: i64, rows: Vec<Row<T>>) -> Self {
        let len = rows.len();
        Self {
            start,
            len,
            pieces: SmallVec::from_iter([(Arc::new(rows), 0..len)]),
        }
    }

    /// A source's samples with their time stamps.
    pub fn stamped(start: i64, samples: &[T]) -> Self {
        let rows = samples.iter().enumerate().map(|(k, &value)| Row {
            time: start + k as i64,
            value,
        });
        Self::new(start, rows.collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = Row<T>> + '_ {
        self.pieces
            .iter()
            .flat_map(|(rows, part)| rows[part.clone()].iter().copied())
    }

    pub(super) fn end(&self) -> i64 {
        self.start + self.len as i64
    }

    pub(super) fn append(&mut self, next: Self) {
        self.len += next.len;
        self.pieces.extend(next.pieces);
    }

    pub(super) fn cut(&self, start: i64, end: i64) -> Self {
        let mut skip = (start - self.start) as usize;
        let mut left = (end - start) as usize;
        let mut pieces = SmallVec::new();
        for (rows, part) in &self.pieces {
            if left == 0 {
                break;
            }
            if skip >= part.len() {
                skip -= part.len();
                continue;
            }
            let take = left.min(part.len() - skip);
            pieces.push((rows.clone(), part.start + skip..part.start + skip + take));
            (skip, left) = (0, left - take);
        }
        Self {
            start,
            len: (end - start) as usize,
            pieces,
        }
    }
}

impl<T: Copy> Data for Rows<T> {
    fn extent(&self) -> (i64, i64, u64) {
        (self.start, self.end(), self.len as u64)
    }
}
