//! Results of a plan.

use std::ops::Range;

use arrow_array::RecordBatch;
use isochrony_segment::{DType, Sample};

/// An array in row order.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Value type.
    pub dtype: DType,
    /// `[samples]` or `[windows, width]`.
    pub shape: Vec<u64>,
    /// In native byte order.
    pub bytes: Vec<u8>,
    /// Consecutive rows: index of the first sample, number of rows.
    pub parts: Vec<(i64, u64)>,
}

impl Array {
    /// The values; None if not of type `T`.
    #[must_use]
    pub fn to_vec<T: Sample>(&self) -> Option<Vec<T>> {
        (T::DTYPE == self.dtype).then(|| bytemuck::pod_collect_to_vec(&self.bytes))
    }
}

/// The result of a plan.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum PlanOutput {
    /// Samples or rows.
    Array(Array),
    /// Number of windows or samples.
    Count(u64),
    /// Index ranges.
    Ranges(Vec<Range<i64>>),
    /// A table.
    Rows(RecordBatch),
}

impl PlanOutput {
    /// The count, if any.
    #[must_use]
    pub fn count(&self) -> Option<u64> {
        match self {
            Self::Count(count) => Some(*count),
            _ => None,
        }
    }

    /// The table, if any.
    #[must_use]
    pub fn rows(&self) -> Option<&RecordBatch> {
        match self {
            Self::Rows(rows) => Some(rows),
            _ => None,
        }
    }

    /// The array, if any.
    #[must_use]
    pub fn array(&self) -> Option<&Array> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }
}
