//! Statistics of all samples read, or of each run.

use std::ops::Range;

use isochrony_dsp::stats::{
    Accumulator, Extreme, IndexedSums, Integer, IntegerSums, Statistic, Summary,
};
use isochrony_segment::{Bool8, Complex32, Complex64, DType, Sample, SigSeg, dispatch};
use isochrony_store::views::View;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::stats::{BoundState, ToI64};
use crate::{OpError, OpErrorKind, PartialResult};

pub(super) trait Mergeable: Statistic<Extreme: ToI64 + Sample> {
    type Sums: RowSums<Self>;
}

/// Summary of the samples of a row. However they are cut into parts, the bits are the same.
pub(super) trait RowSums<T: Statistic>:
    Clone + Default + Serialize + DeserializeOwned + Send + Sync + 'static
{
    fn push(&mut self, start: i64, samples: &[T]);

    fn append(&mut self, later: &Self);

    fn summary(&self) -> Summary<T::Extreme>;

    fn heap_bytes(&self) -> usize;
}

/// Sums of integers are exact in any order.
impl<T: Integer + Statistic<Moments = IntegerSums<T>>> RowSums<T> for Accumulator<T> {
    fn push(&mut self, _: i64, samples: &[T]) {
        Accumulator::push(self, samples);
    }

    fn append(&mut self, later: &Self) {
        Accumulator::append(self, later);
    }

    fn summary(&self) -> Summary<<T as Statistic>::Extreme> {
        self.finish()
    }

    fn heap_bytes(&self) -> usize {
        0
    }
}

/// Sequences of increasing indices: a selection may rewind.
#[derive(Clone, Serialize, Deserialize)]
#[serde(bound = "")]
pub(super) struct Sequences<T: Statistic>(Vec<IndexedSums<T>>);

impl<T: Statistic> Default for Sequences<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Statistic> Sequences<T> {
    /// Where samples from `start` belong.
    fn sequence_at(&mut self, start: i64) -> &mut IndexedSums<T> {
        let last = self.0.last().and_then(IndexedSums::end);
        if self.0.is_empty() || last.is_some_and(|end| start < end) {
            self.0.push(IndexedSums::new());
        }
        let at = self.0.len() - 1;
        &mut self.0[at]
    }
}

impl<T: Statistic> RowSums<T> for Sequences<T> {
    fn push(&mut self, start: i64, samples: &[T]) {
        self.sequence_at(start).push(start, samples);
    }

    fn append(&mut self, later: &Self) {
        for sums in &later.0 {
            if let Some(start) = sums.start() {
                self.sequence_at(start).append(sums);
            }
        }
    }

    fn summary(&self) -> Summary<T::Extreme> {
        let sums = self.0.iter().map(IndexedSums::summary);
        sums.fold(Summary::EMPTY, |all, sums| all.merge(&sums))
    }

    fn heap_bytes(&self) -> usize {
        let inside = self.0.iter().map(IndexedSums::heap_bytes).sum::<usize>();
        inside + size_of_val(&self.0[..])
    }
}

macro_rules! row_sums {
    ($($type:ty => $sums:ty;)*) => {
        $(impl Mergeable for $type {
            type Sums = $sums;
        })*
    };
}

row_sums! {
    Bool8 => Accumulator<Self>;
    i8 => Accumulator<Self>;
    i16 => Accumulator<Self>;
    i32 => Accumulator<Self>;
    u8 => Accumulator<Self>;
    u16 => Accumulator<Self>;
    u32 => Accumulator<Self>;
    i64 => Sequences<Self>;
    f32 => Sequences<Self>;
    f64 => Sequences<Self>;
    Complex32 => Sequences<Self>;
    Complex64 => Sequences<Self>;
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(bound = "")]
struct StatsRow<T: Mergeable> {
    range: Range<i64>,
    sums: T::Sums,
    /// Extremes read from stored views.
    of_views: Summary<T::Extreme>,
    /// Does not continue the samples of the task before.
    begins: bool,
}

pub(super) trait WholeStats: Send {
    fn push(&mut self, samples: &SigSeg) -> Result<(), OpError>;

    /// What follows makes another row.
    fn begin_part(&mut self);

    fn partial(&mut self) -> PartialResult;

    fn combine(&mut self, next: &PartialResult) -> Result<(), OpError>;

