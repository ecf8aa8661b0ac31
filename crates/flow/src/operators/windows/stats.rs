//! Summary statistics of windows.

use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field};
use isochrony_dsp::stats::{Extreme, Statistic, Summary, means_and_extremes, summaries, summary};
use isochrony_segment::{Calibration, DType, Sample, SigSeg, Stream, dispatch};

use super::stat::{Stat, parameter_error};
use super::whole_stats::{WholeStats, whole_stats};
use crate::operator;
use crate::operators::rows::{RowBuilder, float, integer};
use crate::operators::wrong_input;
use crate::{
    Break, Contract, Frames, Inputs, Item, Next, OpError, OpErrorKind, Operator,
    OperatorProperties, Out, PartialResult, PlanError, Port, PortType, json,
};

const WINDOWS_PER_BLOCK: usize = 32;

operator! {
    /// Computes statistics of the finite samples of each window, or of all samples.
    ///
    /// # Inputs
    /// Windows, shape (n, N), or samples, shape (n,), real or complex.
    ///
    /// # Returns
    /// Rows: `start`, `end` (int64), `time` where the signal knows civil time, then the statistics in the order of
    /// their names: int64 where exact (counts; minimum and maximum of integers without calibration), otherwise float64;
    /// NaN where no sample is finite. Of windows one row each; no edges, no delay. Of samples one row at the end, with
    /// the first index and the one after the last, or one row for each run; none where nothing is read.
    ///
    /// # Conventions
    /// Values are in the signal's unit; for complex samples they are those of the magnitudes. "std" and "var" are those
    /// of the population. Sums of integers up to 32 bits are exact, others are added in fixed lanes and, of all samples,
    /// by halves of a tree over their indices: the same bits however the samples are cut, stored or live, for any number
    /// of workers and whatever the CPU.
    ///
    /// # Errors
    /// An unknown or repeated name, or none; input that is neither windows nor samples; `per` of windows.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> iso.scan(np.arange(6), rate=100).rewindow(3).stats("min", "mean").collect()
    ///  start  end  min  mean
    ///      0    3    0     1
    ///      3    6    3     4
    /// [2 rows]
    /// >>> iso.scan(np.arange(6), rate=100).stats("min", "mean").collect()
    ///  start  end  min  mean
    ///      0    6    0   2.5
    /// [1 rows]
    /// ```
    pub struct Stats = "stats" (Inputs::Exactly(1)) {
        /// Names of statistics, each once.
        names: Vec<String> = "list" { choices: &Stat::NAMES },
        /// Of samples: a row for "all" that is read, or for each "run", the samples between two clock steps. A run that is
        /// read in pieces with another one between them has a row for each piece.
        per: String = "text" { choices: &["all", "run"], default: || json!("all") },
    }
    state {
        bound: Option<BoundState>,
        /// Totals of samples; None for windows.
        whole: Option<Box<dyn WholeStats>>,
    }
}

pub(super) struct BoundState {
    pub(super) rows: RowBuilder,
    columns: Vec<(Stat, Column)>,
    calibration: Calibration,
    /// Rows are of whole ranges: extremes may be compared in any order, so zeros lose their sign.
    whole: bool,
}

/// Integers where exact.
enum Column {
    I64(Vec<i64>),
    F64(Vec<f64>),
}

impl Column {
    fn take(&mut self) -> ArrayRef {
        match self {
            Self::I64(values) => {
                let room = Vec::with_capacity(values.len());
                integer(std::mem::replace(values, room))
            }
            Self::F64(values) => {
                let room = Vec::with_capacity(values.len());
                float(std::mem::replace(values, room))
            }
        }
    }
}

/// From summaries of counts to values in the signal's unit.
#[derive(Clone, Copy)]
struct SummaryCalibration {
    identity: bool,
    scale: f64,
    offset: f64,
    whole: bool,
}

impl SummaryCalibration {
    /// Rounding is monotonic: the extremes of calibrated counts are exactly the calibrated extremes.
    #[inline(always)]
    fn extremes<E: Extreme>(self, counts: &Summary<E>) -> (f64, f64) {
        let (mut low, mut high) = (counts.min.to_f64(), counts.max.to_f64());
        if counts.count == 0 {
            (low, high) = (f64::NAN, f64::NAN);
        }
        if self.whole {
            (low, high) = (low + 0.0, high + 0.0);
        }
        if !self.identity {
            (low, high) = (
                low * self.scale + self.offset,
                high * self.scale + self.offset,
            );
            if self.scale < 0.0 {
                (low, high) = (high, low);
            }
        }
        (low, high)
    }

    #[inline(always)]
    fn mean<E>(self, counts: &Summary<E>) -> f64 {
        match self.identity {
            true => counts.mean,
            false => counts.mean * self.scale + self.offset,
        }
    }

