//! Keys of rows.

use std::collections::HashMap;

use arrow_array::RecordBatch;
use foldhash::fast::RandomState;
use smallvec::SmallVec;

use crate::operators::rows::ColumnValues;

/// Bits by column, and a mask of null columns.
pub(super) type GroupKey = (SmallVec<[u64; 2]>, u64);

/// Values by key. The hash is seeded anew for each map, like the standard library's, which takes three times as long.
pub(super) type KeyMap<V> = HashMap<GroupKey, V, RandomState>;

/// Column of each key, and its values by group.
pub(super) type KeyColumns = Vec<(usize, ColumnValues)>;

pub(super) fn row_keys(columns: &KeyColumns, batch: &RecordBatch) -> Vec<GroupKey> {
    let columns: Vec<_> = columns
        .iter()
        .map(|(at, cells)| cells.bits(batch.column(*at).as_ref()))
        .collect();
    let key = |row| {
        let mut unknown = 0;
        let mut bits = SmallVec::with_capacity(columns.len());
        for (at, column) in columns.iter().enumerate() {
            let bit = column.get(row);
            unknown |= u64::from(bit.is_none()) << at;
            bits.push(bit.unwrap_or(0));
        }
        (bits, unknown)
    };
    (0..batch.num_rows()).map(key).collect()
}

pub(super) fn push_key<'a>(
    columns: impl IntoIterator<Item = &'a mut ColumnValues>,
    key: &GroupKey,
) {
    for (at, cells) in columns.into_iter().enumerate() {
        let known = key.1 >> at & 1 == 0;
        cells.push(known.then_some(key.0[at]));
    }
}
