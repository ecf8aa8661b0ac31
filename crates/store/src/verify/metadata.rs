//! Compares `zarr.json` files with what the engine would write.
//!
//! Metadata is published after its commit, so a file that lags is no damage if an active writer (within a second) or
//! the next opening for writing after a crash will update it. It is never ahead of the log.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Finding, Report, Subject};
use crate::engine::compact;
use crate::engine::io::IoContext;
use crate::engine::lost_commits::WriterStatus;
use crate::engine::tables;
use crate::error::StoreError;
use crate::layout::table::TEXT_ARRAY;
use crate::layout::{self, zarr};
use crate::media::{Kind, Media, Refusal, limits};
use crate::state::{CORRECTIONS, EVENTS, GAPS};
use crate::store::Store;

const EVENT_BYTES: u64 = 40;

const REBUILD: &str = "other programs may misread the data; `--repair` writes it again";

const FIX_UNREADABLE: &str =
    "correct what keeps it from being read; until then nothing is written over it";

const FIX_ATTRIBUTES: &str = "restore it from a copy; or let `--repair` write one without them, which keeps the damaged \
                               file in .isochrony and says that they are lost";

/// A store's own unreadable `zarr.json`, which may have held attributes.
pub(super) const ATTRIBUTES_LOST: &str = "damaged_metadata";

pub(crate) fn is_signal(bytes: &[u8]) -> bool {
    let value: Option<Value> = serde_json::from_slice(bytes).ok();
    value.is_some_and(|value| value["attributes"]["isochrony"]["kind"] == "signal")
}

/// The first difference, if any. Foreign attributes belong to the user.
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
    extra.map(|key| format!("there is a field {key:?} that Isochrony did not write"))
}

pub(super) struct ExpectedMetadata {
    folder: PathBuf,
    expected: Value,
    lag: PublishLag,
}

enum PublishLag {
    /// Not at all.
    Never,
    /// Unit, calibration and attributes may be old.
    Attributes,
    /// The array may be shorter: description by rows, samples per row.
    Samples(Box<dyn Fn(u64) -> Option<Value>>, i64),
    /// The table may have other rows and another geometry.
    Rows(Box<dyn Fn(u64) -> Option<Value>>),
}

impl ExpectedMetadata {
    fn new(folder: impl Into<PathBuf>, expected: Value, lag: PublishLag) -> Self {
        Self {
            folder: folder.into(),
            expected,
            lag,
        }
    }

    pub(super) fn view(folder: PathBuf, expected: Value) -> Self {
        let of = expected.clone();
        let lag = match expected["shape"].is_array() {
            true => PublishLag::Rows(Box::new(move |rows| {
                let mut described = of.clone();
                described["shape"][0] = rows.into();
                Some(described)
            })),
            false => PublishLag::Never,
        };
        Self::new(folder, expected, lag)
    }

    pub(super) fn path(&self, subject: &Subject<'_>) -> PathBuf {
        subject.folder.join(&self.folder).join("zarr.json")
    }

    pub(super) fn expected(&self) -> &Value {
        &self.expected
    }

    /// `None` unless only the length differs.
    fn with_length_of(&self, found: &Value) -> Option<(u64, Value)> {
        let rows = found["shape"][0].as_u64()?;
        let at = match &self.lag {
            PublishLag::Samples(at, _) | PublishLag::Rows(at) => at(rows)?,
            _ => return None,
        };
        compare(found.to_string().as_bytes(), &at)
            .is_none()
            .then_some((rows, at))
    }
}