    #[inline(always)]
    fn variance<E: Extreme>(self, counts: &Summary<E>) -> f64 {
        match self.identity {
            true => counts.variance(),
            false => counts.variance() * (self.scale * self.scale),
        }
    }
}

impl BoundState {
    /// Column by column, so that loops over many windows need no branch.
    pub(super) fn push<E: Extreme + ToI64>(&mut self, windows: &[Summary<E>]) {
        let values = SummaryCalibration {
            identity: self.calibration.is_identity(),
            scale: self.calibration.scale(),
            offset: self.calibration.offset(),
            whole: self.whole,
        };
        for (stat, column) in &mut self.columns {
            let windows = windows.iter();
            match (column, stat) {
                (Column::I64(column), Stat::Min) => column.extend(windows.map(|w| w.min.to_i64())),
                (Column::I64(column), Stat::Max) => column.extend(windows.map(|w| w.max.to_i64())),
                (Column::I64(column), _) => column.extend(windows.map(|w| w.count as i64)),
                (Column::F64(column), Stat::Min) => {
                    column.extend(windows.map(|w| values.extremes(w).0));
                }
                (Column::F64(column), Stat::Max) => {
                    column.extend(windows.map(|w| values.extremes(w).1));
                }
                (Column::F64(column), Stat::Count) => {
                    column.extend(windows.map(|w| w.count as f64))
                }
                (Column::F64(column), Stat::Mean) => column.extend(windows.map(|w| values.mean(w))),
                (Column::F64(column), Stat::Std) => {
                    column.extend(windows.map(|w| values.variance(w).sqrt()));
                }
                (Column::F64(column), Stat::Var) => {
                    column.extend(windows.map(|w| values.variance(w)));
                }
                (Column::F64(column), Stat::Rms) => column.extend(windows.map(|w| {
                    let mean = values.mean(w);
                    (mean * mean + values.variance(w)).sqrt()
                })),
            }
        }
    }

    fn summarise<T: Statistic<Extreme: ToI64>>(&mut self, frames: &Frames, values: &[T]) {
        let (width, stride) = (frames.width(), frames.stride());
        let mut left = frames.count() as usize;
        if width != stride || left == 1 {
            for k in 0..left {
                self.push(&[summary(&values[k * stride..][..width])]);
            }
            return;
        }
        let needs_variance = (self.columns.iter())
            .any(|(stat, _)| matches!(stat, Stat::Std | Stat::Var | Stat::Rms));
        let summarise = match needs_variance {
            true => summaries::<T>,
            false => means_and_extremes::<T>,
        };
        let mut block = [Summary::EMPTY; WINDOWS_PER_BLOCK];
        for values in values.chunks(width * WINDOWS_PER_BLOCK) {
            // Cannot fail: the width is positive, the output long enough.
            let full = summarise(values, width, &mut block).unwrap_or(0).min(left);
            self.push(&block[..full]);
            left -= full;
        }
    }

    fn add(&mut self, frames: &Frames) -> Result<(), OpError> {
        self.rows.add(frames);
        let mut samples = SigSeg::empty(0, frames.dtype(), frames.stream_id());
        let mut dtype = frames.dtype();
        if needs_physical(dtype, frames.stream_id().get()) {
            let counts = SigSeg::new(frames.buffer().clone(), 0, dtype, frames.stream_id())?;
            samples = counts.to_physical()?;
            dtype = samples.dtype();
        }
        dispatch!(dtype, T => {
            let values = match samples.is_empty() {
                true => frames.values::<T>(),
                false => samples.as_contiguous::<T>(),
            };
            match values {
                Some(values) => self.summarise(frames, values),
                None => return Err(OpErrorKind::WrongItem {
                    expected: "values of their dtype",
                    got: "other",
                }.into()),
            }
        });
        Ok(())
    }
}

