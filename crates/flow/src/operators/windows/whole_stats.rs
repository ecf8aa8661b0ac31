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

/// Sequences of samples: one ends where indices go back, as after a rewind of a selection.
#[derive(Clone, Serialize, Deserialize)]
#[serde(bound = "")]
pub(super) struct Sequences<T: Statistic> {
    /// May continue an earlier part.
    first: Option<IndexedSums<T>>,
    between: Vec<Summary<T::Extreme>>,
    /// May be continued, like `first` if there is no other.
    last: Option<IndexedSums<T>>,
}

impl<T: Statistic> Default for Sequences<T> {
    fn default() -> Self {
        Self {
            first: None,
            between: Vec::new(),
            last: None,
        }
    }
}

impl<T: Statistic> Sequences<T> {
    fn begin(&mut self, sums: Option<IndexedSums<T>>) {
        let ended = std::mem::replace(&mut self.last, sums);
        self.between.extend(ended.map(|sums| sums.summary()));
    }
}

impl<T: Statistic> RowSums<T> for Sequences<T> {
    fn push(&mut self, start: i64, samples: &[T]) {
        let first = self.first.get_or_insert_default();
        if !self.last.as_ref().unwrap_or(first).continues_at(start) {
            self.begin(Some(IndexedSums::from_leaf_start()));
        }
        if let Some(sums) = self.last.as_mut().or(self.first.as_mut()) {
            sums.push(start, samples);
        }
    }

    fn append(&mut self, later: &Self) {
        let Some(next) = &later.first else {
            return;
        };
        let first = self.first.get_or_insert_default();
        let sums = self.last.as_mut().unwrap_or(first);
        match next.start().is_none_or(|start| sums.continues_at(start)) {
            true => sums.append(next),
            false => self.begin(Some(next.clone())),
        }
        if let Some(last) = &later.last {
            self.begin(None);
            self.between.extend_from_slice(&later.between);
            self.last = Some(last.clone());
        }
    }

    fn summary(&self) -> Summary<T::Extreme> {
        let of = |sums: &Option<IndexedSums<T>>| sums.as_ref().map(IndexedSums::summary);
        let between = self.between.iter().copied();
        let all = of(&self.first)
            .into_iter()
            .chain(between)
            .chain(of(&self.last));
        all.fold(Summary::EMPTY, |all, sums| all.merge(&sums))
    }

    fn heap_bytes(&self) -> usize {
        let open = self.first.iter().chain(&self.last);
        size_of_val(&self.between[..]) + open.map(IndexedSums::heap_bytes).sum::<usize>()
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
        self.push(std::slice::from_ref(summary));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isochrony_dsp::stats::LEAF;

    fn value(index: i64) -> f64 {
        ((index * 7919) % 1013) as f64 * 1.1
    }

    fn sums_of(pieces: &[Range<i64>]) -> Sequences<f64> {
        let mut sums = Sequences::default();
        for piece in pieces {
            let samples: Vec<f64> = piece.clone().map(value).collect();
            sums.push(piece.start, &samples);
        }
        sums
    }

    fn bits(sums: &Sequences<f64>) -> (u64, u64, u64) {
        let summary = RowSums::summary(sums);
        (summary.count, summary.mean.to_bits(), summary.m2.to_bits())
    }

    /// Begins anew, within a leaf, at one, and before all.
    const PIECES: [Range<i64>; 9] = [
        100..9000,
        9000..9100,
        40..200,
        4096..5000,
        0..4096,
        3000..4096,
        4096..20_000,
        -50..70,
        70..300,
    ];

    #[test]
    fn rewinds_end_sequences_alike_however_they_are_cut() {
        let whole = bits(&sums_of(&PIECES));
        assert_eq!(
            whole.0,
            PIECES
                .iter()
                .map(|piece| piece.clone().count() as u64)
                .sum::<u64>()
        );
        for first in 0..=PIECES.len() {
            for second in first..=PIECES.len() {
                let mut joined = sums_of(&PIECES[..first]);
                let mut rest = sums_of(&PIECES[first..second]);
                rest.append(&sums_of(&PIECES[second..]));
                joined.append(&rest);
                assert_eq!(bits(&joined), whole, "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn samples_that_two_streams_give_in_turn_are_one_sequence() {
        let mut sums = Sequences::<f64>::default();
        for index in 0..3 * LEAF as i64 {
            sums.push(index, &[value(index)]);
            sums.push(index, &[-1.0]);
        }
        assert!(sums.last.is_none() && sums.between.is_empty());
        assert!(sums.heap_bytes() < 1 << 18, "{}", sums.heap_bytes());
    }
}
