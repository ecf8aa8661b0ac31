//! Finds missing tables, and tables that contradict one another.
//!
//! The log's base counts rows, so loading already fails without a table that had any. Earlier logs do not, so metadata
//! decides here: a closed writer leaves a `zarr.json` for every table except events, even if empty. If that is missing
//! too, the table may have had rows.
//!
//! `consistency` compares the content: most of it on every load, stamps with the fit only here.

use serde_json::Value;

use super::Subject;
use crate::consistency::{self, Contradiction};
use crate::engine::lost_commits::WriterStatus;
use crate::engine::table_files;
use crate::error::StoreError;
use crate::media::limits;
use crate::state::{CORRECTIONS, EVENTS};

pub(super) const REMEDY: &str = "copy it back from another copy of the store; until then what it held is unknown, so the \
                               signal is neither read, written nor repaired";

const RESTORE_TABLE: &str = "restore the table's file from a copy; which samples are valid, or when they were taken, cannot \
                          be told without it";

pub(super) fn tables(subject: &mut Subject<'_>) -> Result<bool, StoreError> {
    let mut whole = true;
    for (table, file) in table_files()
        .into_iter()
        .filter(|(table, _)| ![EVENTS, CORRECTIONS].contains(table))
    {
        let path = subject.folder.join(&file);
        if matches!(subject.media.stat(&path), Ok(Some(_))) {
            continue;
        }
        let described = subject.folder.join(table).join("zarr.json");
        let described = match subject.media.read(&described, limits::METADATA) {
            Ok(Some(bytes)) => serde_json::from_slice::<Value>(&bytes).is_ok(),
            _ => false,
        };
        let tables = subject.state.tables();
        let known = tables
            .iter()
            .any(|known| known.name == table && !known.rows.is_empty());
        // Empty by the log's base: only metadata is missing.
        let stamps = subject.backend.table_stamps(subject.state.id)?;
        let empty =
            stamps.is_some_and(|stamps| stamps.get(table).is_none_or(|file| file.rows == 0));
        if !described && !known && !empty && subject.round.writer == WriterStatus::Closed {
            let what = format!("the table of {table} is missing: {}", path.display());
            subject.add("missing_table", path, None, what, REMEDY, false);
            whole = false;
        }
    }
    Ok(whole)
}

/// Whether tables are consistent, as verification of samples requires.
///
/// # Errors
/// [`StoreError::DamagedTable`] for what loading a signal refuses.
pub(super) fn contents(subject: &mut Subject<'_>) -> Result<bool, StoreError> {
    consistency::check(&subject.state)?;
    let Some(found) = consistency::contradiction(&subject.state) else {
        return Ok(true);
    };
    let Contradiction { table, what, range } = found;
    let path = super::table_path(&subject.folder, table);
    let what = format!("table {table:?} is inconsistent: {what}");
    // Times come from these tables.
    subject.add_untimed("impossible_table", (path, Some(range)), what, RESTORE_TABLE);
    Ok(false)
}
