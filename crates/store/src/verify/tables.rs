//! Tables whose files are gone. A signal without its gaps would show samples that nobody recorded, one without its
//! clock no times, and neither would say so.

use serde_json::Value;

use super::{Subject, metadata};
use crate::engine::{TEXT_ARRAY, table_files};
use crate::error::StoreError;
use crate::state::EVENTS;

const MEND: &str = "copy it back from another copy of the store; until then what it held is unknown, so do not write to \
                    or repair this signal";

/// Finds tables that are missing; whether all are there, so that the samples can be judged.
pub(super) fn tables(subject: &mut Subject<'_>) -> Result<bool, StoreError> {
    let mut whole = true;
    for (table, file) in table_files() {
        let path = subject.folder.join(&file);
        if matches!(subject.media.stat(&path), Ok(Some(_))) {
            continue;
        }
        let array = if table == EVENTS { TEXT_ARRAY } else { table };
        let described = subject
            .media
            .read(&subject.folder.join(array).join("zarr.json"));
        let described: Option<Value> = match described {
            Ok(Some(bytes)) => serde_json::from_slice(&bytes).ok(),
            _ => None,
        };
        let rows = described.and_then(|json| json["shape"][0].as_u64());
        // What a log still has is not lost.
        let tables = subject.state.tables();
        let known = tables.iter().find(|known| known.name == table);
        let known = known.map_or(0, |known| match table {
            EVENTS => known.text.len(),
            _ => known.rows.len() / known.columns.max(1),
        });
        let lost = match rows {
            Some(rows) => rows > known as u64,
            // All but events have a description from the first publication on, also if they are empty.
            None => table != EVENTS && known == 0 && !metadata::being_written(subject),
        };
        if lost {
            let held = rows.map_or(String::new(), |rows| format!(", which held {rows} rows"));
            let what = format!("the table of {table} is missing: {}{held}", path.display());
            subject.add("missing_table", path, None, what, MEND, false);
            whole = false;
        }
    }
    Ok(whole)
}