    fn finish(&mut self, bound: &mut BoundState);
}

struct StatsRows<T: Mergeable> {
    parts: Vec<StatsRow<T>>,
    begins: bool,
}

pub(super) fn whole_stats(dtype: DType) -> Box<dyn WholeStats> {
    dispatch!(dtype, T => Box::new(StatsRows::<T> {
        parts: Vec::new(),
        begins: false,
    }))
}

impl<T: Mergeable> WholeStats for StatsRows<T> {
    fn push(&mut self, samples: &SigSeg) -> Result<(), OpError> {
        if samples.is_empty() {
            return Ok(());
        }
        let begins = std::mem::take(&mut self.begins);
        if begins || self.parts.is_empty() {
            self.parts.push(StatsRow {
                range: samples.start()..samples.end(),
                sums: <T as Mergeable>::Sums::default(),
                of_views: Summary::EMPTY,
                begins,
            });
        }
        let wrong = || {
            OpError::from(OpErrorKind::WrongItem {
                expected: "samples of their dtype",
                got: "other",
            })
        };
        if samples.dtype() != T::DTYPE {
            return Err(wrong());
        }
        if let Some(part) = self.parts.last_mut() {
            part.range = part.range.start.min(samples.start())..part.range.end.max(samples.end());
            let mut index = samples.start();
            samples.visit::<T>(|values| {
                part.sums.push(index, values);
                index += values.len() as i64;
            })?;
        }
        Ok(())
    }

    fn begin_part(&mut self) {
        self.begins = true;
    }

    fn partial(&mut self) -> PartialResult {
        let parts = std::mem::take(&mut self.parts);
        let inside = parts.iter().map(|part| part.sums.heap_bytes());
        let bytes = size_of_val(&parts[..]) + inside.sum::<usize>();
        PartialResult::new((parts, std::mem::take(&mut self.begins)), bytes as u64)
    }

    fn combine(&mut self, next: &PartialResult) -> Result<(), OpError> {
        let (parts, ends) =
            next.get::<(Vec<StatsRow<T>>, bool)>()
                .ok_or(OpErrorKind::WrongItem {
                    expected: "a partial result of stats",
                    got: "another partial result",
                })?;
        for part in parts {
            let begins = std::mem::take(&mut self.begins) || part.begins;
            match self.parts.last_mut().filter(|_| !begins) {
                Some(last) => {
                    let (start, end) = (part.range.start, part.range.end);
                    last.range = last.range.start.min(start)..last.range.end.max(end);
                    last.of_views = last.of_views.merge(&part.of_views);
                    last.sums.append(&part.sums);
                }
                None => self.parts.push(part.clone()),
            }
        }
        self.begins |= *ends;
        Ok(())
    }

    fn finish(&mut self, bound: &mut BoundState) {
        self.parts.sort_by_key(|part| part.range.start);
        for part in self.parts.drain(..) {
            bound.add_whole(&part.range, &part.of_views.merge(&part.sums.summary()));
        }
    }
}

/// Extremes and count of a view; without mean and moment.
pub(crate) fn partial_of_view(
    dtype: DType,
    view: &View,
    range: Range<i64>,
) -> Result<PartialResult, OpError> {
    dispatch!(dtype, T => {
        let mut of_views = Summary::EMPTY;
        let least = view.min.samples::<<T as Statistic>::Extreme>();
        let greatest = view.max.samples::<<T as Statistic>::Extreme>();
        let (Some(least), Some(greatest)) = (least, greatest) else {
            return Err(OpErrorKind::WrongItem {
                expected: "extremes of the samples' dtype",
                got: "other",
            }.into());
        };
        for ((&min, &max), &count) in least.iter().zip(greatest).zip(&view.count) {
            let column = Summary { min, max, count, ..Summary::EMPTY };
            of_views = of_views.merge(&column);
        }
        let part = StatsRow::<T> { range, sums: <T as Mergeable>::Sums::default(), of_views, begins: false };
        let bytes = size_of_val(&part) as u64;
        Ok(PartialResult::new((vec![part], false), bytes))
    })
}

impl BoundState {
    fn add_whole<E: Extreme + ToI64>(&mut self, range: &Range<i64>, summary: &Summary<E>) {
        self.rows.add_range(range);
        self.push(summary);
    }
}
