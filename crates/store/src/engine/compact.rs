//! Tables of compact signals, in the base of the log instead of in files.
//!
//! The tables of a short recording would be some twenty files and folders, many times the size of its samples. So a new
//! signal is *compact*: the base of each log holds its rows, and its `zarr.json` shows them to other programs, which
//! need only the table of gaps as an array. At 1 MiB of samples or [`MAX_BYTES`] of tables the next checkpoint writes
//! all arrays, for good (`checkpoint_tables`).

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::op::{Op, SignalId, TableRows};
use crate::state::{EVENTS, GAPS, SignalState, TABLES, Table};

/// Bytes of a compact signal's tables.
pub(crate) const MAX_BYTES: usize = 2 << 10;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CompactTables(Arc<[Table]>);

impl CompactTables {
    /// `None` if too large.
    pub(crate) fn of(state: &SignalState) -> Option<Self> {
        let rows = state.runs.len() + state.points.len() + state.fit.len() + state.events.len();
        let rows = rows + state.corrections.point_count();
        if rows > MAX_BYTES / 8 {
            return None;
        }
        let mut tables = state.tables_but_gaps();
        tables.retain(|table| !table.rows.is_empty());
        let compact = Self(tables.into());
        (compact.bytes() <= MAX_BYTES).then_some(compact)
    }

    pub(crate) fn new(tables: Vec<TableRows>) -> Self {
        let known = tables.into_iter().filter_map(|table| {
            let name = *TABLES.get(usize::from(table.table))?;
            Some(Table {
                name,
                columns: Table::columns_of(name)?,
                rows: table.rows,
                text: table.text,
            })
        });
        Self(known.collect())
    }

    pub(crate) fn op(&self, id: SignalId) -> Op {
        let rows_of = |table: &Table| {
            let number = TABLES.iter().position(|name| *name == table.name)?;
            Some(TableRows {
                table: u8::try_from(number).ok()?,
                rows: table.rows.clone(),
                text: table.text.clone(),
            })
        };
        let tables = self.0.iter().filter_map(rows_of).collect();
        Op::SmallTables { id, tables }
    }

    pub(crate) fn are_plausible(tables: &[TableRows]) -> bool {
        let is_plausible = |table: &TableRows| {
            let name = TABLES.get(usize::from(table.table));
            let columns = name.and_then(|name| Table::columns_of(name));
            let whole = columns.is_some_and(|columns| table.rows.len().is_multiple_of(columns));
            whole && name != Some(&GAPS) && (name == Some(&EVENTS) || table.text.is_empty())
        };
        let is_sorted = tables.windows(2).all(|pair| pair[0].table < pair[1].table);
        is_sorted && tables.iter().all(is_plausible)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Table> {
        self.0.iter().find(|table| table.name == name)
    }

    pub(crate) fn bytes(&self) -> usize {
        let bytes = |table: &Table| 8 * table.rows.len() + table.text.len();
        self.0.iter().map(bytes).sum()
    }
}

/// Content of `zarr.json`: by name, rows of numbers in the order of columns, and events as objects, unless too large.
pub(crate) fn described(state: &SignalState) -> Value {
    let mut shown = Map::new();
    let Some(compact) = CompactTables::of(state) else {
        return Value::Object(shown);
    };
    for table in compact.0.iter().filter(|table| table.name != EVENTS) {
        let rows: Vec<&[i64]> = table.rows.chunks(table.columns).collect();
        shown.insert(table.name.into(), json!(rows));
    }
    let events = state.events.iter().map(|event| {
        let fields: Value =
            serde_json::from_str(&event.fields).unwrap_or_else(|_| event.fields.clone().into());
        let (id, start, end, kind) = (event.id, event.start, event.end, &event.kind);
        json!({ "id": id, "start": start, "end": end, "kind": kind, "fields": fields })
    });
    let events: Vec<Value> = events.collect();
    if !events.is_empty() {
        shown.insert("events".into(), events.into());
    }
    Value::Object(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(table: u8, rows: &[i64], text: &[u8]) -> TableRows {
        TableRows {
            table,
            rows: rows.into(),
            text: text.into(),
        }
    }

    #[test]
    fn a_log_states_the_tables() {
        let said = vec![
            rows(1, &[0, 0, 100, 0], b""),
            rows(4, &[0, 1, 2, 0, 2], b"{}"),
        ];
        assert!(CompactTables::are_plausible(&said));
        let compact = CompactTables::new(said.clone());
        assert_eq!(compact.bytes(), 9 * 8 + 2);
        let id = SignalId(3);
        assert_eq!(compact.op(id), Op::SmallTables { id, tables: said });
    }

    #[test]
    fn refuses_what_no_writer_records() {
        for said in [
            vec![rows(0, &[1, 2], b"")],
            vec![rows(6, &[], b"")],
            vec![rows(5, &[0; 16], b"")],
            vec![rows(1, &[0, 0, 100], b"")],
            vec![rows(1, &[], b"text")],
            vec![rows(4, &[], b""), rows(1, &[], b"")],
            vec![rows(1, &[], b""), rows(1, &[], b"")],
        ] {
            assert!(!CompactTables::are_plausible(&said), "{said:?}");
        }
    }
}
