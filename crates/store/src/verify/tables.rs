//! Tables: those whose files are gone, and the contents of the others.
//!
//! A signal without its gaps would show samples that nobody recorded, one without its clock no times, and neither would
//! say so. Tables that had rows and are gone are found when the signal is loaded, which fails: the log's base counts the rows
//! of each. Here are stores of earlier versions, whose logs do not: while nobody writes, every table but that of events is
//! described, also if it is empty, so one that is not described may have had rows.
//!
//! What the others say is compared in `consistency`: most of it whenever a signal is loaded, every stamp with the fit only
//! here.

use serde_json::Value;

use super::Subject;
use crate::consistency::{self, Contradiction};
use crate::engine::evidence::Writer;
use crate::engine::table_files;
use crate::error::StoreError;
use crate::media::limits;
use crate::state::{CORRECTIONS, EVENTS};

pub(super) const MEND: &str = "copy it back from another copy of the store; until then what it held is unknown, so the \
                               signal is neither read, written nor repaired";

const IMPOSSIBLE: &str = "restore the table's file from a copy; which samples are valid, or when they were taken, cannot \
                          be told without it";

/// Finds tables of which nothing is left; whether all are there, so that the samples can be judged.
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
        // What a log still has is not lost.
        let tables = subject.state.tables();
        let known = tables
            .iter()
            .any(|known| known.name == table && !known.rows.is_empty());
        // The log's base, if it says so, knows of an empty table; only its description is missing then.
        let stamps = subject.backend.table_stamps(subject.state.id)?;
        let empty =
            stamps.is_some_and(|stamps| stamps.get(table).is_none_or(|file| file.rows == 0));
        if !described && !known && !empty && subject.round.writer == Writer::Closed {
            let what = format!("the table of {table} is missing: {}", path.display());
            subject.add("missing_table", path, None, what, MEND, false);
            whole = false;
        }
    }
    Ok(whole)
}

/// Checks what the tables say against each other; whether samples can be judged by them.
///
/// # Errors
/// [`StoreError::DamagedTable`] for what is refused whenever a signal is loaded.
pub(super) fn contents(subject: &mut Subject<'_>) -> Result<bool, StoreError> {
    consistency::check(&subject.state)?;
    let Some(found) = consistency::contradiction(&subject.state) else {
        return Ok(true);
    };
    let Contradiction { table, what, range } = found;
    let path = super::table_path(&subject.folder, table);
    let what = format!("table {table:?} is impossible: {what}");
    // Times are made of these very tables, so none is told.
    subject.add_untimed("impossible_table", (path, Some(range)), what, IMPOSSIBLE);
    Ok(false)
}
