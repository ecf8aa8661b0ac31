//! Format of the redo log.
//!
//! ```text
//! header   magic (8) | format u32 | length u32 | crc32c u32 of what follows | postcard `Header`
//! base     a record whose operations create every signal as of the last checkpoint and give its length
//! records  length u32 | crc32c u32 of length, sequence and payload | sequence u64 | payload: operations
//! ```
//! Everything is zero-padded to multiples of 8. The base record has the sequence of the last commit before the log,
//! each further record one more. After the last record come its [acknowledgement] and zeros: the file is extended
//! ahead, because syncing overwritten blocks is cheaper than also a new length.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::io::{IoContext, failed};
use crate::error::StoreError;
use crate::layout::zarr::FORMAT;
use crate::media::{Access, Media, MediaFile, Site};
use crate::op::{Op, SignalId};

mod acknowledgement;
mod plausible;
mod record;
mod unreadable;

use acknowledgement::Acknowledgement;
use plausible::check_ops;
pub(crate) use record::record_len;
use record::{RECORD_HEAD, record_at, record_crc, u32_at, u64_at};
pub(crate) use unreadable::Unreadable;
use unreadable::decode;

const MAGIC: [u8; 8] = *b"ISOREDO\n";
/// Least and most bytes of an extension ahead.
const EXTENSION_BYTES: (u64, u64) = (64 << 10, 4 << 20);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) uuid: [u8; 16],
    pub(crate) generation: u64,
    pub(crate) boot: String,
    /// Lowest id never used.
    pub(crate) next_signal: u64,
}

#[derive(Debug)]
pub(crate) struct ParsedLog {
    pub(crate) header: Header,
    pub(crate) base: Vec<Op>,
    pub(crate) sequence: u64,
    pub(crate) records_at: usize,
}

pub(crate) fn parse_opening(bytes: &[u8]) -> Result<ParsedLog, Unreadable> {
    if bytes.get(..8) != Some(&MAGIC) {
        return Err(Unreadable::Damaged(0, "it is no redo log"));
    }
    let format = u32_at(bytes, 8).ok_or(Unreadable::Damaged(8, "the header is cut off"))?;
    if u64::from(format) > FORMAT {
        return Err(Unreadable::Newer {
            what: "format",
            got: format.into(),
            supported: FORMAT,
        });
    }
    let (header, at) =
        parse_header(bytes).map_err(|(at, reason)| Unreadable::Damaged(at, reason))?;
    let missing = Unreadable::Damaged(at as u64, "the base record is missing or damaged");
    let (sequence, payload, records_at) = record_at(bytes, at).ok_or(missing)?;
    let base = decode(payload, at)?;
    check_ops(&base).map_err(|reason| Unreadable::Damaged(at as u64, reason))?;
    Ok(ParsedLog {
        header,
        base,
        sequence,
        records_at,
    })
}

fn parse_header(bytes: &[u8]) -> Result<(Header, usize), (u64, &'static str)> {
    let (Some(len), Some(crc)) = (u32_at(bytes, 12), u32_at(bytes, 16)) else {
        return Err((12, "the header is cut off"));
    };
    let header = bytes
        .get(20..20 + len as usize)
        .ok_or((20, "the header is cut off"))?;
    if crc32c::crc32c(header) != crc {
        return Err((20, "the header's checksum is wrong"));
    }
    let header = postcard::from_bytes(header).map_err(|_| (20, "the header makes no sense"))?;
    Ok((header, (20 + len as usize).next_multiple_of(8)))
}

/// Records from offset `at`; `sequence` is that of the record before.
#[derive(Debug)]
pub(crate) struct Records<'a> {
    bytes: &'a [u8],
    pub(crate) at: usize,
    pub(crate) sequence: u64,
}

impl<'a> Records<'a> {
    pub(crate) fn new(bytes: &'a [u8], at: usize, sequence: u64) -> Self {
        Self {
            bytes,
            at,
            sequence,
        }
    }

