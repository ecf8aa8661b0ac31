//! `zarr.json` files against what the engine would write.

use serde_json::Value;

use super::{Finding, Report, Subject};
use crate::error::StoreError;
use crate::layout::zarr;
use crate::media::Media;
use crate::store::Store;

const REBUILD: &str = "other programs may misread the data; `--repair` writes it anew";

/// Whether these are the bytes of a signal's group.
pub(super) fn is_signal(bytes: &[u8]) -> bool {
    let value: Option<Value> = serde_json::from_slice(bytes).ok();
    value.is_some_and(|value| value["attributes"]["isochrony"]["kind"] == "signal")
}

/// What differs first between the bytes of a `zarr.json` and what it should say; `None` if nothing does. Attributes
/// that are not ours are the user's, whatever they are.
pub(crate) fn compare(bytes: &[u8], expected: &Value) -> Option<String> {
    let found: Value = match serde_json::from_slice(bytes) {
        Ok(found) => found,
        Err(error) => return Some(format!("it is no JSON: {error}")),
    };
    let fields = expected.as_object()?;
    for (key, want) in fields {
        let got = found.get(key).unwrap_or(&Value::Null);
        if key == "attributes" {
            let (got, want) = (&got["isochrony"], &want["isochrony"]);
            if got != want {
                return Some(format!("attributes.isochrony is {got}, expected {want}"));
            }
        } else if got != want {
            return Some(format!("{key} is {got}, expected {want}"));
        }
    }
    let known = |key: &String| {
        fields.contains_key(key) || key == "attributes" || key == "consolidated_metadata"
    };
    let extra = found
        .as_object()
        .and_then(|found| found.keys().find(|key| !known(key)));
    extra.map(|key| format!("there is a field {key:?} that nobody of us wrote"))
}

/// The arrays of a signal that follow from its state alone: path of the folder below the signal's and contents.
pub(super) fn expected(subject: &Subject<'_>) -> Vec<(&'static str, Value)> {
    let state = &subject.state;
    let chunks = state.end / state.meta.chunk_samples.max(1).cast_signed();
    let mut files = vec![
        ("", zarr::signal_group(state.id, &state.meta)),
        ("crc", zarr::crc_array(chunks.max(0).cast_unsigned())),
    ];
    if state.meta.codec.is_empty() {
        files.push(("data", zarr::data_array(&state.meta, state.end)));
    }
    files
}

/// The metadata of a signal's arrays. What is only behind (a writer publishes within a second) is no damage.
pub(super) fn signal(subject: &mut Subject<'_>) -> Result<(), StoreError> {
    for (array, expected) in expected(subject) {
        let path = subject.folder.join(array).join("zarr.json");
        let found = subject.media.read(&path);
        let Ok(Some(bytes)) = found else {
            let what = format!("{} is missing", path.display());
            subject.add("missing_metadata", path, None, what, REBUILD, true);
            continue;
        };
        if let Some(difference) = compare(&bytes, &expected) {
            if !is_behind(&bytes, &expected) {
                let what = format!("{} was changed: {difference}", path.display());
                subject.add("foreign_metadata", path, None, what, REBUILD, true);
            } else if array == "data" && !being_written(subject) {
                let what = format!("{} is behind: {difference}", path.display());
                subject.add("stale_metadata", path, None, what, REBUILD, true);
            }
        }
    }
    Ok(())
}

/// Whether a writer, this process or another, will bring the metadata up to date within a second.
pub(super) fn being_written(subject: &Subject<'_>) -> bool {
    let root = subject.backend.path();
    subject.backend.is_writable()
        || crate::engine::lock::is_held(&*subject.media, root).unwrap_or(true)
}

/// Whether the only difference is a length that is too short.
fn is_behind(bytes: &[u8], expected: &Value) -> bool {
    let Ok(mut found) = serde_json::from_slice::<Value>(bytes) else {
        return false;
    };
    let shorter = match (found["shape"][0].as_u64(), expected["shape"][0].as_u64()) {
        (Some(found), Some(expected)) => found < expected,
        _ => false,
    };
    if shorter {
        found["shape"] = expected["shape"].clone();
    }
    shorter && compare(found.to_string().as_bytes(), expected).is_none()
}

/// The store's own group.
pub(super) fn store(store: &Store, media: &dyn Media, report: &mut Report) {
    let path = store.path().join("zarr.json");
    let Ok(uuid) = store.uuid() else { return };
    let expected = zarr::store_group(&uuid, serde_json::Map::new());
    let difference = match media.read(&path) {
        Ok(Some(bytes)) => compare(&bytes, &expected),
        _ => Some("it is missing".into()),
    };
    if let Some(difference) = difference {
        report.findings.push(Finding {
            code: "foreign_metadata",
            signal: None,
            range: None,
            civil: None,
            what: format!("{}: {difference}", path.display()),
            mend: REBUILD.into(),
            repairable: true,
            path,
        });
    }
}
