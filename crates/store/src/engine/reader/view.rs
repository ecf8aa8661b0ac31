//! A store at one commit: its names, known signals, and position in the log.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use isochrony_segment::{free_memory, has_free_memory};
use uuid::Uuid;

use crate::engine::engine_state::Names;
use crate::engine::io::{IoContext, failed};
use crate::engine::log::{self, Records};
use crate::engine::manifest::Manifest;
use crate::engine::opening::{bases, check_identity, not_a_store, read_log};
use crate::engine::parts::Base;
use crate::engine::proofs::ChecksummedRange;
use crate::error::StoreError;
use crate::layout;
use crate::media::{Access, Media, MediaFile, limits};
use crate::op::{Op, SignalId};
use crate::state::SignalState;

/// How long a writer may be changing files.
pub(super) const WRITER_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct KnownSignal {
    pub(super) base: Base,
    pub(super) end: i64,
    pub(super) state: Option<Arc<SignalState>>,
    /// Operations since the log's base, until the state is loaded.
    pub(super) ops: Vec<Op>,
    /// Replacements that may not be in place yet.
    pub(super) replaced: BTreeMap<u64, String>,
    pub(super) replaced_data: Option<String>,
    pub(super) crcs: BTreeMap<u64, u32>,
    pub(super) newest: Option<ChecksummedRange>,
    /// Names since the log's base: a killed writer may not have moved the folder.
    pub(super) former: Vec<String>,
}

impl KnownSignal {
    pub(super) fn new(base: Base) -> Self {
        Self {
            end: base.end,
            base,
            state: None,
            ops: Vec::new(),
            replaced: BTreeMap::new(),
            replaced_data: None,
            crcs: BTreeMap::new(),
            newest: None,
            former: Vec::new(),
        }
    }
}

#[derive(Debug)]
pub(super) struct View {
    pub(super) generation: u64,
    pub(super) log: Arc<dyn MediaFile>,
    pub(super) log_path: PathBuf,
    pub(super) at: u64,
    pub(super) sequence: u64,
    pub(super) base_sequence: u64,
    pub(super) names: Names,
    pub(super) signals: HashMap<SignalId, KnownSignal>,
}

impl KnownSignal {
    /// What proves that files hold the newest samples.
    pub(super) fn note_proof(&mut self, op: &Op) {
        match op {
            Op::Samples { index, bytes, .. } => {
                let size = self.base.meta.format.size();
                let count = (bytes.len() / size) as i64;
                let end = index.saturating_add(count);
                // Earlier chunks have checksums.
                let length = self.base.meta.chunk_samples.max(1).cast_signed();
                let start = ((end - 1) / length * length).clamp(*index, end);
                // All need a proof: the last ones may be zeros, like missing ones.
                let before = self.newest.as_ref().filter(|newest| {
                    newest.range.end == *index && newest.range.start >= (end - 1) / length * length
                });
                let (start, crc) = match before {
                    Some(newest) => (newest.range.start, crc32c::crc32c_append(newest.crc, bytes)),
                    None => {
                        let own = &bytes[(start - index) as usize * size..];
                        (start, crc32c::crc32c(own))
                    }
                };
                let range = start..end;
                if self
                    .newest
                    .as_ref()
                    .is_none_or(|newest| newest.range.end <= range.end)
                {
                    self.newest = Some(ChecksummedRange { range, crc });
                }
            }
            Op::Gap { start, end, .. } => {
                let is_apart = |newest: &ChecksummedRange| {
                    *end <= newest.range.start || newest.range.end <= *start
                };
                self.newest = self.newest.take().filter(is_apart);
            }
            Op::ReplaceShard { .. } | Op::ReplaceData { .. } => self.newest = None,
            _ => {}
        }
    }

    pub(super) fn longest(&self) -> i64 {
        let ends = self.ops.iter().filter_map(|op| match op {
            Op::End { end, .. } => Some(*end),
            _ => None,
        });
        ends.fold(self.base.end, i64::max)
    }
}