impl Operator for Stats {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let port = &inputs[0];
        let (&(PortType::Frames { dtype, .. } | PortType::Samples { dtype, .. }), Some(stream)) =
            (port, port.stream())
        else {
            return Err(wrong_input(
                "stats",
                "windows or samples",
                port,
                "put it behind rewindow(...), or directly behind the samples",
            ));
        };
        let is_whole = matches!(port, PortType::Samples { .. });
        if self.per != "all" && !is_whole {
            return Err(wrong_input(
                "stats",
                "samples for per=\"run\"",
                port,
                "leave out per=, since each window gives a row of its own, or leave out rewindow(...)",
            ));
        }
        let mut stats = Vec::new();
        for name in &self.names {
            let stat: Stat = name.parse()?;
            if stats.contains(&stat) {
                return Err(parameter_error(&format!("{name:?} twice")));
            }
            stats.push(stat);
        }
        if stats.is_empty() {
            return Err(parameter_error("[]"));
        }
        // Complex samples are calibrated before.
        let calibration = match dtype.is_complex() {
            true => Calibration::default(),
            false => stream.calibration.clone(),
        };
        let integers = !(dtype.is_float() || dtype.is_complex()) && calibration.is_identity();
        let columns = stats.iter().map(|&stat| match stat {
            Stat::Count => (stat, Column::I64(Vec::new())),
            Stat::Min | Stat::Max if integers => (stat, Column::I64(Vec::new())),
            _ => (stat, Column::F64(Vec::new())),
        });
        let columns: Vec<(Stat, Column)> = columns.collect();
        let fields = columns.iter().map(|(stat, column)| {
            let data = match column {
                Column::I64(_) => DataType::Int64,
                Column::F64(_) => DataType::Float64,
            };
            let field = Field::new(stat.name(), data, false);
            match stat.unit(stream.calibration.unit()) {
                unit if unit.is_empty() => field,
                unit => field.with_metadata([("unit", unit)]),
            }
        });
        let (rows, output) = RowBuilder::bind("stats", port, fields)?;
        if is_whole {
            self.whole = Some(whole_stats(summarised(dtype, stream)));
        }
        self.bound = Some(BoundState {
            rows,
            columns,
            calibration,
            whole: is_whole,
        });
        let properties = OperatorProperties::new([output]).cost_ns(0.3);
        Ok(match is_whole {
            true => properties.contract(Contract::Reducible).data_dependent(),
            false => properties.contract(Contract::Stateless),
        })
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        if let (Item::Partial(partial), Some(whole)) = (&*item, &mut self.whole) {
            whole.combine(partial)?;
            return Ok(Next::Consumed);
        }
        if let (Item::Samples(samples), Some(whole)) = (&*item, &mut self.whole) {
            match needs_physical(samples.dtype(), samples.stream_id().get()) {
                true => whole.push(&samples.to_physical()?)?,
                false => whole.push(samples)?,
            }
            return Ok(Next::Consumed);
        }
        let (Item::Frames(frames), Some(bound)) = (&*item, &mut self.bound) else {
            return Err(OpErrorKind::WrongItem {
                expected: "frames",
                got: item.kind(),
            }
            .into());
        };
        bound.add(frames)?;
        if bound.rows.is_full() {
            self.flush(out)?;
        }
        Ok(Next::Consumed)
    }

    fn on_break(&mut self, _: Port, why: &Break, out: &mut Out<'_>) -> Result<(), OpError> {
        match (&mut self.whole, why) {
            (Some(whole), Break::ClockStep { .. }) if self.per == "run" => whole.begin_part(),
            (Some(_), _) | (None, Break::Removed) => {}
            (None, _) => self.flush(out)?,
        }
        Ok(())
    }

    fn idle(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        self.flush(out)
    }

    fn finish(&mut self, _: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        if let (Some(whole), Some(bound)) = (&mut self.whole, &mut self.bound) {
            whole.finish(bound);
        }
        self.flush(out)
    }

    fn progress(&mut self, _: Port, upto: i64) -> i64 {
        match (&self.whole, &self.bound) {
            // Rows come at the end and begin with the first sample.
            (Some(_), _) => i64::MIN,
            (None, bound) => bound
                .as_ref()
                .map_or(upto, |bound| bound.rows.progress(upto)),
        }
    }

    fn partial(&mut self) -> Option<PartialResult> {
        self.whole.as_mut().map(|whole| whole.partial())
    }

    fn combine(&mut self, next: &PartialResult) -> Result<(), OpError> {
        self.whole
            .as_mut()
            .map_or(Ok(()), |whole| whole.combine(next))
    }
}

/// Counts do not determine the magnitude of a calibrated complex number.
fn needs_physical(dtype: DType, stream: &Stream) -> bool {
    dtype.is_complex() && !stream.calibration.is_identity()
}

fn summarised(dtype: DType, stream: &Stream) -> DType {
    match needs_physical(dtype, stream) {
        true => dispatch!(dtype, T => <<T as Sample>::Physical as Sample>::DTYPE),
        false => dtype,
    }
}

impl Stats {
    fn flush(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        let Some(BoundState { rows, columns, .. }) = &mut self.bound else {
            return Ok(());
        };
        rows.emit(columns.iter_mut().map(|(_, column)| Ok(column.take())), out)
    }
}

/// Converts an extreme, exactly if it is an integer.
pub(super) trait ToI64 {
    fn to_i64(self) -> i64;
}

macro_rules! to_i64_casts {
    ($($type:ty)*) => {$(
        impl ToI64 for $type {
            #[allow(clippy::cast_lossless)]
            fn to_i64(self) -> i64 {
                self as i64
            }
        }
    )*};
}

to_i64_casts!(i8 i16 i32 i64 u8 u16 u32 f32 f64);