pub(super) fn expected(subject: &Subject<'_>) -> Result<Vec<ExpectedMetadata>, StoreError> {
    let state = &subject.state;
    let is_compact = subject.backend.is_compact(state.id)?;
    let meta = &state.meta;
    let chunk = meta.chunk_samples.max(1).cast_signed();
    let group = || zarr::group(serde_json::Map::new());
    let own = zarr::signal_group(
        state.id,
        meta,
        is_compact.then(|| compact::described(state)),
    );
    let mut files = vec![ExpectedMetadata::new("", own, PublishLag::Attributes)];
    if !is_compact {
        files.push(ExpectedMetadata::new(
            "timebase",
            group(),
            PublishLag::Never,
        ));
    }
    let lies_there = |file: &str| {
        let found = subject.media.stat(&subject.folder.join(file));
        !matches!(found, Ok(None))
    };
    if subject.backend.has_checksums(state.id)? {
        files.push(ExpectedMetadata::new(
            "crc",
            zarr::crc_array((state.end / chunk).max(0).cast_unsigned()),
            PublishLag::Samples(Box::new(|rows| Some(zarr::crc_array(rows))), chunk),
        ));
    }
    if meta.codec.is_empty() {
        let of = (**meta).clone();
        let at = move |rows: u64| Some(zarr::data_array(&of, i64::try_from(rows).ok()?));
        files.push(ExpectedMetadata::new(
            "data",
            zarr::data_array(meta, state.end),
            PublishLag::Samples(Box::new(at), 1),
        ));
    } else {
        let found = subject
            .media
            .read(&subject.folder.join("data/zarr.json"), limits::METADATA)
            .ok()
            .flatten();
        let sealed = crate::seal::described(state, found.as_deref());
        files.push(ExpectedMetadata::new("data", sealed, PublishLag::Never));
    }
    for name in tables::arrays().map(|(name, _)| name).chain([CORRECTIONS]) {
        let file = format!("{name}/c/0/0");
        // In a compact signal only the table of gaps can be an array.
        let has_gaps = || !state.gaps.is_empty() || lies_there(&file);
        let is_array = match name {
            CORRECTIONS => lies_there(&file),
            _ => !is_compact || (name == GAPS && has_gaps()),
        };
        if is_array {
            files.extend(table(subject, name, &file, name));
        }
    }
    let text = subject.folder.join(TEXT_ARRAY).join("c/0");
    if matches!(subject.media.stat(&text), Ok(Some(Kind::File(_)))) {
        files.push(ExpectedMetadata::new("events", group(), PublishLag::Never));
        // The text's file determines the rows.
        let carried = subject.media.read(&text, limits::TABLE).ok().flatten();
        let carried = carried.and_then(|bytes| tables::decode(TEXT_ARRAY, &bytes).ok());
        files.extend(carried.and_then(|text| {
            let at = |rows| tables::description(EVENTS, rows);
            let rows = at(text.attachment.len() as u64 / EVENT_BYTES)?;
            Some(ExpectedMetadata::new(
                EVENTS,
                rows,
                PublishLag::Rows(Box::new(at)),
            ))
        }));
        files.extend(table(
            subject,
            TEXT_ARRAY,
            &format!("{TEXT_ARRAY}/c/0"),
            TEXT_ARRAY,
        ));
    }
    Ok(files)
}

/// `None` if the table's file is unreadable, which is found elsewhere.
fn table(
    subject: &Subject<'_>,
    folder: &str,
    file: &str,
    name: &'static str,
) -> Option<ExpectedMetadata> {
    let bytes = subject
        .media
        .read(&subject.folder.join(file), limits::TABLE)
        .ok()?;
    let row_bytes = match name {
        TEXT_ARRAY => 1,
        _ => 8 * crate::state::Table::columns_of(name)? as u64,
    };
    let rows = match bytes {
        Some(bytes) => tables::decode(name, &bytes).ok()?.rows.len() as u64 / row_bytes,
        None => 0,
    };
    let at = move |rows| tables::description(name, rows);
    let expected = at(rows)?;
    Some(ExpectedMetadata::new(
        folder,
        expected,
        PublishLag::Rows(Box::new(at)),
    ))
}

pub(super) fn signal(subject: &mut Subject<'_>) -> Result<(), StoreError> {
    for description in expected(subject)? {
        judge(subject, &description)?;
    }
    events(subject)
}

