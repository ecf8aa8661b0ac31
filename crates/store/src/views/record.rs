//! How far the rows of a signal can be believed: attributes of `views/zarr.json`.

use serde_json::{Map, Value, json};

use super::files::Files;
use crate::StoreError;
use crate::engine::io::{IoContext, replace_file};
use crate::layout::zarr;
use crate::media::Site;

const VERSION: u64 = 1;
/// More ranges than these are kept as the one that contains them.
const MOST_STALE: usize = 64;

/// What is recorded of a signal's rows.
///
/// Every version of the record that a crash may leave behind tells the truth: `synced` only grows after a sync of the
/// rows, `stale` only shrinks after one, and what becomes stale is recorded durably before the commit that makes it so.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Record {
    /// Rows of everything up to here are in files, if the system has not restarted since (`boot`).
    pub(crate) built: i64,
    /// The same, whatever happened since.
    pub(crate) synced: i64,
    /// The run of the system that `built` is about.
    pub(crate) boot: String,
    /// Samples in these ranges may have changed since their rows were written.
    pub(crate) pending: Vec<(i64, i64)>,
    /// Samples in these ranges may have changed since their rows were synced.
    pub(crate) stale: Vec<(i64, i64)>,
}

impl Record {
    /// The record of these files; the default one, which trusts nothing, if there is none or it is not understood.
    pub(crate) fn load(files: &Files) -> Result<Self, StoreError> {
        let path = files.folder().join("zarr.json");
        let bytes = files.media().read(&path).at("read", &path)?;
        Ok(bytes
            .and_then(|bytes| Self::parse(&bytes))
            .unwrap_or_default())
    }

    /// Reads the bytes of `views/zarr.json`.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(bytes).ok()?;
        let own = value.get("attributes")?.get("isochrony")?;
        if own.get("kind")? != "views" || own.get("version")? != VERSION {
            return None;
        }
        let pair = |pair: &Value| Some((pair.get(0)?.as_i64()?, pair.get(1)?.as_i64()?));
        Some(Self {
            built: own.get("built")?.as_i64()?.max(0),
            synced: own.get("synced")?.as_i64()?.max(0),
            boot: own.get("boot")?.as_str()?.to_owned(),
            pending: own
                .get("pending")?
                .as_array()?
                .iter()
                .map(pair)
                .collect::<Option<_>>()?,
            stale: own
                .get("stale")?
                .as_array()?
                .iter()
                .map(pair)
                .collect::<Option<_>>()?,
        })
    }

    /// How far rows reach now, and which of them cannot be believed.
    pub(crate) fn trusted(&self, boot: &str) -> (i64, &[(i64, i64)]) {
        if self.boot == boot {
            (self.built, &self.pending)
        } else {
            (self.synced, &self.stale)
        }
    }

    /// How far all rows can be believed now.
    pub(crate) fn sound(&self, boot: &str) -> i64 {
        let (built, stale) = self.trusted(boot);
        stale.iter().map(|range| range.0).fold(built, i64::min)
    }

    /// Samples in `range` are about to change.
    pub(crate) fn add_stale(&mut self, range: (i64, i64)) {
        add(&mut self.pending, range);
        add(&mut self.stale, range);
    }

    /// The bytes of `views/zarr.json`.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut attributes = Map::new();
        let own = json!({
            "kind": "views", "version": VERSION, "built": self.built, "synced": self.synced,
            "boot": self.boot, "pending": self.pending, "stale": self.stale,
        });
        attributes.insert("isochrony".into(), own);
        zarr::to_bytes(&zarr::group(attributes))
    }

    /// Writes the record: durably, or for readers of this run of the system.
    pub(crate) fn save(&self, files: &Files, durably: bool) -> Result<(), StoreError> {
        let folder = files.folder();
        let signal = folder.parent().unwrap_or(folder);
        files
            .media()
            .make_folders(signal, folder)
            .at("create", folder)?;
        let path = folder.join("zarr.json");
        if !durably {
            return files.replace(&path, &self.to_bytes());
        }
        let tmp = folder.join("zarr.json.__tmp");
        replace_file(
            files.media(),
            &tmp,
            &path,
            &self.to_bytes(),
            Some(Site::View),
        )?;
        files
            .media()
            .sync_folder(folder, Site::View)
            .at("sync", folder)?;
        files
            .media()
            .sync_folder(signal, Site::View)
            .at("sync", signal)
    }
}

/// Adds a range; late files come in order as a rule, so extending the last one keeps the list short.
pub(crate) fn add(ranges: &mut Vec<(i64, i64)>, range: (i64, i64)) {
    match ranges.last_mut() {
        Some(last) if last.0 <= range.0 && range.0 <= last.1 => last.1 = last.1.max(range.1),
        _ => ranges.push(range),
    }
    if ranges.len() > MOST_STALE {
        let start = ranges.iter().map(|range| range.0).min().unwrap_or_default();
        let end = ranges.iter().map(|range| range.1).max().unwrap_or_default();
        *ranges = vec![(start, end)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_being_written_and_read() {
        let mut record = Record {
            built: 1024,
            synced: 512,
            boot: "b".into(),
            ..Record::default()
        };
        record.add_stale((5, 9));
        record.add_stale((9, 12));
        record.add_stale((100, 200));
        assert_eq!(record.stale, [(5, 12), (100, 200)]);
        assert_eq!(Record::parse(&record.to_bytes()), Some(record.clone()));
        record.pending.clear();
        assert_eq!(record.trusted("b"), (1024, &[][..]));
        assert_eq!(record.trusted("c"), (512, &[(5, 12), (100, 200)][..]));
        assert_eq!((record.sound("b"), record.sound("c")), (1024, 5));
    }

    #[test]
    fn many_stale_ranges_become_one() {
        let mut record = Record::default();
        for i in 0..=MOST_STALE as i64 {
            record.add_stale((i * 10, i * 10 + 1));
        }
        assert_eq!(record.stale, [(0, MOST_STALE as i64 * 10 + 1)]);
    }

    #[test]
    fn trusts_nothing_that_it_does_not_understand() {
        for text in [
            "",
            "{}",
            "[]",
            r#"{"attributes":{"isochrony":{"kind":"views","version":2}}}"#,
        ] {
            assert_eq!(Record::parse(text.as_bytes()), None);
        }
    }
}
