//! Resamples several signals to one grid of civil time.
//!
//! Grid point *k* is at `span.start + k / rate`, exactly. [`Method::Nearest`] has values up to half a period beyond the
//! ends of a gap-free range, [`Method::Linear`] between two samples of one; others are NaN. Nothing is filtered: a
//! coarser grid aliases.

use std::ops::Range;

use isochrony_segment::SigSeg;
use isochrony_time::{Fixed, GridSpan, Prefer, Rate, RunId};

use crate::error::{StoreError, overflow};
use crate::interrupt;
use crate::selection::{Stretch, write_values};
use crate::signal::Signal;
use crate::store::Store;

/// Interpolation between samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Method {
    /// The nearest sample.
    #[default]
    Nearest,
    /// The line through the neighbours.
    Linear,
}

/// Signals on one grid: `rows x columns` values, row by row, in each signal's unit.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Gathered {
    /// Signals by row.
    pub names: Vec<String>,
    /// Time of the first column, UTC ns since 1970.
    pub start: Fixed,
    /// Columns per second.
    pub rate: Rate,
    /// Grid points before the end of the span.
    pub columns: usize,
    /// Values; NaN where missing.
    pub values: Vec<f64>,
}

impl Gathered {
    /// The values of one signal.
    #[must_use]
    pub fn row(&self, row: usize) -> &[f64] {
        let start = (row * self.columns).min(self.values.len());
        &self.values[start..(start + self.columns).min(self.values.len())]
    }
}

/// Samples read and columns computed per step: bounds the memory.
const BLOCK: i64 = 1 << 18;

impl Store {
    /// Values of signals at `span.start + k / rate` before `span.end`. Where runs overlap in time, the first stored
    /// applies.
    ///
    /// # Errors
    /// [`StoreError::NoSuchSignal`], [`StoreError::NoCivilTime`], [`StoreError::CannotGather`] for complex signals,
    /// [`StoreError::InvalidRange`], [`StoreError::TooLarge`] for memory.
    pub fn gather<S: AsRef<str>>(
        &self,
        names: &[S],
        span: Range<Fixed>,
        rate: Rate,
        method: Method,
    ) -> Result<Gathered, StoreError> {
        let grid = Grid::new(&span, rate)?;
        let too_large = || StoreError::TooLarge {
            what: "gathering these signals",
            bytes: grid.columns as u128 * names.len() as u128 * 8,
            limit: isize::MAX as u128,
        };
        let columns = usize::try_from(grid.columns).map_err(|_| too_large())?;
        let length = columns.checked_mul(names.len()).ok_or_else(too_large)?;
        let mut values: Vec<f64> = Vec::new();
        values.try_reserve_exact(length).map_err(|_| too_large())?;
        while values.len() < length {
            interrupt::check("gather")?;
            values.resize(length.min(values.len() + BLOCK as usize), f64::NAN);
        }
        let mut rows = values.chunks_exact_mut(columns.max(1));
        for name in names {
            let signal = self.signal(name.as_ref())?;
            if signal.dtype().is_complex() {
                return Err(StoreError::CannotGather {
                    signal: signal.name().into(),
                    reason: "its samples are complex; gather takes real signals only",
                });
            }
            if let Some(row) = rows.next() {
                fill_row(&signal, &grid, method, row)?;
            }
        }
        Ok(Gathered {
            names: names.iter().map(|name| name.as_ref().to_owned()).collect(),
            start: span.start,
            rate,
            columns,
            values,
        })
    }
}

struct Grid {
    start: Fixed,
    end: Fixed,
    period_ns: (u64, u64),
    rate: Rate,
    columns: u64,
}

impl Grid {
    fn new(span: &Range<Fixed>, rate: Rate) -> Result<Self, StoreError> {
        if span.start > span.end {
            return Err(StoreError::InvalidRange {
                signal: String::new(),
                start: isochrony_time::civil::format(span.start),
                end: isochrony_time::civil::format(span.end),
            });
        }
        let mut grid = Self {
            start: span.start,
            end: span.end,
            period_ns: rate.period_ns(),
            rate,
            columns: u64::MAX,
        };
        grid.columns = grid.first_not_before(span.end)?;
        Ok(grid)
    }

    fn time(&self, column: u64) -> Result<Fixed, StoreError> {
        let column = i64::try_from(column).map_err(|_| overflow("time of a column"))?;
        let offset = self.rate.duration_ns(column)?;
        self.start
            .checked_add(offset)
            .ok_or_else(|| overflow("time of a column"))
    }