    /// Classifies what follows the last readable record. A commit is acknowledged before the next starts, so a valid
    /// record or acknowledgement after an invalid record proves that it was valid once.
    pub(crate) fn end(&self) -> LogEnd {
        let mut at = self.at;
        while at + RECORD_HEAD <= self.bytes.len() {
            // Sequence first: a checksum per offset would take quadratic time.
            let sequence = u64_at(self.bytes, at + 8).unwrap_or(0);
            let plausible = sequence > self.sequence && sequence - self.sequence < 1 << 32;
            if plausible && let Some(found) = Acknowledgement::decode(self.bytes, at) {
                let is_one = sequence == self.sequence + 1;
                return LogEnd::LostCommits(LostRecords {
                    signals: found.signals.filter(|_| is_one),
                });
            }
            if plausible && record_at(self.bytes, at).is_some() {
                return LogEnd::Damaged(self.at as u64);
            }
            at += 8;
        }
        LogEnd::Clean
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LogEnd {
    /// Nothing acknowledged.
    Clean,
    /// Damaged records from this offset on, then valid ones.
    Damaged(u64),
    /// Damaged, but acknowledged.
    LostCommits(LostRecords),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LostRecords {
    pub(crate) signals: Option<Vec<SignalId>>,
}

impl LostRecords {
    pub(crate) fn may_change(&self, id: SignalId) -> bool {
        (self.signals.as_ref()).is_none_or(|signals| signals.contains(&id))
    }
}

impl Iterator for Records<'_> {
    type Item = Result<(u64, Vec<Op>), Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        let (sequence, payload, next) = record_at(self.bytes, self.at)?;
        if sequence != self.sequence + 1 {
            return None;
        }
        let ops = match decode(payload, self.at) {
            Ok(ops) => ops,
            Err(error) => return Some(Err(error)),
        };
        if let Err(reason) = check_ops(&ops) {
            return Some(Err(Unreadable::Damaged(self.at as u64, reason)));
        }
        self.at = next;
        self.sequence = sequence;
        Some(Ok((sequence, ops)))
    }
}

#[cfg(feature = "fuzzing")]
pub(crate) fn is_plausible(ops: &[Op]) -> bool {
    check_ops(ops).is_ok()
}

pub(crate) fn begin(buffer: &mut Vec<u8>, count: usize) {
    buffer.clear();
    buffer.resize(RECORD_HEAD, 0);
    push_item(buffer, &(count as u64));
}

pub(crate) fn push(buffer: &mut Vec<u8>, op: &Op) {
    push_item(buffer, op);
}

fn push_item<T: Serialize>(buffer: &mut Vec<u8>, item: &T) {
    let owned = std::mem::take(buffer);
    // Cannot fail: a vector, and types that postcard can encode.
    *buffer = postcard::to_extend(item, owned).unwrap_or_default();
}

/// `None` if too long for its length field.
pub(crate) fn finish(buffer: &mut Vec<u8>, sequence: u64) -> Option<()> {
    let payload = buffer.get(RECORD_HEAD..)?;
    let len = u32::try_from(payload.len()).ok()?;
    let crc = record_crc(len, sequence, payload);
    buffer[..4].copy_from_slice(&len.to_le_bytes());
    buffer[4..8].copy_from_slice(&crc.to_le_bytes());
    buffer[8..16].copy_from_slice(&sequence.to_le_bytes());
    buffer.resize(buffer.len().next_multiple_of(8), 0);
    Some(())
}

pub(crate) fn opening_bytes<'a>(
    header: &Header,
    sequence: u64,
    base: impl ExactSizeIterator<Item = &'a Op>,
) -> Option<Vec<u8>> {
    let mut record = Vec::new();
    begin(&mut record, base.len());
    base.for_each(|op| push(&mut record, op));
    finish(&mut record, sequence)?;
    let header = postcard::to_stdvec(header).ok()?;
    let mut bytes = MAGIC.to_vec();
    bytes.extend((FORMAT as u32).to_le_bytes());
    bytes.extend(u32::try_from(header.len()).ok()?.to_le_bytes());
    bytes.extend(crc32c::crc32c(&header).to_le_bytes());
    bytes.extend(header);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.extend(record);
    Some(bytes)
}

