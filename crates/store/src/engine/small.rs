//! Tables of compact signals: their rows stand in the base of the log instead of in files.
//!
//! A short recording has one run, a stamp or two and an event. As arrays these would be some twenty files and folders, many
//! times the size of the samples. So a new signal is *compact*: the base of each log holds the rows of its tables, and
//! its `zarr.json` shows them to other programs. The table of gaps is an array in any case, for other programs cannot read
//! samples without it. With [`MOST_SAMPLE_BYTES`] of samples, or when its tables outgrow [`MOST_BYTES`], a signal gets all
//! arrays at the next checkpoint, and is never compact again: that keeps the base of the log, which every checkpoint
//! writes, short.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::io::IoContext;
use super::slot::SlotInner;
use crate::error::StoreError;
use crate::media::Media;
use crate::op::{Op, SignalId, TableRows};
use crate::state::{EVENTS, GAPS, RUNS, SignalState, TABLES, Table};

/// Most bytes of the tables of a compact signal: numbers as int64, and text.
pub(crate) const MOST_BYTES: usize = 2 << 10;

/// A signal of this many bytes of samples is not compact. Its arrays take 0.2 MB of files: a fifth of the samples then,
/// where at 0.4 MB they would be half of them.
const MOST_SAMPLE_BYTES: u64 = 1 << 20;

/// Nor is one of this many full chunks: less than 1 MiB only where chunks are shorter than any that a new signal gets.
const MOST_CHUNKS: u64 = 16;

/// The tables of a compact signal, but for that of gaps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SmallTables(Arc<[Table]>);

impl SmallTables {
    /// Those of a state; `None` if they are too large.
    pub(crate) fn of(state: &SignalState) -> Option<Self> {
        // Before all rows are put together, of which there may be many.
        let rows = state.runs.len() + state.points.len() + state.fit.len() + state.events.len();
        let rows = rows + state.corrections.point_count();
        if rows > MOST_BYTES / 8 {
            return None;
        }
        let mut tables = state.tables_but_gaps();
        tables.retain(|table| !table.rows.is_empty());
        let small = Self(tables.into());
        (small.bytes() <= MOST_BYTES).then_some(small)
    }

    /// What a log says.
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

    /// The operation that says it.
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

    /// Whether a log may say this.
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

    /// The table, if it has rows.
    pub(crate) fn get(&self, name: &str) -> Option<&Table> {
        self.0.iter().find(|table| table.name == name)
    }

    /// Bytes of all rows and text.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = |table: &Table| 8 * table.rows.len() + table.text.len();
        self.0.iter().map(bytes).sum()
    }
}

/// The tables of a compact signal as its `zarr.json` shows them to other programs: by name, rows of numbers in the order
/// of the array's columns, and events as objects. Tables that are too large for a compact signal are left out.
pub(crate) fn described(state: &SignalState) -> Value {
    let mut shown = Map::new();
    let Some(small) = SmallTables::of(state) else {
        return Value::Object(shown);
    };
    for table in small.0.iter().filter(|table| table.name != EVENTS) {
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

/// What a checkpoint has to do with the tables of a signal.
#[derive(Debug, Default)]
pub(crate) struct TablesDue {
    /// To be written to files.
    pub(crate) arrays: Vec<Table>,
    /// To stand in the base of the next log: the signal is compact and stays so.
    pub(crate) small: Option<SmallTables>,
}

impl SlotInner {
    /// What a checkpoint has to do with the tables as of the last commit.
    ///
    /// # Errors
    /// What the system says of the signal's folder.
    pub(crate) fn tables_due(&mut self, media: &dyn Media) -> Result<TablesDue, StoreError> {
        let was = self.base.small.clone();
        let runs = self.folder.join(RUNS);
        // A checkpoint that was interrupted may have made the arrays, which must not stay behind.
        let is_short = self.full_chunks() < MOST_CHUNKS
            && self.sample_bytes() < MOST_SAMPLE_BYTES
            && media.stat(&runs).at("look at", &runs)?.is_none();
        let Some(state) = self.committed_mut() else {
            // What was never loaded did not change.
            return Ok(TablesDue {
                small: was,
                ..TablesDue::default()
            });
        };
        let small = match was {
            Some(_) if is_short => SmallTables::of(state),
            _ => None,
        };
        let mut arrays = match (&was, &small) {
            // Those that did not change lie in no files either.
            (Some(_), None) => state.tables(),
            _ => state.changed_tables(),
        };
        arrays.retain(|table| small.is_none() || table.name == GAPS);
        Ok(TablesDue { arrays, small })
    }
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
    fn a_log_says_what_the_tables_were() {
        let said = vec![
            rows(1, &[0, 0, 100, 0], b""),
            rows(4, &[0, 1, 2, 0, 2], b"{}"),
        ];
        assert!(SmallTables::are_plausible(&said));
        let small = SmallTables::new(said.clone());
        assert_eq!(small.bytes(), 9 * 8 + 2);
        let id = SignalId(3);
        assert_eq!(small.op(id), Op::SmallTables { id, tables: said });
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
            assert!(!SmallTables::are_plausible(&said), "{said:?}");
        }
    }
}
