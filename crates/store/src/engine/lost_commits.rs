//! Finds evidence of durable commits that the redo log has lost.
//!
//! A power cut may have torn a last record with a wrong checksum before a caller was told. Two things prove otherwise:
//! its acknowledgement, which survives the writer's death but perhaps not a power cut; and a file ahead of the log,
//! because `zarr.json` and tables are written after the record is durable. Closing leaves no record to lose.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::identity::is_of;
use super::io::IoContext;
use super::log::{self, LogEnd, LostRecords, ParsedLog, Records, Unreadable};
use super::manifest::Manifest;
use super::opening::{bases, check_identity, not_a_store, read_log};
use super::tables;
use crate::error::StoreError;
use crate::layout::{self, flat::Flat};
use crate::media::{Kind, Media, limits};
use crate::meta::SignalMeta;
use crate::op::{Op, SignalId};
use crate::state::GapTable;

/// Whether the store's writer may still update files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriterStatus {
    /// The last one closed: files show the last commit.
    Closed,
    /// Active or unknown; publishes within about a second.
    Alive,
    /// The last one was killed: the next opening for writing recovers.
    Crashed,
}

#[derive(Debug)]
pub(crate) struct LogState {
    /// Lengths of the signals at the last checkpoint.
    pub(crate) base: BTreeMap<SignalId, i64>,
    pub(crate) writer: WriterStatus,
    pub(crate) named: BTreeMap<SignalId, Vec<String>>,
    pub(crate) pending_replay: BTreeMap<SignalId, PendingReplay>,
    pub(crate) lost: Vec<LostCommit>,
}

/// What files may lack until the log is replayed.
#[derive(Debug, Default)]
pub(crate) struct PendingReplay {
    /// Samples in records, as gaps.
    pub(crate) samples: GapTable,
    /// Shards with a replacement not yet moved into place.
    pub(crate) shards: BTreeSet<u64>,
    /// All shards wait for their replacement.
    pub(crate) data: bool,
}

