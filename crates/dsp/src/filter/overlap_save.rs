//! FIR filters by overlap-save.
//!
//! Taps are real, so one transform filters two blocks, as its real and imaginary part. Each block starts with the last
//! samples of the one before, one fewer than taps, where circular wrap-around falls; these are dropped. Blocks lie at
//! fixed distances from the first sample.

use std::sync::Arc;

use num_complex::Complex;
use rustfft::Fft;

use super::direct_sums::DirectSums;
use crate::isa::{Isa, Kernel, Level};
use crate::spectrum::{Precision, plan_cache};

/// Two blocks, and the results of the two before.
#[derive(Clone)]
pub(super) struct OverlapSave<T: Precision> {
    isa: Isa,
    forward: Arc<dyn Fft<T>>,
    inverse: Arc<dyn Fft<T>>,
    /// Spectrum of the taps over the transform length.
    gains: Vec<Complex<T>>,
    /// The last samples, one fewer than taps, then both blocks.
    row: Vec<T>,
    filled: usize,
    ready: Vec<T>,
    work: Vec<Complex<T>>,
    scratch: Vec<Complex<T>>,
}

/// Longer transforms leave the caches and need more memory.
const LONG_FILTER_TAPS: usize = 1 << 16;

/// Four times the taps, so that most of a block is results; twice for very long filters.
fn transform_length(taps: usize) -> usize {
    let times = if taps < LONG_FILTER_TAPS { 4 } else { 2 };
    (times * taps).next_power_of_two().max(1024)
}

pub(super) fn bytes<T>(taps: usize) -> u64 {
    let length = transform_length(taps) as u64;
    let block = length + 1 - taps as u64;
    // Gains, values, scratch memory and twiddle factors of both transforms; then row and results.
    let numbers = 2 * 5 * length + taps as u64 + 4 * block;
    numbers * size_of::<T>() as u64
}

impl<T: Precision> OverlapSave<T> {
    pub(super) fn new(isa: Isa, taps: &[f64]) -> Self {
        let length = transform_length(taps.len());
        let block = length + 1 - taps.len();
        let (forward, inverse) = (
            plan_cache::complex_forward::<T>(length),
            plan_cache::complex_inverse::<T>(length),
        );
        let zero = Complex::new(T::zero(), T::zero());
        let longest = forward
            .get_inplace_scratch_len()
            .max(inverse.get_inplace_scratch_len());
        let mut scratch = vec![zero; longest];
        let mut gains = vec![zero; length];
        for (gain, tap) in gains.iter_mut().zip(taps) {
            gain.re = T::of(*tap / length as f64);
        }
        forward.process_with_scratch(&mut gains, &mut scratch);
        Self {
            isa,
            forward,
            inverse,
            gains,
            row: vec![T::zero(); taps.len() - 1 + 2 * block],
            filled: 0,
            ready: vec![T::zero(); 2 * block],
            work: vec![zero; length],
            scratch,
        }
    }

    pub(super) fn latency(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn reset(&mut self) {
        self.row.fill(T::zero());
        self.filled = 0;
    }

    pub(super) fn process(&mut self, reversed: &[T], input: &[T], output: &mut [T]) {
        let (both, before) = (self.ready.len(), self.row.len() - self.ready.len());
        let (mut input, mut output) = (input, output);
        while !input.is_empty() {
            let count = input.len().min(both - self.filled);
            let (now, later) = input.split_at(count);
            let (out_now, out_later) = output.split_at_mut(count);
            let range = self.filled..self.filled + count;
            self.row[before + range.start..before + range.end].copy_from_slice(now);
            out_now.copy_from_slice(&self.ready[range.clone()]);
            self.filled = range.end;
            if self.filled == both {
                self.transform(reversed);
                self.row.copy_within(both.., 0);
                self.filled = 0;
            }
            (input, output) = (later, out_later);
        }
    }

    fn transform(&mut self, reversed: &[T]) {
        let block = self.ready.len() / 2;
        let length = self.work.len();
        let (first, second) = (&self.row[..length], &self.row[block..]);
        let finite = self.isa.run_narrow(Interleave {
            first,
            second,
            into: &mut self.work,
        });
        if !finite {
            // Transforms spread non-finite values over both blocks.
            self.isa.run(DirectSums {
                reversed,
                row: &self.row,
                results: &mut self.ready,
            });
            return;
        }
        self.forward
            .process_with_scratch(&mut self.work, &mut self.scratch);
        self.isa.run_narrow(Products {
            values: &mut self.work,
            gains: &self.gains,
        });
        self.inverse
            .process_with_scratch(&mut self.work, &mut self.scratch);
        let (first, second) = self.ready.split_at_mut(block);
        let from = &self.work[length - block..];
        self.isa.run_narrow(Deinterleave {
            from,
            first,
            second,
        });
    }
}

/// Returns whether all are finite.
struct Interleave<'a, T> {
    first: &'a [T],
    second: &'a [T],
    into: &'a mut [Complex<T>],
}

impl<T: Precision> Kernel for Interleave<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run<L: Level>(self, _: L) -> bool {
        // Sixteen sums hide latency.
        let mut sums = [T::zero(); 16];
        let rows = self
            .first
            .chunks_exact(16)
            .zip(self.second.chunks_exact(16));
        for ((first, second), into) in rows.zip(self.into.chunks_exact_mut(16)) {
            for k in 0..16 {
                let (re, im) = (first[k], second[k]);
                into[k] = Complex::new(re, im);
                sums[k] = sums[k] + (re * T::zero() + im * T::zero());
            }
        }
        sums.iter().all(|sum| *sum == T::zero())
    }
}

struct Products<'a, T> {
    values: &'a mut [Complex<T>],
    gains: &'a [Complex<T>],
}

impl<T: Precision> Kernel for Products<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        for (value, gain) in self.values.iter_mut().zip(self.gains) {
            *value = Complex::new(
                value.re * gain.re - value.im * gain.im,
                value.re * gain.im + value.im * gain.re,
            );
        }
    }
}

struct Deinterleave<'a, T> {
    from: &'a [Complex<T>],
    first: &'a mut [T],
    second: &'a mut [T],
}

impl<T: Precision> Kernel for Deinterleave<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        let parts = self.first.iter_mut().zip(self.second);
        for ((first, second), value) in parts.zip(self.from) {
            (*first, *second) = (value.re, value.im);
        }
    }
}
