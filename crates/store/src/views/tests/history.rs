//! Random histories of a signal.

use std::cell::Cell;

use proptest::prelude::*;

use super::memory::{Memory, Model};
use super::oracle::{Noise, mix};
use crate::views::{Builder, LEVELS, Rows, Source, bucket, rows_stored};

#[derive(Debug, Clone)]
pub(super) enum Step {
    Append(usize),
    Gap(usize),
    /// Into the gap nearest to this fraction of the signal.
    Fill(f64, usize),
    Invalidate(f64, usize),
    Overwrite(f64, usize),
    /// The last samples were never committed.
    Rollback(usize),
    Flush,
    Reopen,
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    // In rows of level 0, so that few steps reach several levels.
    let long = prop_oneof![4 => 1usize..3, 2 => 3usize..200, 1 => 200usize..3000];
    prop_oneof![
        6 => long.clone().prop_map(Step::Append),
        2 => long.clone().prop_map(Step::Gap),
        2 => (0.0..1.0, long.clone()).prop_map(|(at, n)| Step::Fill(at, n)),
        1 => (0.0..1.0, long.clone()).prop_map(|(at, n)| Step::Invalidate(at, n)),
        1 => (0.0..1.0, long.clone()).prop_map(|(at, n)| Step::Overwrite(at, n)),
        1 => long.prop_map(Step::Rollback),
        1 => Just(Step::Flush),
        1 => Just(Step::Reopen),
    ]
}

pub(super) struct Bench<T: Noise> {
    pub(super) model: Model<T>,
    pub(super) store: Memory,
    pub(super) builder: Builder,
    /// Odd lengths: nothing aligns with buckets by itself.
    pub(super) seed: u64,
}

impl<T: Noise> Bench<T> {
    pub(super) fn new() -> Self {
        let mut store = Memory::new(T::DTYPE);
        let model = Model {
            samples: Vec::new(),
            valid: Vec::new(),
            visited: Cell::new(0),
        };
        let builder = Builder::open(T::DTYPE, 0, 0, &mut store, &model).expect("memory");
        Self {
            model,
            store,
            builder,
            seed: 1,
        }
    }

    pub(super) fn samples(&mut self, n: usize) -> Vec<T> {
        self.seed += 1;
        (0..n as u64)
            .map(|i| T::noise(self.seed << 32 | i))
            .collect()
    }

    pub(super) fn length(&self, rows: usize) -> usize {
        let bucket = bucket(T::DTYPE, 0) as usize;
        (rows * bucket)
            .saturating_sub(mix(self.seed + rows as u64) as usize % (bucket * 3 / 2))
            .max(1)
    }

    pub(super) fn write(&mut self, index: i64, samples: &[T]) {
        self.model.set(index, samples);
        self.builder
            .feed(index, bytemuck::cast_slice(samples), &mut self.store)
            .expect("memory");
    }

    pub(super) fn apply(&mut self, step: &Step) {
        let end = self.model.valid.len();
        let at = |part: f64| (end as f64 * part) as usize;
        match *step {
            Step::Append(rows) => {
                let samples = self.samples(self.length(rows));
                let mut index = end as i64;
                for block in samples.chunks(1 + mix(self.seed) as usize % 1500) {
                    self.write(index, block);
                    index += block.len() as i64;
                }
            }
            Step::Gap(rows) => {
                let end = end + self.length(rows);
                self.model.samples.resize(end, T::default());
                self.model.valid.resize(end, false);
            }
            Step::Fill(part, rows) => {
                let Some(start) = (at(part)..end).find(|i| !self.model.valid[*i]) else {
                    return;
                };
                let room = self.model.valid[start..]
                    .iter()
                    .take_while(|valid| !**valid)
                    .count();
                let samples = self.samples(self.length(rows).min(room));
                self.write(start as i64, &samples);
            }
            Step::Invalidate(part, rows) => {
                let range = at(part)..(at(part) + self.length(rows)).min(end);
                self.model.valid[range.clone()].fill(false);
                self.builder
                    .invalidate(range.start as i64..range.end as i64);
            }
            Step::Overwrite(part, rows) => {
                for index in at(part)..(at(part) + self.length(rows)).min(end) {
                    if self.model.valid[index] {
                        let sample = self.samples(1);
                        self.write(index as i64, &sample);
                    }
                }
            }
            Step::Rollback(rows) => {
                let end = end.saturating_sub(self.length(rows));
                self.model.samples.truncate(end);
                self.model.valid.truncate(end);
                self.builder
                    .rewind(end as i64, &mut self.store, &self.model)
                    .expect("memory");
            }
            Step::Flush => self.builder.flush(&mut self.store).expect("memory"),
            Step::Reopen => {
                self.builder
                    .refresh(&mut self.store, &self.model)
                    .expect("memory");
                let (built, end) = (self.builder.built(), end as i64);
                self.builder = Builder::open(T::DTYPE, built, end, &mut self.store, &self.model)
                    .expect("memory");
            }
        }
    }

    pub(super) fn source(&self) -> Source<'_> {
        let built = self.builder.built().min(self.model.valid.len() as i64);
        Source {
            dtype: T::DTYPE,
            built,
            rows: &self.store,
            samples: &self.model,
        }
    }

    pub(super) fn check_rows(&self) {
        let mut fresh = Memory::new(T::DTYPE);
        let end = self.model.valid.len() as i64;
        let mut builder = Builder::open(T::DTYPE, 0, end, &mut fresh, &self.model).expect("memory");
        builder.flush(&mut fresh).expect("memory");
        let built = self.builder.built();
        assert!(built <= end);
        for level in 0..LEVELS {
            let rows = rows_stored(T::DTYPE, level, built).min(rows_stored(
                T::DTYPE,
                level,
                builder.built(),
            ));
            let read = |store: &Memory| {
                let mut extrema = vec![0; rows as usize * store.extrema_bytes];
                let mut moments = vec![0; rows as usize * 24];
                store
                    .read(level, 0, &mut extrema, &mut moments)
                    .expect("memory");
                (extrema, moments)
            };
            assert!(
                read(&self.store) == read(&fresh),
                "rows of level {level} differ"
            );
        }
    }
}
