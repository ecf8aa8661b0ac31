//! Provenance: import events of each signal, and from them the files that need no import.
//!
//! An event of kind `import` covers up to [`MAX_FILES_PER_EVENT`] consecutive files of one folder. Its fields are
//! `{"folder": "stn_10/2010/060/pressure", "files": [["stn_10_1267401600.raw", 120000, 0, 60000], ...]}`: name, bytes,
//! first index, samples and, if the importer gives one, the version of its content: about 45 bytes per file. Stamps are
//! not repeated: every stamped file has its point, and a raw file's version is the stamp in its name.
//!
//! A file is *known* if name, folder (below the imported one, which may move), bytes and version agree.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use isochrony_store::Signal;
use isochrony_store::op::EventRow;
use serde_json::{Value, json};

pub(crate) const EVENT_KIND: &str = "import";
/// Enough to share the folder's name, few enough to read quickly.
const MAX_FILES_PER_EVENT: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImportedFile {
    pub(crate) source: String,
    pub(crate) bytes: u64,
    pub(crate) index: i64,
    pub(crate) end: i64,
    pub(crate) samples: i64,
    pub(crate) version: Option<i64>,
}

#[derive(Debug, Default)]
pub(crate) struct UnrecordedFiles(Vec<ImportedFile>);

/// An event to write: first index, index after the last, fields.
pub(crate) type ImportEvent = (i64, i64, Value);

impl UnrecordedFiles {
    pub(crate) fn push(&mut self, file: ImportedFile) {
        self.0.push(file);
    }

    pub(crate) fn take_events(&mut self) -> Vec<ImportEvent> {
        let files = std::mem::take(&mut self.0);
        let mut events = Vec::new();
        let mut rest = files.as_slice();
        while let Some(first) = rest.first() {
            let (folder, _) = split(&first.source);
            let same = |file: &&ImportedFile| split(&file.source).0 == folder;
            let count = rest
                .iter()
                .take(MAX_FILES_PER_EVENT)
                .take_while(same)
                .count();
            let (now, later) = rest.split_at(count);
            rest = later;
            let start = now.iter().map(|file| file.index).min().unwrap_or(0);
            let end = now.iter().map(|file| file.end).max().unwrap_or(start);
            let rows: Vec<Value> = now.iter().map(row).collect();
            events.push((start, end, json!({"folder": folder, "files": rows})));
        }
        events
    }
}

fn row(file: &ImportedFile) -> Value {
    let (_, name) = split(&file.source);
    match file.version {
        Some(version) => json!([name, file.bytes, file.index, file.samples, version]),
        None => json!([name, file.bytes, file.index, file.samples]),
    }
}

fn split(source: &str) -> (&str, &str) {
    source.rsplit_once('/').unwrap_or(("", source))
}

