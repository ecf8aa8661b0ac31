//! What the files of a signal's tables must be.
//!
//! A checkpoint notes in the base of the log that it begins, for every table, the last commit that its file contains, how
//! many rows it has and their checksum. Until the next checkpoint a file may be newer, since tables of gaps are published
//! and a checkpoint may be interrupted; the log then holds what is in it. Anything else is another table: an older one,
//! one of another signal, one that was changed.

use std::path::Path;

use super::parts::Base;
use super::slot::SlotInner;
use super::small::SmallTables;
use crate::error::StoreError;
use crate::layout::table::TableFile;
use crate::op::{Op, SignalId, TableStamp};
use crate::state::TABLES;

/// The tables of a signal as of a checkpoint; `None`: the table has no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Stamps([Option<TableStamp>; TABLES.len()]);

/// Number of a table.
fn number(table: &str) -> Option<usize> {
    TABLES.iter().position(|name| *name == table)
}

impl Stamps {
    /// What a log says.
    pub(crate) fn new(stamps: &[TableStamp]) -> Self {
        let mut all = Self::default();
        for stamp in stamps {
            if let Some(place) = all.0.get_mut(usize::from(stamp.table)) {
                *place = Some(*stamp);
            }
        }
        all
    }

    /// The operation that says it.
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

/// What a file is, as the authority of a table. Rows that lie behind an array are of `row_bytes`, too.
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
    /// Whether a table had a file at the last checkpoint.
    pub(crate) fn has_file(&self, table: &str) -> bool {
        let stamps = self.base.tables.as_ref();
        stamps.is_some_and(|stamps| stamps.get(table).is_some())
    }
}

/// What somebody who reads the tables of a signal knows of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpectedTables<'a> {
    /// Name of the signal, for messages.
    pub(crate) signal: &'a str,
    /// As of the log's base; `None` if it is of an earlier version, which says nothing.
    pub(crate) stamps: Option<&'a Stamps>,
    /// The rows of its tables, if it is compact.
    pub(crate) small: Option<&'a SmallTables>,
    /// Sequence of the log's base.
    pub(crate) base: u64,
    /// Sequence of the last record that is known.
    pub(crate) last: u64,
}

impl<'a> ExpectedTables<'a> {
    /// For the writer, beside whom nobody changes tables: they are as the last checkpoint left them.
    pub(crate) fn exactly(base: &'a Base) -> Self {
        Self::since(base, u64::MAX, u64::MAX)
    }

    /// For who knows the records of a log from its base on.
    pub(crate) fn since(signal: &'a Base, base: u64, last: u64) -> Self {
        Self {
            signal: &signal.name,
            stamps: signal.tables.as_ref(),
            small: signal.small.as_ref(),
            base,
            last,
        }
    }

    /// Refuses a file that is not one of the tables that may be there. One that is newer than what is known is not
    /// judged.
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

    /// How many rows are in the file of a table, if that must be there. `None`: nothing says so.
    pub(crate) fn rows(&self, table: &str) -> Option<u64> {
        Some(self.stamps?.get(table).map_or(0, |stamp| stamp.rows))
    }
}
