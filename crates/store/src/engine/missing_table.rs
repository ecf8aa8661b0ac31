//! Detects lost table files.
//!
//! A table without rows never had a file, so a missing file alone is no evidence. Its `zarr.json`, written after the
//! file, shows how many rows it had; newer logs state them in their base
//! ([`TableStamps`](super::table_stamps::TableStamps)). The redo log has rows that were only published, so rows are
//! lost only if no state since the log's base had as many. A checkpoint gives every table except events a folder, so a
//! published signal that the log does not mention must have it.
//!
//! Without its gaps a signal would show samples that nobody recorded, and a writer would store an empty table: reading
//! and writing fail.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::io::IoContext;
use crate::error::StoreError;
use crate::layout::table::TEXT_ARRAY;
use crate::media::{Media, limits};
use crate::state::{CORRECTIONS, EVENTS, FIT, GAPS, POINTS, RUNS, SignalState};

/// A table without a file that may have had rows.
#[derive(Debug)]
pub(super) struct MissingTable {
    table: &'static str,
    path: PathBuf,
    rows: Option<u64>,
    /// The log counts them: they were in a durable file when it began.
    is_known: bool,
    /// Most rows of any state since the log's base.
    seen: u64,
}

impl MissingTable {
    /// Evidence of rows in the table at `path`. `known`: rows by the log.
    pub(super) fn find(
        media: &dyn Media,
        folder: &Path,
        table: &'static str,
        path: &Path,
        known: Option<u64>,
    ) -> Result<Option<Self>, StoreError> {
        if let Some(rows) = known {
            return Ok((rows > 0).then(|| Self {
                table,
                path: path.into(),
                rows: Some(rows),
                is_known: true,
                seen: 0,
            }));
        }
        let own = folder.join(if table == EVENTS { TEXT_ARRAY } else { table });
        let described = own.join("zarr.json");
        let described = media
            .read(&described, limits::METADATA)
            .at("read", &described)?;
        let json: Option<Value> = described.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let rows = json.and_then(|json| json["shape"][0].as_u64());
        let gone = rows.is_none()
            && ![EVENTS, CORRECTIONS].contains(&table)
            && media.stat(&own).at("look at", &own)?.is_none()
            && {
                let data = folder.join("data/zarr.json");
                media.stat(&data).at("look at", &data)?.is_some()
            };
        Ok((gone || rows > Some(0)).then(|| Self {
            table,
            path: path.into(),
            rows,
            is_known: false,
            seen: 0,
        }))
    }

    pub(super) fn watch(&mut self, state: &SignalState) {
        let rows = match self.table {
            GAPS => state.gaps.len(),
            RUNS => state.runs.len(),
            POINTS => state.points.len(),
            FIT => state.fit.len(),
            CORRECTIONS => state.corrections.point_count(),
            _ if state.events.next_id() == 0 => 0,
            _ => usize::MAX,
        };
        self.seen = self.seen.max(rows as u64);
    }

    /// `untouched`: the log does not mention the signal.
    pub(super) fn is_lost(&self, untouched: bool) -> bool {
        match self.rows {
            Some(_) if self.is_known => true,
            Some(rows) => rows > self.seen,
            None => untouched && self.seen == 0,
        }
    }

    pub(super) fn error(&self, signal: &str) -> StoreError {
        StoreError::MissingTable {
            signal: signal.into(),
            table: self.table,
            path: self.path.clone(),
            rows: self.rows.filter(|_| self.is_known || self.table != EVENTS),
        }
    }
}