pub(super) fn judge(
    subject: &mut Subject<'_>,
    description: &ExpectedMetadata,
) -> Result<(), StoreError> {
    let path = description.path(subject);
    let settled = subject.round.writer == WriterStatus::Closed;
    let read = match subject.media.read(&path, limits::METADATA) {
        Err(error) if cannot_be_metadata(&error, &path) => {
            let what = format!("{} cannot be read: {error}", path.display());
            subject.add("missing_metadata", path, None, what, REBUILD, true);
            return Ok(());
        }
        read => read.at("read", &path)?,
    };
    let Some(bytes) = read else {
        // Changes since the checkpoint may be unpublished.
        let due = match subject.round.writer {
            WriterStatus::Closed => true,
            WriterStatus::Alive => subject.round.base.contains_key(&subject.state.id),
            WriterStatus::Crashed => false,
        };
        if due {
            let what = format!("{} is missing", path.display());
            subject.add("missing_metadata", path, None, what, REBUILD, true);
        }
        return Ok(());
    };
    let Some(difference) = compare(&bytes, &description.expected) else {
        return Ok(());
    };
    let found: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let length = description.with_length_of(&found);
    let behind = match (&description.lag, &length) {
        (PublishLag::Samples(..), Some((rows, _))) => {
            *rows < description.expected["shape"][0].as_u64().unwrap_or(0)
        }
        (PublishLag::Rows(_), Some(_)) => true,
        _ => false,
    };
    if !settled && is_explained(subject, description, &found, length.map(|(rows, _)| rows))? {
        return Ok(());
    }
    let (code, what) = match behind {
        true => (
            "stale_metadata",
            format!("{} is behind: {difference}", path.display()),
        ),
        false => (
            "foreign_metadata",
            format!("{} was changed: {difference}", path.display()),
        ),
    };
    subject.add(code, path, None, what, REBUILD, true);
    Ok(())
}

/// Whether an unpublished or newer commit explains the difference.
fn is_explained(
    subject: &Subject<'_>,
    description: &ExpectedMetadata,
    found: &Value,
    length: Option<u64>,
) -> Result<bool, StoreError> {
    let id = subject.state.id;
    match (&description.lag, length) {
        (PublishLag::Never, _) | (PublishLag::Samples(..) | PublishLag::Rows(_), None) => Ok(false),
        (PublishLag::Attributes, _) => {
            let (got, want) = (&found["attributes"], &description.expected["attributes"]);
            let same = |key: &str| got["isochrony"][key] == want["isochrony"][key];
            let fixed = ["kind", "format", "id", "dtype"].into_iter().all(same);
            Ok(fixed && found["node_type"] == "group" && found["zarr_format"] == 3)
        }
        (PublishLag::Rows(_), Some(_)) => Ok(true),
        (PublishLag::Samples(_, samples), Some(rows)) => {
            let rows = i64::try_from(rows).unwrap_or(i64::MAX);
            let least = match subject.round.writer {
                WriterStatus::Alive => subject.round.base.get(&id).map_or(0, |end| end / samples),
                _ => 0,
            };
            let mut end = subject.state.end;
            if rows > end / samples && subject.round.writer == WriterStatus::Alive {
                subject.backend.refresh()?;
                end = subject.backend.state(id)?.end;
            }
            Ok((least..=end / samples).contains(&rows))
        }
    }
}

fn events(subject: &mut Subject<'_>) -> Result<(), StoreError> {
    let read = |file: &str, name: &str| {
        let bytes = subject
            .media
            .read(&subject.folder.join(file), limits::TABLE)
            .ok()??;
        tables::decode(name, &bytes).ok()
    };
    let Some(text) = read(&format!("{TEXT_ARRAY}/c/0"), TEXT_ARRAY) else {
        return Ok(());
    };
    let path = subject.folder.join(EVENTS).join("c/0/0");
    let what = match read(&format!("{EVENTS}/c/0/0"), EVENTS) {
        Some(rows) if rows.rows == text.attachment => return Ok(()),
        // Written one after the other.
        Some(rows)
            if rows.sequence != text.sequence && subject.round.writer != WriterStatus::Closed =>
        {
            return Ok(());
        }
        None if text.attachment.is_empty() || subject.round.writer != WriterStatus::Closed => {
            return Ok(());
        }
        Some(rows) => format!(
            "{} has {} rows, and not those that {TEXT_ARRAY} holds ({})",
            path.display(),
            rows.rows.len() / 40,
            text.attachment.len() / 40
        ),
        None => format!("{} is missing or cannot be read", path.display()),
    };
    let mend =
        "other programs see different events than isochrony; `--repair` writes the table again";
    subject.add("stale_events", path, None, what, mend, true);
    Ok(())
}

