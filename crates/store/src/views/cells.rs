//! Divides samples into buckets of level 0.

use isochrony_dsp::stats::{Accumulator, Summary, summaries};

use super::row::ViewSample;
use crate::StoreError;

const BLOCK: usize = 32;

/// Collects a bucket's samples until it is full or a later one begins.
///
/// A row summarises all samples of its bucket across gaps, to the last bit independent of how they arrived.
#[derive(Debug)]
pub(crate) struct Cells<T: ViewSample> {
    bucket: usize,
    /// Bucket of sample `next - 1`, or of `next` if nothing was collected since its start.
    row: u64,
    partial: Accumulator<T>,
    started: bool,
    next: i64,
    block: [Summary<T::Extreme>; BLOCK],
}

impl<T: ViewSample> Cells<T> {
    pub(crate) fn new(bucket: i64) -> Self {
        Self {
            bucket: bucket as usize,
            row: 0,
            partial: Accumulator::new(),
            started: false,
            next: 0,
            block: [Summary::EMPTY; BLOCK],
        }
    }

    /// Later samples must have index `next` or higher.
    pub(crate) fn restart(&mut self, next: i64) {
        self.partial.reset();
        self.started = false;
        self.next = next;
        self.row = next as u64 / self.bucket as u64;
    }

    pub(crate) fn next(&self) -> i64 {
        self.next
    }

    /// Takes samples from `index >= next` on; emits completed rows in order.
    pub(crate) fn feed(
        &mut self,
        index: i64,
        bytes: &[u8],
        mut emit: impl FnMut(u64, &Summary<T::Extreme>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let copy;
        let samples: &[T] = match bytemuck::try_cast_slice(bytes) {
            Ok(samples) => samples,
            // Unaligned input; mappings and our buffers are aligned.
            Err(_) => {
                copy = bytemuck::pod_collect_to_vec::<u8, T>(bytes);
                &copy
            }
        };
        let row = index as u64 / self.bucket as u64;
        if row > self.row {
            self.finish(&mut emit)?;
            self.row = row;
        }
        self.next = index + samples.len() as i64;
        let offset = (index as u64 % self.bucket as u64) as usize;
        let mut samples = samples;
        if offset > 0 || self.started {
            let (part, rest) = samples.split_at(samples.len().min(self.bucket - offset));
            samples = rest;
            self.collect(part);
            if offset + part.len() == self.bucket {
                self.finish(&mut emit)?;
                self.row += 1;
            }
        }
        while samples.len() >= self.bucket {
            let (whole, rest) = samples.split_at(samples.len() / self.bucket * self.bucket);
            samples = rest;
            for whole in whole.chunks(self.bucket * BLOCK) {
                // Cannot fail: the bucket is not empty and the block has room.
                let count = summaries(whole, self.bucket, &mut self.block).unwrap_or_default();
                for summary in &self.block[..count] {
                    emit(self.row, summary)?;
                    self.row += 1;
                }
            }
        }
        self.collect(samples);
        Ok(())
    }

    fn collect(&mut self, part: &[T]) {
        if !part.is_empty() {
            self.partial.push(part);
            self.started = true;
        }
    }

    pub(crate) fn finish(
        &mut self,
        mut emit: impl FnMut(u64, &Summary<T::Extreme>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if self.started {
            let summary = self.partial.finish();
            self.partial.reset();
            self.started = false;
            emit(self.row, &summary)?;
        }
        Ok(())
    }
}