#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) path: std::path::PathBuf,
    file: Arc<dyn MediaFile>,
    pub(crate) end: u64,
    /// File length: zeros from the last acknowledgement to here.
    extended: u64,
    acknowledged: u64,
    pub(crate) has_records: bool,
}

pub(crate) enum AppendError {
    /// The record does not count; the log is unchanged.
    NotAppended(StoreError),
    /// The record may or may not be durable.
    Unknown(StoreError),
}

impl Log {
    pub(crate) fn create(
        media: &dyn Media,
        path: &Path,
        opening: &[u8],
    ) -> Result<Self, AppendError> {
        // Left by an interrupted checkpoint.
        let stale = media
            .stat(path)
            .at("look at", path)
            .map_err(AppendError::NotAppended)?;
        if stale.is_some() {
            media
                .remove_file(path)
                .at("remove", path)
                .map_err(AppendError::NotAppended)?;
        }
        let file = media
            .open(path, Access::CreateNew)
            .at("create", path)
            .map_err(AppendError::NotAppended)?;
        let mut bytes = opening.to_vec();
        bytes.resize(bytes.len() + EXTENSION_BYTES.0 as usize, 0);
        file.write_at(0, &bytes)
            .at("write", path)
            .map_err(AppendError::NotAppended)?;
        file.sync(Site::NewLog)
            .at("sync", path)
            .map_err(AppendError::Unknown)?;
        Ok(Self {
            path: path.to_path_buf(),
            file,
            end: opening.len() as u64,
            extended: bytes.len() as u64,
            acknowledged: 0,
            has_records: false,
        })
    }

    pub(crate) fn resume(media: &dyn Media, path: &Path, end: u64) -> Result<Self, StoreError> {
        let file = media.open(path, Access::Write).at("open", path)?;
        let extended = file.len().at("look at", path)?;
        Ok(Self {
            path: path.to_path_buf(),
            file,
            end,
            extended,
            acknowledged: 0,
            has_records: false,
        })
    }

    /// Syncs and acknowledges the record, which changes `signals`.
    pub(crate) fn append(
        &mut self,
        record: &[u8],
        signals: &[SignalId],
    ) -> Result<(), AppendError> {
        let end = self.end + record.len() as u64;
        let room = end + acknowledgement::MAX_BYTES;
        if room > self.extended {
            // Only zeros may follow the last record: a reader would take anything else for damage.
            let ahead = (self.end / 4).clamp(EXTENSION_BYTES.0, EXTENSION_BYTES.1);
            let zeros = vec![0; (room + ahead - self.extended) as usize];
            if let Err(error) = self.file.write_at(self.extended, &zeros) {
                let _ = self.file.set_len(self.extended);
                return Err(AppendError::NotAppended(failed(
                    error, "extend", &self.path,
                )));
            }
            self.extended = room + ahead;
        }
        if let Err(error) = self.file.write_at(self.end, record) {
            // A partly written record has no valid checksum; the next overwrites it.
            let _ = self.file.write_at(self.end, &[0; RECORD_HEAD]);
            return Err(AppendError::NotAppended(failed(error, "write", &self.path)));
        }
        self.file
            .sync(Site::LogRecord)
            .at("sync", &self.path)
            .map_err(AppendError::Unknown)?;
        self.end = end;
        self.has_records = true;
        self.acknowledge(u64_at(record, 8).unwrap_or(0), signals);
        Ok(())
    }

    /// Notes the commit's success after the record. Best effort: the commit is durable.
    fn acknowledge(&mut self, sequence: u64, signals: &[SignalId]) {
        let mut bytes = Acknowledgement::encode(sequence, signals);
        let end = self.end + bytes.len() as u64;
        // Overwrites the rest of the last acknowledgement.
        let left = self.acknowledged.saturating_sub(end) as usize;
        bytes.resize(bytes.len() + left, 0);
        let _ = self.file.write_at(self.end, &bytes);
        self.acknowledged = end;
    }
}

impl AppendError {
    pub(crate) fn into_error(self) -> StoreError {
        match self {
            Self::NotAppended(error) | Self::Unknown(error) => error,
        }
    }
}
