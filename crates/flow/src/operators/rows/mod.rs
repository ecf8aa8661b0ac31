//! Operators on rows with named fields.

mod aggregate;
mod builder;
mod group_by;
mod matcher;
mod select;
mod to_rows;

pub(crate) use aggregate::{Aggregate, AggregateFunction, AggregateInput, ColumnValues, Groups};
pub(crate) use builder::{RowBuilder, float, flush_rows, integer, times, timestamps};
pub(crate) use matcher::{Axis, JoinKind, Matcher};

register! {
    group_by: GroupBy;
    select: Select;
    to_rows: ToRows;
}
