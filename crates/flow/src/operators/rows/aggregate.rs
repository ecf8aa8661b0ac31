//! Aggregates of grouped rows. Every value is eight bytes: integers as int64, floats as their bits. So keys of any type
//! compare alike, and aggregates have one loop for integers and one for floats. Sums of floats, means and deviations are
//! exact until they are rounded, so parts combine to the same bits wherever they were cut.

use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::{MutableBuffer, NullBuffer};
use arrow_schema::{ArrowError, DataType, Field};
use isochrony_dsp::stats::ExactSum;
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

    pub(crate) fn get(&self, at: usize) -> Option<u64> {
        self.known[at].then(|| self.bits[at])
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

/// Values of a column as aggregates take them.
#[derive(Debug)]
pub(crate) struct AggregateInput {
    values: Vec<u64>,
    nulls: Option<NullBuffer>,
}

impl AggregateInput {
    /// `dtype`: of the aggregates' field.
    pub(crate) fn new(column: &dyn Array, dtype: DType) -> Self {
        Self {
            values: wide(column, dtype, f64::to_bits),
            nulls: column.logical_nulls(),
        }
    }
}

/// Of adding a value, and of the result of a group, about (AMD EPYC).
const VALUE_NS: f64 = 3.0;
const SUM_NS: f64 = 40.0;
const ROUND_NS: f64 = 200.0;

#[derive(Debug)]
pub(crate) struct Aggregate {
    function: AggregateFunction,
    dtype: DType,
    groups: Groups,
    /// Bytes of sums outside of their structs.
    heap: usize,
}

/// One state per group.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Groups {
    Values(Vec<GroupValue>),
    Sums(Vec<GroupSum>),
}

/// Number of values, and one value.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct GroupValue {
    count: u64,
    bits: u64,
}

/// Number of values, and sums whose bits do not depend on their order.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct GroupSum {
    count: u64,
    sum: ExactSum,
}

impl Groups {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Values(groups) => groups.len(),
            Self::Sums(groups) => groups.len(),
        }
    }
}

impl Aggregate {
    pub(crate) fn new(function: AggregateFunction, dtype: DType) -> Self {
        let sums = match function {
            AggregateFunction::Sum => dtype.is_float(),
            AggregateFunction::Mean | AggregateFunction::Std => true,
            _ => false,
        };
        Self {
            function,
            dtype,
            groups: match sums {
                true => Groups::Sums(Vec::new()),
                false => Groups::Values(Vec::new()),
            },
            heap: 0,
        }
    }

    /// The same without groups.
    pub(crate) fn empty(&self) -> Self {
        Self::new(self.function, self.dtype)
    }

    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    /// Expected time of adding a value.
    pub(crate) fn value_ns(&self) -> f64 {
        match self.groups {
            Groups::Values(_) => VALUE_NS,
            Groups::Sums(_) => SUM_NS,
        }
    }

    /// Expected time of the result of a group.
    pub(crate) fn result_ns(&self) -> f64 {
        match self.groups {
            Groups::Values(_) => VALUE_NS,
            Groups::Sums(_) => ROUND_NS,
        }
    }

    /// Bytes of all states.
    pub(crate) fn bytes(&self) -> usize {
        let each = match self.groups {
            Groups::Values(_) => size_of::<GroupValue>(),
            Groups::Sums(_) => size_of::<GroupSum>(),
        };
        self.groups.len() * each + self.heap
    }

    fn resize(&mut self, groups: usize) {
        if groups <= self.groups.len() {
            return;
        }
        let empty = self.empty_sum();
        match &mut self.groups {
            Groups::Values(values) => values.resize(groups, GroupValue::default()),
            Groups::Sums(sums) => {
                self.heap += (groups - sums.len()) * empty.sum.heap_bytes();
                sums.resize(groups, empty);
            }
        }
    }

    fn empty_sum(&self) -> GroupSum {
        GroupSum {
            count: 0,
            sum: match self.function {
                AggregateFunction::Std => ExactSum::with_squares(),
                _ => ExactSum::default(),
            },
        }
    }

    /// `input`: None if rows are counted. `pairs`: rows and the groups that get their values; `groups`: number so far.
    pub(crate) fn add(
        &mut self,
        input: Option<&AggregateInput>,
        pairs: impl IntoIterator<Item = (usize, usize)>,
        groups: usize,
    ) {
        let (function, float) = (self.function, self.dtype.is_float());
        self.resize(groups);
        let pairs = pairs.into_iter();
        let Some(AggregateInput { values, nulls }) = input else {
            if let Groups::Values(groups) = &mut self.groups {
                pairs.for_each(|(_, place)| groups[place].count += 1);
            }
            return;
        };
        let known =
            |&(row, _): &(usize, usize)| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let pairs = pairs.filter(known);
        match &mut self.groups {
            Groups::Values(groups) => {
                pairs.for_each(|(row, place)| groups[place].add(function, values[row], float));
            }
            Groups::Sums(groups) => pairs.for_each(|(row, place)| {
                let group = &mut groups[place];
                let before = group.sum.heap_bytes();
                group.count += 1;
                match float {
                    true => group.sum.push(f64::from_bits(values[row])),
                    false => group.sum.push_integer(values[row] as i64),
                }
                self.heap += group.sum.heap_bytes() - before;
            }),
        }
    }

