//! Which view rows are valid: attributes of `views/zarr.json`.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::files::Files;
use crate::StoreError;
use crate::engine::io::{IoContext, replace_file};
use crate::layout::zarr;
use crate::media::{Media, Site, limits};
use crate::state::SignalState;

/// Version 1 stored levels from 128 rows on. Programs of one version ignore and rebuild the other's.
const VERSION: u64 = 2;
/// Above this number, ranges are merged.
const MAX_STALE: usize = 64;

/// Which rows are valid.
///
/// Correct after a crash at any time: `synced` grows only after a sync of the rows, `stale` shrinks only after one, and
/// new stale ranges are durable before the commit that causes them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Record {
    /// Rows up to here are in files, in the same boot.
    pub(crate) built: i64,
    /// Rows up to here are durable.
    pub(crate) synced: i64,
    /// Boot in which `built` holds.
    pub(crate) boot: String,
    /// Ranges with changes since their rows were written.
    pub(crate) pending: Vec<(i64, i64)>,
    /// Ranges with changes since their rows were synced.
    pub(crate) stale: Vec<(i64, i64)>,
    /// `None` in records of earlier versions.
    pub(crate) of: Option<Identity>,
}

/// The samples that rows were built from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) signal: u64,
    /// Changes when samples below `built` are replaced, removed or filled in.
    pub(crate) data: u32,
}

impl Identity {
    pub(crate) fn new(state: &SignalState, built: i64) -> Self {
        let shards = built
            .max(0)
            .cast_unsigned()
            .div_ceil(state.meta.shard_samples().cast_unsigned());
        let missing = state.gaps.missing_within(0..built.min(state.end));
        let data = state.data.content_of_first(shards);
        Self {
            signal: state.id.0,
            data: crc32c::crc32c_append(data, &missing.to_le_bytes()),
        }
    }
}

impl Record {
    /// Trusts nothing if the record is missing, unknown, or of other samples.
    pub(crate) fn load(files: &Files, state: &SignalState) -> Result<Self, StoreError> {
        let record = Self::read(files)?;
        Ok(record
            .filter(|record| record.is_of(state))
            .unwrap_or_default())
    }

    pub(crate) fn read(files: &Files) -> Result<Option<Self>, StoreError> {
        let path = files.folder().join("zarr.json");
        let bytes = files
            .media()
            .read(&path, limits::METADATA)
            .at("read", &path)?;
        Ok(bytes.and_then(|bytes| Self::parse(&bytes)))
    }

    /// While samples change, the record names invalid rows.
    pub(crate) fn is_of(&self, state: &SignalState) -> bool {
        let Some(of) = self.of else { return true };
        let now = Identity::new(state, self.built);
        of == now || (of.signal == now.signal && !self.pending.is_empty())
    }

    /// The record's path, if only rows exist: other programs find no group.
    pub(crate) fn missing(media: &dyn Media, folder: &Path) -> Result<Option<PathBuf>, StoreError> {
        if media.stat(folder).at("look at", folder)?.is_none() {
            return Ok(None);
        }
        let path = folder.join("zarr.json");
        let bytes = media.read(&path, limits::METADATA).at("read", &path)?;
        let is_group = |bytes: &[u8]| {
            let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
            value["zarr_format"] == 3 && value["node_type"] == "group"
        };
        let found = bytes.filter(|bytes| Self::parse(bytes).is_some() && is_group(bytes));
        let rows = media.list(folder).at("list", folder)?;
        let rows = rows.iter().any(|name| name.parse::<u64>().is_ok());
        Ok((rows && found.is_none()).then_some(path))
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(bytes).ok()?;
        let own = value.get("attributes")?.get("isochrony")?;
        if own.get("kind")? != "views" || !(1..=VERSION).contains(&own.get("version")?.as_u64()?) {
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
            of: match (own.get("signal"), own.get("data")) {
                (None, None) => None,
                (signal, data) => Some(Identity {
                    signal: signal?.as_u64()?,
                    data: u32::try_from(data?.as_u64()?).ok()?,
                }),
            },
        })
    }

    /// End of the rows, and invalid ranges before it.
    pub(crate) fn trusted(&self, boot: &str) -> (i64, &[(i64, i64)]) {
        if self.boot == boot {
            (self.built, &self.pending)
        } else {
            (self.synced, &self.stale)
        }
    }

    pub(crate) fn sound(&self, boot: &str) -> i64 {
        let (built, stale) = self.trusted(boot);
        stale.iter().map(|range| range.0).fold(built, i64::min)
    }

    pub(crate) fn add_stale(&mut self, range: (i64, i64)) {
        add(&mut self.pending, range);
        add(&mut self.stale, range);
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut attributes = Map::new();
        let mut own = json!({
            "kind": "views", "version": VERSION, "built": self.built, "synced": self.synced,
            "boot": self.boot, "pending": self.pending, "stale": self.stale,
        });
        if let Some(of) = &self.of {
            own["signal"] = of.signal.into();
            own["data"] = of.data.into();
        }
        attributes.insert("isochrony".into(), own);
        zarr::to_bytes(&zarr::group(attributes))
    }

    /// Saves the record durably, or only for readers in the same boot.
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

/// Late files usually come in order, so the last range may grow.
pub(crate) fn add(ranges: &mut Vec<(i64, i64)>, range: (i64, i64)) {
    match ranges.last_mut() {
        Some(last) if last.0 <= range.0 && range.0 <= last.1 => last.1 = last.1.max(range.1),
        _ => ranges.push(range),
    }
    if ranges.len() > MAX_STALE {
        let start = ranges.iter().map(|range| range.0).min().unwrap_or_default();
        let end = ranges.iter().map(|range| range.1).max().unwrap_or_default();
        *ranges = vec![(start, end)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        let mut record = Record {
            built: 1024,
            synced: 512,
            boot: "b".into(),
            of: Some(Identity { signal: 7, data: 9 }),
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
    fn a_record_is_valid_only_for_its_own_signal_and_samples() {
        use crate::op::{Op, SignalId};
        let meta = crate::options::CreateOptions::new(
            isochrony_segment::DType::I16,
            isochrony_time::Rate::from_hz(100).unwrap(),
        );
        let state = |id: u64| SignalState::new(SignalId(id), "x", meta.meta("x").unwrap());
        let id = SignalId(1);
        let mut now = state(1);
        now.apply(&Op::End { id, end: 5000 });
        let mut record = Record {
            built: 4096,
            of: Some(Identity::new(&now, 4096)),
            ..Record::default()
        };
        assert!(record.is_of(&now) && !record.is_of(&state(2)));
        now.apply(&Op::End { id, end: 9000 });
        assert!(record.is_of(&now));
        now.apply(&Op::Gap {
            id,
            start: 5,
            end: 9,
        });
        assert!(!record.is_of(&now));
        record.pending.push((0, 10));
        assert!(record.is_of(&now) && !record.is_of(&state(2)));
        record.of = None;
        assert!(record.is_of(&state(2)));
    }

    #[test]
    fn many_stale_ranges_become_one() {
        let mut record = Record::default();
        for i in 0..=MAX_STALE as i64 {
            record.add_stale((i * 10, i * 10 + 1));
        }
        assert_eq!(record.stale, [(0, MAX_STALE as i64 * 10 + 1)]);
    }

    #[test]
    fn ignores_unknown_records() {
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