impl PendingReplay {
    fn of(
        media: &dyn Media,
        root: &Path,
        opening: &ParsedLog,
        ops: &[Op],
    ) -> BTreeMap<SignalId, Self> {
        let sizes: BTreeMap<SignalId, i64> = signals(opening, ops)
            .into_iter()
            .map(|(id, told)| (id, told.meta.format.size() as i64))
            .collect();
        let waits = |tmp: &str| {
            let path = layout::tmp_folder(root).join(tmp);
            matches!(media.stat(&path), Ok(Some(_)))
        };
        let mut pending_replay: BTreeMap<SignalId, Self> = BTreeMap::new();
        for op in ops {
            let own = pending_replay.entry(op.signal()).or_default();
            match op {
                Op::Samples { id, index, bytes } => {
                    let size = sizes.get(id).copied().unwrap_or(1);
                    let count = bytes.len() as i64 / size;
                    own.samples.set_gap(*index..index.saturating_add(count));
                }
                Op::ReplaceShard { shard, tmp, .. } if waits(tmp) => {
                    own.shards.insert(*shard);
                }
                Op::ReplaceData { tmp, .. } if waits(tmp) => own.data = true,
                _ => {}
            }
        }
        pending_replay
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LostCommit {
    pub(crate) id: SignalId,
    /// Empty if unknown: the commit may have created the signal.
    pub(crate) signal: String,
    /// The log if nothing else shows the commit.
    pub(crate) path: PathBuf,
    /// Empty if the commit only changed existing samples.
    pub(crate) range: Range<i64>,
}

impl LostCommit {
    pub(crate) fn error(&self, log: &Path) -> StoreError {
        StoreError::LostCommit {
            signal: self.signal.clone(),
            log: log.into(),
            path: self.path.clone(),
            start: self.range.start,
            end: self.range.end,
        }
    }
}

struct SignalAtLogEnd {
    names: Vec<String>,
    meta: SignalMeta,
    end: i64,
}

/// Bound on rereads while writers come and go.
const MAX_READS: usize = 8;

impl LogState {
    /// Compares the live log with the published files unless a writer is active. A commit counts as lost only if the
    /// log stays the same from before it was read until the end: otherwise a writer may have appended and published in
    /// between.
    pub(crate) fn read(media: &dyn Media, root: &Path) -> Result<Self, StoreError> {
        let mut state = Self::read_once(media, root)?;
        for _ in 0..MAX_READS {
            if state.lost.is_empty() {
                return Ok(state);
            }
            let before = fingerprint(media, root)?;
            state = Self::read_once(media, root)?;
            if before == fingerprint(media, root)? {
                return Ok(state);
            }
        }
        state.writer = WriterStatus::Alive;
        state.lost.clear();
        state.pending_replay.clear();
        Ok(state)
    }

    fn read_once(media: &dyn Media, root: &Path) -> Result<Self, StoreError> {
        let writer = writer(media, root)?;
        let manifest = Manifest::read(media, root)?.ok_or_else(|| not_a_store(media, root))?;
        let bytes = read_log(media, root, &manifest)?;
        let path = layout::log_file(root, manifest.generation);
        let unreadable = |error: Unreadable| error.error(&path);
        let opening = log::parse_opening(&bytes).map_err(unreadable)?;
        check_identity(&opening, &manifest, &path)?;
        let mut records = Records::new(&bytes, opening.records_at, opening.sequence);
        let mut ops = Vec::new();
        for record in &mut records {
            ops.extend(record.map_err(unreadable)?.1);
        }
        let damaged = match writer {
            WriterStatus::Alive => None,
            _ => lost_records(&records).map_err(unreadable)?,
        };
        let writer = match writer {
            WriterStatus::Closed if !ops.is_empty() || damaged.is_some() => WriterStatus::Crashed,
            other => other,
        };
        let told = LogContent {
            opening: &opening,
            ops: &ops,
            sequence: records.sequence,
            damaged: damaged.as_ref(),
        };
        let lost = match writer {
            WriterStatus::Crashed => lost_commits(media, root, &path, &told)?,
            _ => Vec::new(),
        };
        let bases = bases(&opening.base);
        let mut named: BTreeMap<SignalId, Vec<String>> = BTreeMap::new();
        for (id, base) in &bases {
            named.entry(*id).or_default().push(base.name.to_string());
        }
        for op in &ops {
            let names = named.entry(op.signal()).or_default();
            if let Op::Create { name, .. } | Op::Rename { to: name, .. } = op {
                names.push(name.clone());
            }
        }
        let pending_replay = match writer {
            WriterStatus::Crashed => PendingReplay::of(media, root, &opening, &ops),
            _ => BTreeMap::new(),
        };
        Ok(Self {
            named,
            pending_replay,
            base: bases.iter().map(|(id, base)| (*id, base.end)).collect(),
            writer,
            lost,
        })
    }
}

/// Changes with each record and log.
fn fingerprint(media: &dyn Media, root: &Path) -> Result<(u64, u32), StoreError> {
    let manifest = Manifest::read(media, root)?.ok_or_else(|| not_a_store(media, root))?;
    let bytes = read_log(media, root, &manifest)?;
    Ok((manifest.generation, crc32c::crc32c(&bytes)))
}

pub(crate) fn writer(media: &dyn Media, root: &Path) -> Result<WriterStatus, StoreError> {
    let path = layout::lock_file(root);
    let left = match media.lock(&path) {
        Ok(None) => return Ok(WriterStatus::Alive),
        Ok(Some((_, left))) => left,
        // Without permission to lock, active and killed writers look the same.
        Err(_) => match media.read(&path, limits::LINE).at("read", &path)? {
            Some(text) if !text.trim_ascii().is_empty() => return Ok(WriterStatus::Alive),
            _ => String::new(),
        },
    };
    match left.trim().is_empty() {
        true => Ok(WriterStatus::Closed),
        false => Ok(WriterStatus::Crashed),
    }
}

pub(crate) struct LogContent<'a> {
    pub(crate) opening: &'a ParsedLog,
    pub(crate) ops: &'a [Op],
    pub(crate) sequence: u64,
    pub(crate) damaged: Option<&'a LostRecords>,
}

/// Valid records after damaged ones are an error: they depend on them.
pub(crate) fn lost_records(records: &Records<'_>) -> Result<Option<LostRecords>, Unreadable> {
    match records.end() {
        LogEnd::Clean => Ok(None),
        LogEnd::LostCommits(lost) => Ok(Some(lost)),
        LogEnd::Damaged(offset) => {
            let reason = "a record is damaged and whole ones follow it";
            Err(Unreadable::Damaged(offset, reason))
        }
    }
}

/// Commits that files, or acknowledgements in the log at `path`, prove and its records lack.
pub(crate) fn lost_commits(
    media: &dyn Media,
    root: &Path,
    path: &Path,
    log: &LogContent<'_>,
) -> Result<Vec<LostCommit>, StoreError> {
    let mut lost = Vec::new();
    let signals = signals(log.opening, log.ops);
    for (id, told) in &signals {
        let (id, end) = (*id, told.end);
        // An interrupted repair may have written newer tables of other signals.
        if log.damaged.is_some_and(|records| !records.may_change(id)) {
            continue;
        }
        let (path, range) = match published(media, root, id, told, log.sequence)? {
            Some(found) => found,
            None if log.damaged.is_some() => (path.to_path_buf(), end..end),
            None => continue,
        };
        lost.push(LostCommit {
            id,
            signal: told.names.last().cloned().unwrap_or_default(),
            path,
            range,
        });
    }
    if let Some(records) = log.damaged {
        let changed = records.signals.as_deref().unwrap_or_default();
        let unnamed = changed.iter().find(|id| !signals.contains_key(id));
        // The records created signals.
        let created = records.signals.is_none() && signals.is_empty();
        let id = unnamed.copied().or(created.then_some(SignalId(u64::MAX)));
        lost.extend(id.map(|id| LostCommit {
            id,
            signal: String::new(),
            path: path.into(),
            range: 0..0,
        }));
    }
    Ok(lost)
}

/// The file that proves a commit after `sequence`, and the samples it appended.
fn published(
    media: &dyn Media,
    root: &Path,
    id: SignalId,
    told: &SignalAtLogEnd,
    sequence: u64,
) -> Result<Option<(PathBuf, Range<i64>)>, StoreError> {
    let places = told.names.iter().rev();
    let mut places = places
        .map(|name| layout::signal_folder(root, name))
        .chain([layout::staged(root, id)]);
    let Some(folder) = places.find(|place| is_of(media, place, id)) else {
        return Ok(None);
    };
    if let Some(found) = ahead(media, &folder, told)? {
        return Ok(Some(found));
    }
    let newer = newer_gaps(media, &folder, id, sequence)?;
    Ok(newer.map(|path| (path, told.end..told.end)))
}

fn signals(opening: &ParsedLog, ops: &[Op]) -> BTreeMap<SignalId, SignalAtLogEnd> {
    let based = bases(&opening.base).into_iter().map(|(id, base)| {
        let told = SignalAtLogEnd {
            names: vec![base.name.to_string()],
            meta: (*base.meta).clone(),
            end: base.end,
        };
        (id, told)
    });
    let mut signals: BTreeMap<SignalId, SignalAtLogEnd> = based.collect();
    for op in ops {
        let id = op.signal();
        match op {
            Op::Create { name, meta, .. } => {
                let told = SignalAtLogEnd {
                    names: vec![name.clone()],
                    meta: (**meta).clone(),
                    end: 0,
                };
                signals.entry(id).or_insert(told);
            }
            Op::Remove { .. } => _ = signals.remove(&id),
            _ => {
                if let Some(told) = signals.get_mut(&id) {
                    told.apply(op);
                }
            }
        }
    }
    signals
}

impl SignalAtLogEnd {
    fn apply(&mut self, op: &Op) {
        match op {
            Op::Rename { to, .. } => self.names.push(to.clone()),
            Op::Meta { meta, .. } => self.meta = (**meta).clone(),
            Op::ReplaceData { codec, .. } => self.meta.codec.clone_from(codec),
            Op::End { end, .. } => self.end = (*end).max(0),
            _ => {}
        }
    }
}

/// Samples past the end whose file exists; a length alone proves nothing.
fn ahead(
    media: &dyn Media,
    folder: &Path,
    told: &SignalAtLogEnd,
) -> Result<Option<(PathBuf, Range<i64>)>, StoreError> {
    if !told.meta.codec.is_empty() {
        return Ok(None);
    }
    let path = folder.join("data/zarr.json");
    let Some(bytes) = media.read(&path, limits::METADATA).at("read", &path)? else {
        return Ok(None);
    };
    let json: Option<Value> = serde_json::from_slice(&bytes).ok();
    let shape = json.and_then(|json| json["shape"][0].as_i64());
    let Some(shape) = shape.filter(|shape| *shape > told.end) else {
        return Ok(None);
    };
    let flat = Flat::data(&told.meta);
    let size = told.meta.format.size() as u64;
    let Some(bytes) = (shape.cast_unsigned()).checked_mul(size) else {
        return Ok(None);
    };
    let shard = (bytes - 1) / flat.shard_bytes();
    let need = flat.file_len(bytes - shard * flat.shard_bytes());
    let file = layout::data_shard_file(&folder.join("data"), told.meta.format, shard);
    let covered = matches!(
        media.stat(&file).at("look at", &file)?,
        Some(Kind::File(length)) if length >= need
    );
    Ok(covered.then_some((path, told.end..shape)))
}

/// The table of gaps, if written by a commit after the last record. Only checkpoints write the other tables.
fn newer_gaps(
    media: &dyn Media,
    folder: &Path,
    id: SignalId,
    sequence: u64,
) -> Result<Option<PathBuf>, StoreError> {
    let path = folder.join("gaps/c/0/0");
    let Some(bytes) = media.read(&path, limits::TABLE).at("read", &path)? else {
        return Ok(None);
    };
    let newer = tables::decode(crate::state::GAPS, &bytes)
        .is_ok_and(|table| table.signal == id.0 && table.sequence > sequence);
    Ok(newer.then_some(path))
}
