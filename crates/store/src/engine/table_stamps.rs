//! Expected identity of table files.
//!
//! A checkpoint records in the base of its new log, for every table, the last commit in its file, its number of rows
//! and their checksum. Until the next checkpoint a file may be newer, because gaps are published and a checkpoint may
//! be interrupted; the log then holds its content. Any other table is wrong: older, another signal's, or changed.

use std::path::Path;

use super::compact::CompactTables;
use super::parts::Base;
use super::slot::SlotInner;
use crate::error::StoreError;
use crate::layout::table::TableFile;
use crate::op::{Op, SignalId, TableStamp};
use crate::state::TABLES;

/// Stamps by table; `None`: no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TableStamps([Option<TableStamp>; TABLES.len()]);

fn number(table: &str) -> Option<usize> {
    TABLES.iter().position(|name| *name == table)
}

impl TableStamps {
    pub(crate) fn new(stamps: &[TableStamp]) -> Self {
        let mut all = Self::default();
        for stamp in stamps {
            if let Some(place) = all.0.get_mut(usize::from(stamp.table)) {
                *place = Some(*stamp);
            }
        }
        all
    }

    pub(crate) fn op(&self, id: SignalId) -> Op {
        let tables = self.0.iter().flatten().copied().collect();
        Op::Tables { id, tables }
    }

    pub(crate) fn get(&self, table: &str) -> Option<TableStamp> {
        self.0[number(table)?]
    }

    pub(crate) fn set(&mut self, table: &str, stamp: Option<TableStamp>) {
        if let Some(number) = number(table) {
            self.0[number] = stamp;
        }
    }
}

/// Stamp of a table's file. `row_bytes` also applies to rows in the attachment.
pub(crate) fn stamp_of(table: &str, row_bytes: u64, file: &TableFile) -> TableStamp {
    let rows = match file.attachment.is_empty() {
        true if table == crate::state::EVENTS => 0,
        true => file.rows.len(),
        false => file.attachment.len(),
    };
    TableStamp {
        table: number(table).unwrap_or(usize::MAX) as u8,
        sequence: file.sequence,
        rows: rows as u64 / row_bytes.max(1),
        crc: crc32c::crc32c_append(crc32c::crc32c(&file.rows), &file.attachment),
    }
}

impl SlotInner {
    pub(crate) fn has_file(&self, table: &str) -> bool {
        let stamps = self.base.tables.as_ref();
        stamps.is_some_and(|stamps| stamps.get(table).is_some())
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpectedTables<'a> {
    /// For messages.
    pub(crate) signal: &'a str,
    /// In the log's base; `None` in an earlier version.
    pub(crate) stamps: Option<&'a TableStamps>,
    pub(crate) compact: Option<&'a CompactTables>,
    pub(crate) base: u64,
    /// Sequence of the last known record.
    pub(crate) last: u64,
}

impl<'a> ExpectedTables<'a> {
    /// For the writer: tables are as of the last checkpoint, since nobody else changes them.
    pub(crate) fn exactly(base: &'a Base) -> Self {
        Self::since(base, u64::MAX, u64::MAX)
    }

    /// For a reader that knows the records since the log's base.
    pub(crate) fn since(signal: &'a Base, base: u64, last: u64) -> Self {
        Self {
            signal: &signal.name,
            stamps: signal.tables.as_ref(),
            compact: signal.compact.as_ref(),
            base,
            last,
        }
    }

    /// Accepts tables newer than all known records.
    ///
    /// # Errors
    /// [`StoreError::WrongTable`].
    pub(crate) fn check(
        &self,
        id: SignalId,
        table: &'static str,
        path: &Path,
        file: &TableFile,
        found: &TableStamp,
    ) -> Result<(), StoreError> {
        let wrong = |got: String, expected: String| StoreError::WrongTable {
            signal: self.signal.into(),
            table,
            path: path.into(),
            got: got.into(),
            expected: expected.into(),
        };
        if file.signal != id.0 {
            return Err(wrong(
                format!("of signal #{}", file.signal),
                format!("one of signal #{}", id.0),
            ));
        }
        let Some(stamps) = self.stamps else {
            return Ok(());
        };
        let expected = stamps.get(table);
        if found.sequence > self.base || expected == Some(*found) {
            return Ok(());
        }
        let words = |stamp: &TableStamp| {
            let TableStamp {
                sequence,
                rows,
                crc,
                ..
            } = stamp;
            format!("as of commit {sequence} ({rows} rows, checksum {crc:08x})")
        };
        let expected = expected.as_ref();
        Err(wrong(words(found), expected.map_or("none".into(), words)))
    }

    /// Required rows in a table's file; `None` if unknown.
    pub(crate) fn rows(&self, table: &str) -> Option<u64> {
        Some(self.stamps?.get(table).map_or(0, |stamp| stamp.rows))
    }
}
