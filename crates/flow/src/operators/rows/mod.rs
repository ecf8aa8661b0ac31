//! Operators on rows with named fields.

pub(crate) mod aggregate;
pub(crate) mod builder;
pub(crate) mod group_by;
pub(crate) mod matcher;
pub(crate) mod select;
pub(crate) mod to_rows;

register! {
    group_by: GroupBy;
    select: Select;
    to_rows: ToRows;
}
