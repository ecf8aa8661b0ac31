//! Summary statistics of windows.

use std::fmt;
use std::str::FromStr;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field};
use isochrony_dsp::stats::{Extreme, Statistic, Summary, summaries, summary};
use isochrony_segment::{Calibration, SigSeg, dispatch};

use crate::operator;
use crate::operators::rows::{RowBuilder, float, flush_rows, integer};
use crate::operators::wrong_input;
use crate::{
    Contract, Frames, Inputs, Item, Next, OpError, OpErrorKind, Operator, OperatorProperties, Out,
    PlanError, Port, PortType,
};

const WINDOWS_PER_BLOCK: usize = 32;

/// A statistic of the finite samples of a window, in the signal's unit; of magnitudes if complex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Stat {
    /// Smallest sample.
    Min,
    /// Largest sample.
    Max,
    /// Number of finite samples.
    Count,
    /// Arithmetic mean.
    Mean,
    /// Population standard deviation, as NumPy's `std`.
    Std,
    /// Population variance.
    Var,
    /// Root of the mean square.
    Rms,
}

impl Stat {
    /// Every statistic.
    pub const ALL: [Self; 7] = [
        Self::Min,
        Self::Max,
        Self::Count,
        Self::Mean,
        Self::Std,
        Self::Var,
        Self::Rms,
    ];
    /// Their names, in the same order.
    pub const NAMES: [&'static str; 7] = ["min", "max", "count", "mean", "std", "var", "rms"];

    /// The name that [`FromStr`] reads.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    fn unit(self, unit: &str) -> String {
        match self {
            Self::Count => String::new(),
            Self::Var if !unit.is_empty() => format!("({unit})^2"),
            _ => unit.into(),
        }
    }
}

impl fmt::Display for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Stat {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let known = Self::ALL.into_iter().find(|stat| stat.name() == text);
        known.ok_or_else(|| parameter_error(text))
    }
}

fn parameter_error(got: &str) -> PlanError {
    PlanError::Parameter {
        operator: "stats",
        parameter: "names",
        got: got.into(),
        legal: format!("one or more of {}, each once", Stat::NAMES.join(", ")),
    }
}

operator! {
    /// Computes statistics of the finite samples of each window.
    ///
    /// # Inputs
    /// Windows, shape (n, N), real or complex.
    ///
    /// # Returns
    /// Rows: `start`, `end` (int64), `time` where the signal knows civil time, then the statistics in the order of
    /// their names: int64 where exact (counts; minimum and maximum of integers without calibration), otherwise float64;
    /// NaN for a window without finite samples. No edges, no delay.
    ///
    /// # Conventions
    /// Values are in the signal's unit; for complex samples they are those of the magnitudes. "std" and "var" are those
    /// of the population. Sums of integers up to 32 bits are exact, floats are added in fixed lanes: the same bits
    /// however the samples are cut and whatever the CPU.
    ///
    /// # Errors
    /// An unknown or repeated name, or none; input that is not windows.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> iso.scan(np.arange(6), rate=100).rewindow(3).stats("min", "mean").collect()
    ///  start  end  min  mean
    ///      0    3    0     1
    ///      3    6    3     4
    /// [2 rows]
    /// ```
    pub struct Stats = "stats" (Inputs::Exactly(1)) {
        /// Names of statistics, each once.
        names: Vec<String> = "list" { choices: &Stat::NAMES },
    }
    state {
        bound: Option<BoundState>,
    }
}

struct BoundState {
    rows: RowBuilder,
    columns: Vec<(Stat, Column)>,
    calibration: Calibration,
}

/// Integers where they are exact.
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

impl BoundState {
    /// Rounding is monotonic, so calibrating the extremes of counts gives exactly the extremes of calibrated counts.
    fn push<E: Extreme + ToI64>(&mut self, counts: &Summary<E>) {
        let (mut low, mut high) = (counts.min.to_f64(), counts.max.to_f64());
        if counts.count == 0 {
            (low, high) = (f64::NAN, f64::NAN);
        }
        let (mut mean, mut variance) = (counts.mean, counts.variance());
        if !self.calibration.is_identity() {
            let (scale, offset) = (self.calibration.scale(), self.calibration.offset());
            (low, high) = (low * scale + offset, high * scale + offset);
            if scale < 0.0 {
                (low, high) = (high, low);
            }
            mean = mean * scale + offset;
            variance *= scale * scale;
        }
        for (stat, column) in &mut self.columns {
            match column {
                Column::I64(values) => values.push(match stat {
                    Stat::Min => counts.min.to_i64(),
                    Stat::Max => counts.max.to_i64(),
                    _ => counts.count as i64,
                }),
                Column::F64(values) => values.push(match stat {
                    Stat::Min => low,
                    Stat::Max => high,
                    Stat::Count => counts.count as f64,
                    Stat::Mean => mean,
                    Stat::Std => variance.sqrt(),
                    Stat::Var => variance,
                    Stat::Rms => (mean * mean + variance).sqrt(),
                }),
            }
        }
    }

    fn summarise<T: Statistic<Extreme: ToI64>>(&mut self, frames: &Frames, values: &[T]) {
        let (width, stride) = (frames.width(), frames.stride());
        let mut left = frames.count() as usize;
        if width != stride || left == 1 {
            for k in 0..left {
                self.push(&summary(&values[k * stride..][..width]));
            }
            return;
        }
        let mut block = [Summary::EMPTY; WINDOWS_PER_BLOCK];
        for values in values.chunks(width * WINDOWS_PER_BLOCK) {
            // The width is positive and the output long enough: no error can occur.
            let full = summaries(values, width, &mut block).unwrap_or(0).min(left);
            block[..full].iter().for_each(|summary| self.push(summary));
            left -= full;
        }
    }

    fn add(&mut self, frames: &Frames) -> Result<(), OpError> {
        self.rows.add(frames);
        let mut samples = SigSeg::empty(0, frames.dtype(), frames.stream_id());
        let mut dtype = frames.dtype();
        // The magnitude of a calibrated complex number does not follow from that of its counts.
        if dtype.is_complex() && !frames.stream_id().get().calibration.is_identity() {
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
        let (&PortType::Frames { dtype, .. }, Some(stream)) = (port, port.stream()) else {
            return Err(wrong_input(
                "stats",
                "windows",
                port,
                "put rewindow(...) before it",
            ));
        };
        let mut stats = Vec::new();
        for name in &self.names {
            let stat: Stat = name.parse()?;
            if stats.contains(&stat) {
                return Err(parameter_error(&format!("{name:?} twice")));
            }
            stats.push(stat);
        }
        if stats.is_empty() {
            return Err(parameter_error("none"));
        }
        // Complex samples are calibrated before they are summarised.
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
        self.bound = Some(BoundState {
            rows,
            columns,
            calibration,
        });
        Ok(OperatorProperties::new([output]).contract(Contract::Stateless))
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
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

    flush_rows!();
}

impl Stats {
    fn flush(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        let Some(BoundState { rows, columns, .. }) = &mut self.bound else {
            return Ok(());
        };
        rows.emit(columns.iter_mut().map(|(_, column)| Ok(column.take())), out)
    }
}

/// Converts an extreme to an integer, exactly if it is one.
trait ToI64 {
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

to_i64_casts!(i8 i16 i32 i64 u8 u16 f32 f64);