/// Files do not interleave, so it is the last one that begins at the sample or before.
pub(crate) fn file_of_sample(signal: &Signal, index: i64) -> Option<String> {
    let end = index.checked_add(1)?;
    let events = signal.state().events.within(index..end);
    let mut found: Option<(i64, String)> = None;
    for event in events.filter(|event| event.kind == EVENT_KIND) {
        let Ok(fields) = serde_json::from_str::<Value>(&event.fields) else {
            continue;
        };
        let folder = fields.get("folder").and_then(Value::as_str);
        let files = fields.get("files").and_then(Value::as_array);
        for file in files.into_iter().flatten() {
            let name = file.get(0).and_then(Value::as_str);
            let first = file.get(2).and_then(Value::as_i64);
            let (Some(name), Some(first)) = (name, first.filter(|first| *first <= index)) else {
                continue;
            };
            if found.as_ref().is_none_or(|(before, _)| *before <= first) {
                let path = match folder.unwrap_or_default() {
                    "" => name.to_owned(),
                    folder => format!("{folder}/{name}"),
                };
                found = Some((first, path));
            }
        }
    }
    found.map(|(_, path)| path)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EarlierImport {
    pub(crate) bytes: u64,
    pub(crate) index: i64,
    pub(crate) samples: i64,
    pub(crate) version: Option<i64>,
}

/// Imports by a 128-bit hash of the path, so that none of a billion collide.
#[derive(Debug, Default)]
pub(crate) struct KnownFiles(HashMap<u128, EarlierImport>);

impl KnownFiles {
    /// Ignores other kinds and malformed events.
    pub(crate) fn add_events<'a>(&mut self, events: impl IntoIterator<Item = &'a EventRow>) {
        for event in events.into_iter().filter(|event| event.kind == EVENT_KIND) {
            let Ok(fields) = serde_json::from_str::<Value>(&event.fields) else {
                continue;
            };
            let folder = fields
                .get("folder")
                .and_then(Value::as_str)
                .unwrap_or_default();
            for file in fields
                .get("files")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                let number = |place: usize| file.get(place).and_then(Value::as_i64);
                let (Some(name), Some(bytes), Some(index), Some(samples)) = (
                    file.get(0).and_then(Value::as_str),
                    file.get(1).and_then(Value::as_u64),
                    number(2),
                    number(3),
                ) else {
                    continue;
                };
                let before = EarlierImport {
                    bytes,
                    index,
                    samples,
                    version: number(4),
                };
                self.insert(key(folder, name), before);
            }
        }
    }

    /// A file that has grown has several events; the longest counts.
    fn insert(&mut self, key: u128, before: EarlierImport) {
        let known = self.0.entry(key).or_insert(before);
        if before.bytes >= known.bytes {
            *known = before;
        }
    }

    pub(crate) fn add(&mut self, file: &ImportedFile) {
        let (folder, name) = split(&file.source);
        let before = EarlierImport {
            bytes: file.bytes,
            index: file.index,
            samples: file.samples,
            version: file.version,
        };
        self.insert(key(folder, name), before);
    }

    /// The latest import of a path.
    pub(crate) fn get(&self, source: &str) -> Option<EarlierImport> {
        let (folder, name) = split(source);
        self.0.get(&key(folder, name)).copied()
    }
}

fn key(folder: &str, name: &str) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, folder, name).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(source: &str, index: i64, version: Option<i64>) -> ImportedFile {
        ImportedFile {
            source: source.into(),
            bytes: 20,
            index,
            end: index + 10,
            samples: 10,
            version,
        }
    }

    #[test]
    fn recorded_files_are_known() {
        let mut unrecorded = UnrecordedFiles::default();
        let files: Vec<ImportedFile> = (0..600)
            .map(|n| {
                file(
                    &format!("a/{}/f{n}.raw", n / 300),
                    n * 10,
                    (n % 2 == 0).then_some(n),
                )
            })
            .chain([file("top.raw", 6000, None)])
            .collect();
        files.iter().for_each(|file| unrecorded.push(file.clone()));
        let events = unrecorded.take_events();
        assert!(unrecorded.take_events().is_empty());
        // 300 files per folder, in parts, and one without folder.
        let ranges: Vec<(i64, i64)> = events
            .iter()
            .map(|(start, end, _)| (*start, *end))
            .collect();
        assert_eq!(
            ranges,
            [
                (0, 2560),
                (2560, 3000),
                (3000, 5560),
                (5560, 6000),
                (6000, 6010)
            ]
        );
        let rows: Vec<EventRow> = events
            .into_iter()
            .enumerate()
            .map(|(id, (start, end, fields))| EventRow {
                id: id as u64,
                start,
                end,
                kind: EVENT_KIND.into(),
                fields: fields.to_string(),
            })
            .collect();
        let mut known = KnownFiles::default();
        known.add_events(&rows);
        for file in &files {
            let before = known.get(&file.source).unwrap();
            assert_eq!(
                (before.bytes, before.index, before.version),
                (20, file.index, file.version)
            );
        }
        assert_eq!(known.get("a/0/f300.raw"), None);
        assert_eq!(known.get("f1.raw"), None);
    }

    #[test]
    fn foreign_and_malformed_events_are_ignored() {
        let mut known = KnownFiles::default();
        for (kind, fields) in [
            ("note", "{}"),
            (EVENT_KIND, "not json"),
            (EVENT_KIND, "[]"),
            (EVENT_KIND, r#"{"files":[[1,2],7]}"#),
        ] {
            known.add_events(&[EventRow {
                id: 0,
                start: 0,
                end: 0,
                kind: kind.into(),
                fields: fields.into(),
            }]);
        }
        assert_eq!(known.get(""), None);
    }
}