pub(super) fn groups(
    store: &Store,
    media: &dyn Media,
    folders: &[PathBuf],
    writer: WriterStatus,
    report: &mut Report,
) -> Result<(), StoreError> {
    let root = store.path();
    let group = |path: &Path, expected: &Value| {
        let found = group(media, path, expected);
        // The next opening for writing writes it.
        found.filter(|_| writer != WriterStatus::Crashed || !matches!(media.stat(path), Ok(None)))
    };
    let uuid = store.uuid()?;
    let own = zarr::store_group(&uuid, serde_json::Map::new());
    let path = root.join("zarr.json");
    let found = attributes_lost(media, &path).or_else(|| group(&path, &own));
    report.findings.extend(found);
    let engine = layout::engine_folder(root);
    let mut above: Vec<&Path> = folders
        .iter()
        .flat_map(|folder| folder.ancestors().skip(1))
        .filter(|folder| folder.starts_with(root) && *folder != root)
        // Not a group: a killed writer may have left a signal in staging.
        .filter(|folder| !folder.starts_with(&engine))
        .collect();
    above.sort_unstable();
    above.dedup();
    let plain = zarr::group(serde_json::Map::new());
    for folder in above {
        let found = group(&folder.join("zarr.json"), &plain);
        report.findings.extend(found);
    }
    Ok(())
}

fn group(media: &dyn Media, path: &Path, expected: &Value) -> Option<Finding> {
    let (code, what) = match media.read(path, limits::METADATA) {
        Ok(Some(bytes)) => (
            "foreign_metadata",
            format!(
                "{} was changed: {}",
                path.display(),
                compare(&bytes, expected)?
            ),
        ),
        Ok(None) => ("missing_metadata", format!("{} is missing", path.display())),
        Err(error) => {
            let what = format!("{} cannot be read: {error}", path.display());
            // May be correct although unreadable: not overwritten.
            let repairable = cannot_be_metadata(&error, path);
            let found = of_group("missing_metadata", path, what);
            return Some(Finding {
                mend: if repairable { REBUILD } else { FIX_UNREADABLE }.into(),
                repairable,
                ..found
            });
        }
    };
    Some(of_group(code, path, what))
}

/// A repair moves it away and writes a new file. A folder stays: it may contain foreign files.
pub(super) fn cannot_be_metadata(error: &std::io::Error, path: &Path) -> bool {
    match Refusal::of(error) {
        Some(Refusal::TooLong { .. }) => true,
        Some(Refusal::Kind { path: at, found }) => at == path && !found.starts_with("a folder"),
        _ => false,
    }
}

fn of_group(code: &'static str, path: &Path, what: String) -> Finding {
    Finding {
        code,
        signal: None,
        range: None,
        civil: None,
        what,
        mend: REBUILD.into(),
        repairable: true,
        path: path.into(),
    }
}

fn attributes_lost(media: &dyn Media, path: &Path) -> Option<Finding> {
    let why = match media.read(path, limits::METADATA) {
        Ok(Some(bytes)) if zarr::attributes_of(&bytes).is_none() => "it is cut or changed".into(),
        Err(error) if cannot_be_metadata(&error, path) => error.to_string(),
        Ok(_) | Err(_) => return None,
    };
    let what = format!(
        "{} is damaged, and with it the attributes of the store and its saved plans, if it had any: {why}",
        path.display()
    );
    Some(Finding {
        mend: FIX_ATTRIBUTES.into(),
        ..of_group(ATTRIBUTES_LOST, path, what)
    })
}

pub(super) fn mended_group(
    store: &Store,
    media: &dyn Media,
    path: &Path,
) -> Result<Value, StoreError> {
    let found = match media.read(path, limits::METADATA) {
        Err(error) if cannot_be_metadata(&error, path) => None,
        found => found.at("read", path)?,
    };
    let user = found
        .and_then(|bytes| zarr::attributes_of(&bytes))
        .unwrap_or_default();
    if path == store.path().join("zarr.json") {
        return Ok(zarr::store_group(&store.uuid()?, user));
    }
    let user = user.into_iter().filter(|(key, _)| key != "isochrony");
    Ok(zarr::group(user.collect()))
}
