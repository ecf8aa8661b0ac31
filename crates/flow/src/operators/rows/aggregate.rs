//! Aggregates of grouped rows. Every value is eight bytes: integers as int64, floats as their bits. So keys of any type
//! compare alike, and aggregates have one loop for integers and one for floats.

use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::{MutableBuffer, NullBuffer};
use arrow_schema::{ArrowError, DataType, Field};
use isochrony_segment::DType;
use serde::{Deserialize, Serialize};

use crate::plan::rows::columns;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AggregateFunction {
    Count,
    Sum,
    Min,
    Max,
    Mean,
    Std,
    First,
    Last,
}

impl AggregateFunction {
    const ALL: [Self; 8] = [
        Self::Count,
        Self::Sum,
        Self::Min,
        Self::Max,
        Self::Mean,
        Self::Std,
        Self::First,
        Self::Last,
    ];
    pub(crate) const NAMES: [&'static str; 8] =
        ["count", "sum", "min", "max", "mean", "std", "first", "last"];

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let at = Self::NAMES.iter().position(|known| *known == name)?;
        Some(Self::ALL[at])
    }

    pub(crate) fn keeps_type(self) -> bool {
        matches!(self, Self::Min | Self::Max | Self::First | Self::Last)
    }

    pub(crate) fn result(self, dtype: DType) -> DType {
        match self {
            Self::Count => DType::I64,
            Self::Sum if !dtype.is_float() => DType::I64,
            Self::Sum | Self::Mean | Self::Std => DType::F64,
            Self::Min | Self::Max | Self::First | Self::Last => dtype,
        }
    }
}

/// Eight bytes per value, perhaps null.
#[derive(Debug)]
pub(crate) struct ColumnValues {
    dtype: DType,
    bits: Vec<u64>,
    known: Vec<bool>,
}

pub(crate) struct ColumnBits {
    bits: Vec<u64>,
    nulls: Option<NullBuffer>,
}

impl ColumnBits {
    pub(crate) fn get(&self, row: usize) -> Option<u64> {
        let known = self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        known.then(|| self.bits[row])
    }
}

/// Gives equal keys equal bits.
fn canonical(value: f64) -> u64 {
    if value.is_nan() {
        f64::NAN.to_bits()
    } else {
        (value + 0.0).to_bits()
    }
}

/// Integers and bools as int64, floats as float64.
fn wide(column: &dyn Array, dtype: DType, float: impl Fn(f64) -> u64) -> Vec<u64> {
    let bytes = columns::column_bytes(column);
    macro_rules! each {
        ($type:ty, $into:expr) => {
            bytemuck::cast_slice::<u8, $type>(&bytes)
                .iter()
                .map(|&x| $into(x))
                .collect()
        };
    }
    match dtype {
        DType::Bool | DType::U8 => bytes.iter().map(|&x| u64::from(x)).collect(),
        DType::I8 => each!(i8, |x| i64::from(x) as u64),
        DType::I16 => each!(i16, |x| i64::from(x) as u64),
        DType::I32 => each!(i32, |x| i64::from(x) as u64),
        DType::U16 => each!(u16, u64::from),
        DType::U32 => each!(u32, u64::from),
        DType::F32 => each!(f32, |x| float(f64::from(x))),
        DType::F64 => each!(f64, &float),
        _ => each!(i64, |x| x as u64),
    }
}

impl ColumnValues {
    pub(crate) fn new(dtype: DType) -> Self {
        Self {
            dtype,
            bits: Vec::new(),
            known: Vec::new(),
        }
    }

    pub(crate) fn bits(&self, column: &dyn Array) -> ColumnBits {
        ColumnBits {
            bits: wide(column, self.dtype, canonical),
            nulls: column.logical_nulls(),
        }
    }

    pub(crate) fn empty(&self) -> Self {
        Self::new(self.dtype)
    }

    pub(crate) fn clear(&mut self) {
        self.bits.clear();
        self.known.clear();
    }

    pub(crate) fn push(&mut self, bits: Option<u64>) {
        self.bits.push(bits.unwrap_or(0));
        self.known.push(bits.is_some());
    }

