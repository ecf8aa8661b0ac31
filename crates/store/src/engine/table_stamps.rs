//! Stamps of table files: the last commit in each, its rows and their checksum.
//!
//! A checkpoint records them in its new log's base; `expected_tables` compares files with them.

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

/// `row_bytes` also applies to rows in the attachment.
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