impl View {
    pub(super) fn open(media: &dyn Media, root: &Path) -> Result<(Self, Uuid, String), StoreError> {
        let began = Instant::now();
        loop {
            let manifest = Manifest::read(media, root)?.ok_or_else(|| not_a_store(media, root))?;
            let path = layout::log_file(root, manifest.generation);
            let bytes = match read_log(media, root, &manifest) {
                // The generation changed between the reads.
                Err(StoreError::DamagedFile { .. }) if began.elapsed() < WRITER_TIMEOUT => {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                other => other?,
            };
            let opening = log::parse_opening(&bytes).map_err(|error| error.error(&path))?;
            check_identity(&opening, &manifest, &path)?;
            let file = match media.open(&path, Access::Read) {
                Ok(file) => file,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error, "open", &path)),
            };
            let mut names = Names::default();
            let mut signals = HashMap::new();
            for (id, base) in bases(&opening.base) {
                names.insert(id, &base.name);
                signals.insert(id, KnownSignal::new(base));
            }
            let view = Self {
                generation: manifest.generation,
                log: file,
                log_path: path,
                at: opening.records_at as u64,
                sequence: opening.sequence,
                base_sequence: opening.sequence,
                names,
                signals,
            };
            return Ok((view, manifest.uuid, opening.header.boot));
        }
    }

    /// `false` if the next log is not the live one, or incomplete.
    pub(super) fn next_generation(
        &mut self,
        media: &dyn Media,
        root: &Path,
        manifest: &Manifest,
    ) -> Result<bool, StoreError> {
        if manifest.generation != self.generation + 1 {
            return Ok(false);
        }
        let path = layout::log_file(root, manifest.generation);
        let Some(bytes) = media.read(&path, limits::LOG).at("read", &path)? else {
            return Ok(false);
        };
        let Ok(opening) = log::parse_opening(&bytes) else {
            return Ok(false);
        };
        let file = match media.open(&path, Access::Read) {
            Ok(file) => file,
            Err(_) => return Ok(false),
        };
        if opening.sequence != self.sequence || check_identity(&opening, manifest, &path).is_err() {
            return Ok(false);
        }
        for (id, base) in bases(&opening.base) {
            // Others start from this generation's tables.
            if let Some(known) = self.signals.get_mut(&id) {
                known.end = base.end;
                known.base = base;
                known.ops.clear();
                known.replaced.clear();
                known.replaced_data = None;
                known.crcs.clear();
                known.newest = None;
                known.former.clear();
            }
        }
        self.generation = manifest.generation;
        self.base_sequence = opening.sequence;
        self.log = file;
        self.log_path = path;
        self.at = opening.records_at as u64;
        Ok(true)
    }

    pub(super) fn next_record(&mut self) -> Result<Option<Vec<Op>>, StoreError> {
        let Some(bytes) = self.record_bytes()? else {
            return Ok(None);
        };
        let mut records = Records::new(&bytes, 0, self.sequence);
        match records.next() {
            None => Ok(None),
            Some(Ok((sequence, ops))) => {
                self.sequence = sequence;
                self.at += records.at as u64;
                Ok(Some(ops))
            }
            Some(Err(error)) => Err(error.beginning_at(self.at).error(&self.log_path)),
        }
    }

    pub(super) fn record_bytes(&self) -> Result<Option<Vec<u8>>, StoreError> {
        let read = |at, bytes: &mut [u8]| self.log.read_at(at, bytes).at("read", &self.log_path);
        let mut bytes = vec![0; 4096];
        let count = read(self.at, &mut bytes)?;
        let Some(len) = log::record_len(&bytes[..count]) else {
            return Ok(None);
        };
        if len > bytes.len() {
            let have = self.log.len().at("look at", &self.log_path)?;
            if self.at.saturating_add(len as u64) > have {
                return Ok(None);
            }
            let no_memory = || StoreError::NoMemoryForFile {
                path: self.log_path.clone(),
                have: len as u64,
                free: free_memory(),
            };
            if !has_free_memory(len as u64) {
                return Err(no_memory());
            }
            bytes
                .try_reserve_exact(len - bytes.len())
                .map_err(|_| no_memory())?;
            bytes.resize(len, 0);
            let count = read(self.at, &mut bytes)?;
            bytes.truncate(count);
        } else {
            bytes.truncate(count.min(len));
        }
        Ok(Some(bytes))
    }

    pub(super) fn has_records(&self) -> Result<bool, StoreError> {
        let bytes = self.record_bytes()?;
        Ok(bytes.is_some_and(|bytes| Records::new(&bytes, 0, self.sequence).next().is_some()))
    }

    pub(super) fn known(&mut self, id: SignalId) -> Result<&mut KnownSignal, StoreError> {
        self.signals.get_mut(&id).ok_or_else(|| removed(id))
    }
}

pub(super) fn removed(id: SignalId) -> StoreError {
    StoreError::SignalRemoved {
        name: format!("#{}", id.0),
    }
}