    /// First column at or after `time`, at most `columns`.
    fn first_not_before(&self, time: Fixed) -> Result<u64, StoreError> {
        let offset = time
            .checked_sub(self.start)
            .ok_or_else(|| overflow("offset from the grid's start"))?;
        if offset <= Fixed::ZERO {
            return Ok(0);
        }
        let about = self.rate.samples_in(offset)?.floor();
        let mut column = u64::try_from(about).map_err(|_| overflow("number of columns"))?;
        // Rounded times decide; the quotient is at most one off.
        column = column.saturating_sub(1);
        while column < self.columns && self.time(column)? < time {
            column += 1;
        }
        Ok(column.min(self.columns))
    }
}

fn fill_row(
    signal: &Signal,
    grid: &Grid,
    method: Method,
    row: &mut [f64],
) -> Result<(), StoreError> {
    let Some(civil) = signal.empirical()? else {
        return Err(StoreError::NoCivilTime {
            signal: signal.name().into(),
        });
    };
    let reach = match method {
        Method::Nearest => signal.half_period()?,
        Method::Linear => signal.state().meta.expected_rate().duration_ns(1)?,
    };
    // Samples just outside the span count.
    let around = grid.start.checked_sub(reach).unwrap_or(grid.start)
        ..grid.end.checked_add(reach).unwrap_or(grid.end);
    for stretch in signal.select(around)?.stretches() {
        let first = signal.time_of(stretch.range.start)?.value;
        let last = signal.time_of(stretch.range.end - 1)?.value;
        let (from, to) = match method {
            Method::Nearest => (first.checked_sub(reach), last.checked_add(reach)),
            // The last sample itself is a value too.
            Method::Linear => (Some(first), last.checked_add(Fixed::EPSILON)),
        };
        let from = grid.first_not_before(from.unwrap_or(first))?;
        let to = grid.first_not_before(to.unwrap_or(last))?;
        if from >= to {
            continue;
        }
        let prefer = Some(Prefer::Run(RunId(stretch.run)));
        let spans = civil.index_spans(grid.time(from)?, grid.period_ns, to - from, prefer)?;
        let mut block = Block::default();
        for span in spans {
            let column = from + span.first;
            fill_span(signal, &stretch, &span, column, method, row, &mut block)?;
        }
    }
    Ok(())
}

#[derive(Default)]
struct Block {
    range: Range<i64>,
    values: Vec<f64>,
}

impl Block {
    fn value(
        &mut self,
        signal: &Signal,
        within: &Range<i64>,
        index: i64,
    ) -> Result<f64, StoreError> {
        if !self.range.contains(&index) {
            // The left neighbour may be needed next.
            let start = (index - 1).max(within.start);
            let range = start..within.end.min(start.saturating_add(BLOCK));
            let segment: SigSeg = signal.read(range.clone())?;
            self.values.resize((range.end - range.start) as usize, 0.0);
            write_values(&segment, &mut self.values)?;
            self.range = range;
        }
        Ok(self.values[(index - self.range.start) as usize])
    }
}

fn fill_span(
    signal: &Signal,
    stretch: &Stretch,
    span: &GridSpan,
    column: u64,
    method: Method,
    row: &mut [f64],
    block: &mut Block,
) -> Result<(), StoreError> {
    let range = &stretch.range;
    let last = range.end - 1;
    // Relative to the range, for f64 precision.
    let base = span
        .position
        .checked_sub(Fixed::from_int(range.start))
        .ok_or_else(|| overflow("position of a column"))?
        .to_f64();
    let count = usize::try_from(span.count).unwrap_or(usize::MAX);
    let columns = row.iter_mut().skip(column as usize).take(count);
    for (k, out) in columns.enumerate() {
        if k % BLOCK as usize == 0 {
            interrupt::check("gather")?;
        }
        let position = base + k as f64 * span.step;
        match method {
            Method::Nearest => {
                let index = range.start + (position + 0.5).floor() as i64;
                *out = block.value(signal, range, index.clamp(range.start, last))?;
            }
            Method::Linear => {
                let left = position.floor();
                let index = (range.start + left as i64).clamp(range.start, last);
                let fraction = (position - left).clamp(0.0, 1.0);
                let a = block.value(signal, range, index)?;
                *out = if fraction == 0.0 || index == last {
                    a
                } else {
                    let b = block.value(signal, range, index + 1)?;
                    a + (b - a) * fraction
                };
            }
        }
    }
    Ok(())
}
