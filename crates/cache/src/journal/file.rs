//! The open journal file, to which other processes append as well.
//!
//! Call every function with the index lock held.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::{FORMAT, Header, JournalError, Op, Records, Snapshot};
use super::{opening_bytes, parse_opening, record_bytes};
use crate::error::{CacheError, IoContext};

/// A shorter journal is not compacted.
const MIN_COMPACTED_BYTES: u64 = 1 << 20;
/// Growth at which the journal is compacted again.
const COMPACTION_FACTOR: u64 = 4;

#[derive(Debug)]
pub(crate) struct JournalFile {
    path: PathBuf,
    file: File,
    pub(crate) header: Header,
    pub(crate) sequence: u64,
    end: u64,
    base_end: u64,
}

#[derive(Debug)]
pub(crate) enum JournalUpdate {
    /// These operations.
    Ops(Vec<(u64, Vec<Op>)>),
    /// Too much, or another epoch: reload the journal.
    Reload,
}

impl JournalFile {
    /// `None` without a readable journal.
    #[allow(clippy::type_complexity)]
    pub(crate) fn open(
        path: &Path,
    ) -> Result<Option<(Self, Snapshot, Vec<(u64, Vec<Op>)>)>, CacheError> {
        let file = match File::options().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).at("open", path),
        };
        let bytes = read_from(&file, 0).at("read", path)?;
        let (header, base, at) = match parse_opening(&bytes) {
            Ok(opening) => opening,
            Err(JournalError::Damaged) => return Ok(None),
            Err(JournalError::Newer { format }) => {
                return Err(CacheError::NewerFormat {
                    path: path.to_path_buf(),
                    got: format,
                    supported: FORMAT,
                });
            }
        };
        let mut journal = Self {
            path: path.to_path_buf(),
            file,
            header,
            sequence: header.sequence,
            end: at as u64,
            base_end: at as u64,
        };
        let Some(ops) = journal.parse(&bytes, at) else {
            return Ok(None);
        };
        Ok(Some((journal, base, ops)))
    }

    /// `None` if damaged.
    fn parse(&mut self, bytes: &[u8], at: usize) -> Option<Vec<(u64, Vec<Op>)>> {
        let mut records = Records::new(bytes, at, self.sequence);
        let mut all = Vec::new();
        while let Some(ops) = records.next() {
            all.push((records.sequence, ops.ok()?));
        }
        if records.is_damaged() {
            return None;
        }
        self.end += (records.at - at) as u64;
        self.sequence = records.sequence;
        Some(all)
    }

    pub(crate) fn create(path: &Path, header: Header, base: &Snapshot) -> Result<Self, CacheError> {
        let draft = path.with_extension("new");
        let bytes = opening_bytes(&header, base).ok_or_else(|| too_long(path))?;
        let file = (File::options().read(true).write(true))
            .create(true)
            .truncate(true)
            .open(&draft)
            .at("create", &draft)?;
        let written = file.write_all_at(&bytes, 0).at("write", &draft);
        if let Err(error) = written.and_then(|()| std::fs::rename(&draft, path).at("replace", path))
        {
            let _ = std::fs::remove_file(&draft);
            return Err(error);
        }
        Ok(Self {
            path: path.to_path_buf(),
            file,
            header,
            sequence: header.sequence,
            end: bytes.len() as u64,
            base_end: bytes.len() as u64,
        })
    }

    /// Truncates a torn record, so that the next one begins there.
    pub(crate) fn catch_up(&mut self) -> Result<JournalUpdate, CacheError> {
        let ours = self.file.metadata().at("look at", &self.path)?;
        let current = match std::fs::metadata(&self.path) {
            Ok(current) => current,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(JournalUpdate::Reload);
            }
            Err(error) => return Err(error).at("look at", &self.path),
        };
        let mut ops = Vec::new();
        if ours.len() < self.end {
            return Ok(JournalUpdate::Reload);
        }
        if ours.len() > self.end {
            let bytes = read_from(&self.file, self.end).at("read", &self.path)?;
            match self.parse(&bytes, 0) {
                Some(parsed) => ops = parsed,
                None => return Ok(JournalUpdate::Reload),
            }
            if self.end < ours.len() {
                self.file.set_len(self.end).at("shorten", &self.path)?;
            }
        }
        if (ours.dev(), ours.ino()) == (current.dev(), current.ino()) {
            return Ok(JournalUpdate::Ops(ops));
        }
        // Compacted: what was read is the new file's base.
        let Some((journal, _, more)) = Self::open(&self.path)? else {
            return Ok(JournalUpdate::Reload);
        };
        let was = (self.header.epoch, self.sequence);
        if (journal.header.epoch, journal.header.sequence) != was {
            return Ok(JournalUpdate::Reload);
        }
        *self = journal;
        ops.extend(more);
        Ok(JournalUpdate::Ops(ops))
    }

    /// Appends one record: all or nothing.
    pub(crate) fn append(&mut self, ops: &[Op]) -> Result<(), CacheError> {
        let sequence = self.sequence + 1;
        let record = record_bytes(sequence, ops).ok_or_else(|| too_long(&self.path))?;
        if let Err(error) = self.file.write_all_at(&record, self.end) {
            // This or the next reader truncates a torn record.
            let _ = self.file.set_len(self.end);
            return Err(error).at("append to", &self.path);
        }
        self.sequence = sequence;
        self.end += record.len() as u64;
        Ok(())
    }

    pub(crate) fn is_long(&self) -> bool {
        self.end > MIN_COMPACTED_BYTES.max(self.base_end.saturating_mul(COMPACTION_FACTOR))
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.end
    }
}

fn too_long(path: &Path) -> CacheError {
    CacheError::Io {
        action: "append to",
        path: path.to_path_buf(),
        source: std::io::Error::from(std::io::ErrorKind::FileTooLarge),
    }
}

fn read_from(file: &File, start: u64) -> std::io::Result<Vec<u8>> {
    let len = file.metadata()?.len().saturating_sub(start);
    let mut bytes = vec![0; usize::try_from(len).map_err(|_| std::io::ErrorKind::FileTooLarge)?];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}
