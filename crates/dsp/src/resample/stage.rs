//! One resampling stage: weights, and a buffer of samples.
//!
//! Positions are exact input indices. The row holds samples from index `base`. A result is computed once all its
//! samples are there.

use std::sync::Arc;

use isochrony_time::Ratio;

use super::design::{Spec, Table, Weights};
use super::kernels::{READ_AHEAD, Sums};
use crate::DspError;
use crate::isa::Isa;
use crate::spectrum::Precision;

/// Half an L1 cache.
const BLOCK_BYTES: usize = 1 << 14;

#[derive(Debug, Clone)]
pub(super) struct Stage<T> {
    isa: Isa,
    weights: Arc<Weights<T>>,
    ratio: Ratio,
    /// Samples, with room for a block and reads beyond it.
    row: Vec<T>,
    len: usize,
    base: i64,
    next: i64,
    place: i64,
    phase: u64,
}

impl<T: Precision> Stage<T> {
    pub(super) fn new(isa: Isa, operator: &'static str, spec: &Spec) -> Result<Self, DspError> {
        let weights = Weights::new(operator, spec)?;
        let block = (BLOCK_BYTES / size_of::<T>()).max(weights.taps);
        Ok(Self {
            isa,
            row: vec![T::zero(); weights.taps + weights.shift + block + READ_AHEAD],
            weights: Arc::new(weights),
            ratio: spec.ratio,
            len: 0,
            base: 0,
            next: 0,
            place: 0,
            phase: 0,
        })
    }

    pub(super) fn ratio(&self) -> Ratio {
        self.ratio
    }

    pub(super) fn reach(&self) -> (u64, u64) {
        let Weights {
            taps,
            before,
            shift,
            ..
        } = *self.weights;
        ((before + shift - 1) as u64, (taps - before) as u64)
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.row[..])
    }

    /// None on overflow.
    pub(super) fn begin(&mut self, start: i64) -> Option<i64> {
        let before = self.reach().0.cast_signed();
        let first = self.ratio.first_from(start.checked_add(before)?)?;
        (self.base, self.len) = (start, 0);
        self.seek(first)
    }

    /// None on overflow.
    pub(super) fn seek(&mut self, result: i64) -> Option<i64> {
        (self.place, self.phase) = self.ratio.place(result)?;
        self.next = result;
        Some(result)
    }

    fn end(&self) -> i64 {
        self.base.saturating_add_unsigned(self.len as u64)
    }

    pub(super) fn ready(&self, samples: usize) -> usize {
        let behind = self.reach().1;
        let end = self.end().saturating_add_unsigned(samples as u64);
        let end = self.ratio.first_from(end.saturating_sub_unsigned(behind));
        usize::try_from(end.unwrap_or(i64::MAX).saturating_sub(self.next)).unwrap_or(0)
    }

    /// Computes the results that become [`ready`](Self::ready), as far as there is room; then later results need the
    /// rest.
    pub(super) fn process(&mut self, mut input: &[T], mut output: &mut [T]) {
        while !input.is_empty() {
            if self.len == self.row.len() - READ_AHEAD {
                self.forget();
            }
            let room = self.row.len() - READ_AHEAD - self.len;
            if room == 0 && output.is_empty() {
                return;
            }
            let (now, rest) = input.split_at(room.min(input.len()));
            let ready = self.ready(now.len()).min(output.len());
            self.row[self.len..self.len + now.len()].copy_from_slice(now);
            self.len += now.len();
            let (results, others) = output.split_at_mut(ready);
            self.compute(results);
            (input, output) = (rest, others);
        }
    }

    fn compute(&mut self, results: &mut [T]) {
        let count = results.len() as i64;
        // The row keeps what the next result needs.
        let middle = (self.place - self.base) as usize;
        let at = middle + 1 - self.weights.before;
        if results.is_empty() {
            return;
        }
        if self.ratio.is_one() {
            results.copy_from_slice(&self.row[at..at + results.len()]);
        } else {
            let (weights, between) = match &self.weights.table {
                Table::Rows(rows) => (rows, None),
                Table::Cubics {
                    phases,
                    coefficients,
                } => (coefficients, Some(*phases)),
            };
            self.isa.run_narrow(Sums {
                taps: self.weights.taps,
                weights,
                between,
                pairs: self.weights.shift > 0,
                row: &self.row,
                at,
                turn: (i128::from(self.next)).rem_euclid(self.ratio.up().into()) as u64,
                phase: self.phase,
                up: self.ratio.up(),
                down: self.ratio.down(),
                results,
            });
        }
        self.next += count;
        // No sample lies beyond 64 bits.
        (self.place, self.phase) = self.ratio.place(self.next).unwrap_or((i64::MAX, 0));
    }

    fn forget(&mut self) {
        let (before, _) = self.reach();
        let needed = self.place.saturating_sub_unsigned(before);
        let gone = needed.saturating_sub(self.base).max(0);
        let gone = usize::try_from(gone).map_or(self.len, |gone| gone.min(self.len));
        self.row.copy_within(gone..self.len, 0);
        self.len -= gone;
        self.base += gone as i64;
    }
}
