//! Tables whose files are gone.
//!
//! A table that never had a row has no file, so a missing file alone says nothing. What describes it does: a table's
//! `zarr.json` is written after the file, so rows that it counts were in one. The redo log may still hold those rows,
//! where a power cut took a table that was only published: so they are lost if no state since the log's base had as
//! many. And a checkpoint gives every table but that of events a folder, so where the log says nothing of a signal that
//! was ever published, a missing folder was taken away. That is how it is told in stores of earlier versions; the base of
//! a log says how many rows there were ([`Stamps`](super::stamps::Stamps)).
//!
//! A signal that lost its gaps would show samples that nobody recorded, and a writer would store the table anew as
//! empty. So neither reading nor writing goes on without it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::io::IoContext;
use super::tables::TEXT_ARRAY;
use crate::error::StoreError;
use crate::media::{Media, limits};
use crate::state::{CORRECTIONS, EVENTS, FIT, GAPS, POINTS, RUNS, SignalState};

/// A table without a file that had rows.
#[derive(Debug)]
pub(super) struct Missing {
    table: &'static str,
    path: PathBuf,
    /// How many the log or its description counts, if either does.
    rows: Option<u64>,
    /// Whether the log counts them: they were in a file that was durable when it began.
    is_known: bool,
    /// Most that any state since the log's base had.
    seen: u64,
}

impl Missing {
    /// What speaks for rows in the table that should lie at `path`; `None` if nothing does. `known`: how many the log
    /// counts.
    pub(super) fn look(
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
        // The rows of events lie with their text.
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

    /// Takes in the rows of a state since the log's base.
    pub(super) fn watch(&mut self, state: &SignalState) {
        let rows = match self.table {
            GAPS => state.gaps.len(),
            RUNS => state.runs.len(),
            POINTS => state.points.len(),
            FIT => state.fit.len(),
            CORRECTIONS => state.corrections.point_count(),
            // Their description counts bytes.
            _ if state.events.next_id() == 0 => 0,
            _ => usize::MAX,
        };
        self.seen = self.seen.max(rows as u64);
    }

    /// Whether rows are lost that nothing else holds; `untouched`: the signal lies as a checkpoint left it.
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
