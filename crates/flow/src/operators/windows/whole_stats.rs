//! Statistics of all samples read, or of each run.

use std::ops::Range;

use isochrony_dsp::stats::{Accumulator, Extreme, Statistic, Summary};
use isochrony_segment::{Bool8, Complex32, Complex64, DType, Sample, SigSeg, dispatch};
use isochrony_store::views::View;
use serde::{Deserialize, Serialize};

use super::stats::{BoundState, ToI64};
use crate::{OpError, OpErrorKind, PartialResult};

pub(super) trait Mergeable: Statistic<Extreme: ToI64 + Sample> {
    /// Whether results do not depend on cuts.
    const EXACT: bool;

    /// Total of `one` and later samples.
    fn join(one: &mut RunningSummary<Self>, later: &RunningSummary<Self>);
}

/// Summary of one part: of earlier tasks, and of the current one.
#[derive(Clone, Serialize, Deserialize)]
#[serde(bound = "")]
pub(super) struct RunningSummary<T: Statistic> {
    before: Summary<T::Extreme>,
    now: Accumulator<T>,
}

impl<T: Statistic> RunningSummary<T> {
    fn new() -> Self {
        Self {
            before: Summary::EMPTY,
            now: Accumulator::new(),
        }
    }

    fn summary(&self) -> Summary<T::Extreme> {
        self.before.merge(&self.now.finish())
    }
}

macro_rules! total {
    (exact: $($integer:ty)*; rounded: $($other:ty)*) => {
        $(impl Mergeable for $integer {
            const EXACT: bool = true;

            fn join(one: &mut RunningSummary<Self>, later: &RunningSummary<Self>) {
                one.before = one.before.merge(&later.before);
                one.now.append(&later.now);
            }
        })*
        $(impl Mergeable for $other {
            const EXACT: bool = false;

            fn join(one: &mut RunningSummary<Self>, later: &RunningSummary<Self>) {
                *one = RunningSummary {
                    before: one.summary().merge(&later.summary()),
                    now: Accumulator::new(),
                };
            }
        })*
    };
}

total! {
    exact: Bool8 i8 i16 i32 u8 u16 u32;
    rounded: i64 f32 f64 Complex32 Complex64
}

/// Whether sums do not depend on cuts.
pub(super) fn is_exact(dtype: DType) -> bool {
    dispatch!(dtype, T => T::EXACT)
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(bound = "")]
struct StatsRow<T: Statistic> {
    range: Range<i64>,
    running: RunningSummary<T>,
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

struct StatsRows<T: Statistic> {
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
                running: RunningSummary::new(),
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
            // An accumulator does not depend on cuts.
            samples.visit::<T>(|values| part.running.now.push(values))?;
        }
        Ok(())
    }

    fn begin_part(&mut self) {
        self.begins = true;
    }

    fn partial(&mut self) -> PartialResult {
        let parts = std::mem::take(&mut self.parts);
        let bytes = std::mem::size_of_val(&parts[..]) as u64;
        PartialResult::new((parts, std::mem::take(&mut self.begins)), bytes)
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
                    T::join(&mut last.running, &part.running);
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
            bound.add_whole(&part.range, &part.running.summary());
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
        let mut running = RunningSummary::<T>::new();
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
            running.before = running.before.merge(&column);
        }
        let part = StatsRow { range, running, begins: false };
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
