//! Tables whose files are gone. A signal without its gaps would show samples that nobody recorded, one without its
//! clock no times, and neither would say so.
//!
//! Those that had rows are found when the signal is loaded, which fails. Here is what may be taken for an empty table but
//! is not described as one: while nobody writes, every table but that of events is described, also if it is empty.

use serde_json::Value;

use super::{Subject, metadata};
use crate::engine::table_files;
use crate::error::StoreError;
use crate::state::EVENTS;

pub(super) const MEND: &str = "copy it back from another copy of the store; until then what it held is unknown, so the \
                               signal is neither read, written nor repaired";

/// Finds tables of which nothing is left; whether all are there, so that the samples can be judged.
pub(super) fn tables(subject: &mut Subject<'_>) -> Result<bool, StoreError> {
    let mut whole = true;
    for (table, file) in table_files()
        .into_iter()
        .filter(|(table, _)| *table != EVENTS)
    {
        let path = subject.folder.join(&file);
        if matches!(subject.media.stat(&path), Ok(Some(_))) {
            continue;
        }
        let described = subject.folder.join(table).join("zarr.json");
        let described = match subject.media.read(&described) {
            Ok(Some(bytes)) => serde_json::from_slice::<Value>(&bytes).is_ok(),
            _ => false,
        };
        // What a log still has is not lost.
        let tables = subject.state.tables();
        let known = tables
            .iter()
            .any(|known| known.name == table && !known.rows.is_empty());
        if !described && !known && !metadata::being_written(subject) {
            let what = format!("the table of {table} is missing: {}", path.display());
            subject.add("missing_table", path, None, what, MEND, false);
            whole = false;
        }
    }
    Ok(whole)
}
