//! Expected identity of table files.
//!
//! A log's base has the [stamps](TableStamps) of all tables. Until the next checkpoint a file may be newer if the log
//! holds its content. Any other table is wrong: older, another signal's, or changed.

use std::path::Path;

use super::compact::CompactTables;
use super::parts::Base;
use super::table_stamps::TableStamps;
use crate::error::StoreError;
use crate::layout::table::TableFile;
use crate::op::{SignalId, TableStamp};

#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpectedTables<'a> {
    pub(crate) signal: &'a str,
    /// `None` in an earlier version.
    pub(crate) stamps: Option<&'a TableStamps>,
    pub(crate) compact: Option<&'a CompactTables>,
    pub(crate) base: u64,
    pub(crate) last: u64,
}

impl<'a> ExpectedTables<'a> {
    /// Used by the writer: nobody else changes tables.
    pub(crate) fn exactly(base: &'a Base) -> Self {
        Self::since(base, u64::MAX, u64::MAX)
    }

    pub(crate) fn since(signal: &'a Base, base: u64, last: u64) -> Self {
        Self {
            signal: &signal.name,
            stamps: signal.tables.as_ref(),
            compact: signal.compact.as_ref(),
            base,
            last,
        }
    }

    /// Tables newer than all known records pass.
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

    pub(crate) fn rows(&self, table: &str) -> Option<u64> {
        Some(self.stamps?.get(table).map_or(0, |stamp| stamp.rows))
    }
}