    pub(crate) fn column(self, field: &Field) -> Result<ArrayRef, ArrowError> {
        let mut values = MutableBuffer::with_capacity(self.bits.len() * self.dtype.size());
        for &bits in &self.bits {
            match self.dtype {
                DType::F64 | DType::I64 => values.push(bits),
                DType::F32 => values.push(f64::from_bits(bits) as f32),
                DType::I32 | DType::U32 => values.push(bits as u32),
                DType::I16 | DType::U16 => values.push(bits as u16),
                _ => values.push(bits as u8),
            }
        }
        let nulls = self
            .known
            .contains(&false)
            .then(|| NullBuffer::from(self.known));
        let column = columns::column_from_bytes(self.dtype, values, nulls)?;
        match field.data_type() {
            DataType::Timestamp(..) => {
                let data = column.to_data().into_builder();
                Ok(make_array(
                    data.data_type(field.data_type().clone()).build()?,
                ))
            }
            _ => Ok(column),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Aggregate {
    function: AggregateFunction,
    dtype: DType,
    groups: Vec<GroupState>,
}

/// Number of rows, and a value, a sum, or mean and squared deviations.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct GroupState {
    count: u64,
    bits: u64,
    mean: f64,
    squares: f64,
}

impl Aggregate {
    pub(crate) fn new(function: AggregateFunction, dtype: DType) -> Self {
        Self {
            function,
            dtype,
            groups: Vec::new(),
        }
    }

    /// `pairs`: rows and the groups that get their values; `groups`: number so far.
    pub(crate) fn add(
        &mut self,
        column: Option<&dyn Array>,
        pairs: impl IntoIterator<Item = (usize, usize)>,
        groups: usize,
    ) {
        self.groups.resize(groups, GroupState::default());
        let pairs = pairs.into_iter();
        let Some(column) = column else {
            pairs.for_each(|(_, place)| self.groups[place].count += 1);
            return;
        };
        let values = wide(column, self.dtype, f64::to_bits);
        let nulls = column.logical_nulls();
        let float = self.dtype.is_float();
        for (row, place) in pairs {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                continue;
            }
            self.groups[place].add(self.function, values[row], float);
        }
    }

    /// Whether the result's bits do not depend on cuts.
    pub(crate) fn is_exact(&self) -> bool {
        match self.function {
            AggregateFunction::Mean | AggregateFunction::Std => false,
            AggregateFunction::Sum => !self.dtype.is_float(),
            _ => true,
        }
    }

    pub(crate) fn take(&mut self) -> Vec<GroupState> {
        std::mem::take(&mut self.groups)
    }

    /// `more`: states of later values of the groups in `places`.
    pub(crate) fn combine(&mut self, more: &[GroupState], places: &[usize], groups: usize) {
        self.groups.resize(groups, GroupState::default());
        let float = self.dtype.is_float();
        for (&place, more) in places.iter().zip(more) {
            self.groups[place].combine(self.function, more, float);
        }
    }

    pub(crate) fn finish(self) -> ColumnValues {
        self.results(&self.groups)
    }

    /// The places become free.
    pub(crate) fn finish_groups(&mut self, places: &[usize]) -> ColumnValues {
        let groups = places
            .iter()
            .map(|&place| std::mem::take(&mut self.groups[place]));
        let groups: Vec<GroupState> = groups.collect();
        self.results(&groups)
    }

    fn results(&self, groups: &[GroupState]) -> ColumnValues {
        let mut cells = ColumnValues::new(self.function.result(self.dtype));
        for group in groups {
            let known = group.count > 0
                || matches!(
                    self.function,
                    AggregateFunction::Count | AggregateFunction::Sum
                );
            cells.push(known.then(|| match self.function {
                AggregateFunction::Count => group.count,
                AggregateFunction::Mean => group.mean.to_bits(),
                AggregateFunction::Std => (group.squares / group.count as f64).sqrt().to_bits(),
                _ => group.bits,
            }));
        }
        cells
    }
}

impl GroupState {
    /// `more` is of later values.
    fn combine(&mut self, function: AggregateFunction, more: &Self, float: bool) {
        if more.count == 0 || self.count == 0 {
            *self = if more.count == 0 { *self } else { *more };
            return;
        }
        match function {
            AggregateFunction::Count => {}
            // Chan, Golub and LeVeque (1979): combines both states, and the distance of their means.
            AggregateFunction::Mean | AggregateFunction::Std => {
                let share = more.count as f64 / (self.count + more.count) as f64;
                let away = more.mean - self.mean;
                self.mean += away * share;
                self.squares += more.squares + away * away * (self.count as f64 * share);
            }
            _ => {
                let count = self.count;
                self.add(function, more.bits, float);
                self.count = count;
            }
        }
        self.count += more.count;
    }

    fn add(&mut self, function: AggregateFunction, bits: u64, float: bool) {
        let first = self.count == 0;
        self.count += 1;
        let value = || match float {
            true => f64::from_bits(bits),
            false => bits as i64 as f64,
        };
        match function {
            AggregateFunction::Count => {}
            AggregateFunction::First if !first => {}
            AggregateFunction::First | AggregateFunction::Last => self.bits = bits,
            AggregateFunction::Sum if float => {
                // An empty sum starts as the bits of zero.
                self.bits = (f64::from_bits(self.bits) + value()).to_bits();
            }
            AggregateFunction::Sum => {
                self.bits = (self.bits as i64).wrapping_add(bits as i64) as u64
            }
            AggregateFunction::Min | AggregateFunction::Max if first => self.bits = bits,
            AggregateFunction::Min | AggregateFunction::Max if float => {
                let (old, new) = (f64::from_bits(self.bits), value());
                let better = if function == AggregateFunction::Min {
                    new < old
                } else {
                    new > old
                };
                if better || new.is_nan() {
                    self.bits = bits;
                }
            }
            AggregateFunction::Min => self.bits = (self.bits as i64).min(bits as i64) as u64,
            AggregateFunction::Max => self.bits = (self.bits as i64).max(bits as i64) as u64,
            // Welford's recurrence: deviations from the running mean do not cancel.
            AggregateFunction::Mean | AggregateFunction::Std => {
                let value = value();
                let away = value - self.mean;
                self.mean += away / self.count as f64;
                self.squares += away * (value - self.mean);
            }
        }
    }
}