    pub(crate) fn take(&mut self) -> Groups {
        let empty = match self.groups {
            Groups::Values(_) => Groups::Values(Vec::new()),
            Groups::Sums(_) => Groups::Sums(Vec::new()),
        };
        self.heap = 0;
        std::mem::replace(&mut self.groups, empty)
    }

    /// `more`: states of later values of the groups in `places`.
    pub(crate) fn combine(&mut self, more: &Groups, places: &[usize], groups: usize) {
        let (function, float) = (self.function, self.dtype.is_float());
        self.resize(groups);
        match (&mut self.groups, more) {
            (Groups::Values(groups), Groups::Values(more)) => {
                for (&place, more) in places.iter().zip(more) {
                    groups[place].combine(function, more, float);
                }
            }
            (Groups::Sums(groups), Groups::Sums(more)) => {
                for (&place, more) in places.iter().zip(more) {
                    let group = &mut groups[place];
                    let before = group.sum.heap_bytes();
                    group.count = group.count.saturating_add(more.count);
                    group.sum.append(&more.sum);
                    self.heap += group.sum.heap_bytes() - before;
                }
            }
            // `PartialGroups::fits` refuses other kinds.
            _ => {}
        }
    }

    /// Whether [`Aggregate::take`] can have given these states: another process may have sent them.
    pub(crate) fn combines(&self, more: &Groups) -> bool {
        let squares = self.function == AggregateFunction::Std;
        match (&self.groups, more) {
            (Groups::Values(_), Groups::Values(_)) => true,
            (Groups::Sums(_), Groups::Sums(more)) => {
                more.iter().all(|group| group.sum.is_valid(squares))
            }
            _ => false,
        }
    }

    /// The places become free.
    pub(crate) fn finish_groups(&mut self, places: &[usize]) -> ColumnValues {
        let results = match &self.groups {
            Groups::Values(groups) => self.values(places.iter().map(|&place| &groups[place])),
            Groups::Sums(groups) => self.sums(places.iter().map(|&place| &groups[place])),
        };
        let empty = self.empty_sum();
        for &place in places {
            match &mut self.groups {
                Groups::Values(groups) => groups[place] = GroupValue::default(),
                Groups::Sums(groups) => {
                    self.heap -= groups[place].sum.heap_bytes();
                    self.heap += empty.sum.heap_bytes();
                    groups[place] = empty.clone();
                }
            }
        }
        results
    }

    fn values<'a>(&self, groups: impl Iterator<Item = &'a GroupValue>) -> ColumnValues {
        let mut results = ColumnValues::new(self.function.result(self.dtype));
        for group in groups {
            results.push(match self.function {
                AggregateFunction::Count => Some(group.count),
                AggregateFunction::Sum => Some(group.bits),
                _ => (group.count > 0).then_some(group.bits),
            });
        }
        results
    }

    fn sums<'a>(&self, groups: impl Iterator<Item = &'a GroupSum>) -> ColumnValues {
        let mut results = ColumnValues::new(self.function.result(self.dtype));
        for GroupSum { count, sum } in groups {
            let known = *count > 0 || self.function == AggregateFunction::Sum;
            let result = || match self.function {
                AggregateFunction::Mean => sum.mean(*count),
                AggregateFunction::Std => sum.std(*count),
                _ => sum.sum(),
            };
            results.push(known.then(|| result().to_bits()));
        }
        results
    }
}

impl GroupValue {
    /// `more` is of later values.
    fn combine(&mut self, function: AggregateFunction, more: &Self, float: bool) {
        if more.count == 0 || self.count == 0 {
            *self = if more.count == 0 { *self } else { *more };
            return;
        }
        if function != AggregateFunction::Count {
            let count = self.count;
            self.add(function, more.bits, float);
            self.count = count;
        }
        self.count = self.count.saturating_add(more.count);
    }

    fn add(&mut self, function: AggregateFunction, bits: u64, float: bool) {
        let first = self.count == 0;
        self.count += 1;
        match function {
            AggregateFunction::First if !first => {}
            AggregateFunction::First | AggregateFunction::Last => self.bits = bits,
            AggregateFunction::Sum => {
                self.bits = (self.bits as i64).wrapping_add(bits as i64) as u64
            }
            AggregateFunction::Min | AggregateFunction::Max if first => self.bits = bits,
            AggregateFunction::Min | AggregateFunction::Max if float => {
                let (old, new) = (f64::from_bits(self.bits), f64::from_bits(bits));
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
            AggregateFunction::Count | AggregateFunction::Mean | AggregateFunction::Std => {}
        }
    }
}
