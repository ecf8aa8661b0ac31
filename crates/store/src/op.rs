//! Redo operations: the content of commit records.
//!
//! Every operation has *set semantics*: it states one keyed piece of state, never a change. So replaying a whole log
//! generation in order over any mixture of its older and newer tables gives the final state. Recovery, live readers and
//! checkpoints rely on this alone.
//!
//! Encoded with postcard. The order of variants and fields *is* the file format: add variants at the end; changing one
//! needs a new format version.

use serde::{Deserialize, Serialize};

use crate::layout::mark::WriteMark;
use crate::meta::SignalMeta;
use crate::version::DataVersion;

/// Identifies a signal for the life of its store. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SignalId(pub u64);

/// One redo operation. Index ranges are half open, in samples.
#[allow(missing_docs)] // Each variant's sentence names its fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Op {
    /// Creates the signal, empty, unless it exists.
    Create {
        id: SignalId,
        name: String,
        meta: Box<SignalMeta>,
    },
    /// Removes the signal and its directory.
    Remove { id: SignalId },
    /// Renames the signal and its directory.
    Rename { id: SignalId, to: String },
    /// Sets metadata that may change (unit, calibration, user attributes).
    Meta { id: SignalId, meta: Box<SignalMeta> },
    /// Sets the bytes of samples from `index` on; for small appends and fills only.
    Samples {
        id: SignalId,
        index: i64,
        #[serde(with = "raw_bytes")]
        bytes: Vec<u8>,
    },
    /// Sets the end of the index axis.
    End { id: SignalId, end: i64 },
    /// Marks `[start, end)` as valid.
    Valid { id: SignalId, start: i64, end: i64 },
    /// Marks `[start, end)` as a gap.
    Gap { id: SignalId, start: i64, end: i64 },
    /// Sets the crc32c of inner chunk `chunk` of `data`, gap samples as zero, cut at the signal's current `End`.
    Crc { id: SignalId, chunk: u64, crc: u32 },
    /// Sets the run with `run.id`.
    Run { id: SignalId, run: RunRow },
    /// Sets the stamp of this run and index.
    Point { id: SignalId, point: PointRow },
    /// Sets the pieces of the fit of `run` from sample `from` on; earlier pieces stay.
    Fit {
        id: SignalId,
        run: u32,
        from: i64,
        pieces: Vec<PieceRow>,
    },
    /// Sets the event with `event.id`.
    Event { id: SignalId, event: EventRow },
    /// Removes the event.
    EventRemove { id: SignalId, event: u64 },
    /// Replaces shard file `shard` of `data` by `tmp` in the engine's `tmp/`, already synced.
    ReplaceShard {
        id: SignalId,
        shard: u64,
        tmp: String,
    },
    /// Replaces the array `data` by the directory `tmp` in the engine's `tmp/`, already synced. `codec`: "zstd",
    /// "blosc", or empty for the flat layout.
    ReplaceData {
        id: SignalId,
        tmp: String,
        codec: String,
    },
    /// States what the files of `data` say of themselves and which samples were replaced or removed. Only in a log's
    /// base, after `Create`.
    Data {
        id: SignalId,
        data: Box<DataVersion>,
    },
    /// States the files of the signal's tables; others do not exist. Only in a log's base.
    Tables {
        id: SignalId,
        tables: Vec<TableStamp>,
    },
    /// Marks the signal as compact and gives the rows of its tables, which have no files, except that of gaps. Only in
    /// a log's base.
    SmallTables {
        id: SignalId,
        tables: Vec<TableRows>,
    },
    /// States the least write mark of the file of shard `shard` of `data`. Unless `synced` (the mark was durable before
    /// the record), the record holds the samples, and recovery writes the mark after them.
    WriteMark {
        id: SignalId,
        shard: u64,
        mark: WriteMark,
        synced: bool,
    },
    /// Sets the clock correction with `correction.id`.
    Correction {
        id: SignalId,
        correction: Box<CorrectionRow>,
    },
}

/// Rows of a table without a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableRows {
    /// Index of the table in [`TABLES`](crate::state::TABLES).
    pub table: u8,
    /// Numbers, row after row.
    pub rows: Vec<i64>,
    /// Text the rows refer to.
    #[serde(with = "raw_bytes")]
    pub text: Vec<u8>,
}

/// Identity of a table's file at a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableStamp {
    /// Index of the table in [`TABLES`](crate::state::TABLES).
    pub table: u8,
    /// Last commit it contains.
    pub sequence: u64,
    /// Number of rows.
    pub rows: u64,
    /// Checksum of rows and attachment.
    pub crc: u32,
}

/// One clock between two clock steps, `[start, end)`; may contain gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRow {
    /// Never reused in the signal.
    pub id: u32,
    /// First index.
    pub start: i64,
    /// One past the last index.
    pub end: i64,
    /// Why it began.
    pub reason: RunReason,
}

/// Why a run began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RunReason {
    /// First of the signal.
    First,
    /// The clock stepped back.
    BackwardStep,
    /// Samples overlap stored ones in time.
    Overlap,
    /// Late samples that fit no gap.
    Late,
    /// Requested by user or importer.
    Requested,
    /// One-second overlap that the source flagged as a leap second.
    LeapSecond,
    /// Continues an earlier run's clock after late samples.
    Resumed,
}

/// Stamp as the source gave it: sample `index` was taken in `[civil, civil + resolution)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointRow {
    /// Run of the sample.
    pub run: u32,
    /// Sample index.
    pub index: i64,
    /// Whole nanoseconds since 1970.
    pub civil_ns: i64,
    /// Fraction in units of 2^-32 ns.
    pub civil_frac: u32,
    /// Resolution, whole nanoseconds.
    pub resolution_ns: i64,
    /// Fraction in units of 2^-32 ns.
    pub resolution_frac: u32,
    /// `isochrony_time::PointUse` as a number.
    pub usage: u8,
}

/// Linear piece of a run's fit: `civil(i) = civil + (i - index) * num / den`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceRow {
    /// First sample index.
    pub index: i64,
    /// One past the last sample index; -1 while open.
    pub end: i64,
    /// Whole nanoseconds since 1970 at `index`.
    pub civil_ns: i64,
    /// Fraction in units of 2^-32 ns.
    pub civil_frac: u32,
    /// Nanoseconds per sample, numerator.
    pub num: u64,
    /// Nanoseconds per sample, denominator.
    pub den: u64,
    /// Uncertainty in picoseconds, rounded up.
    pub uncertainty_ps: u64,
    /// Root mean square distance of its points in picoseconds, rounded up.
    pub residual_ps: u64,
}

pub(crate) const SAMPLES_LOST: &str = "samples_lost";

/// Event in a signal: import provenance, discontinuity, user's annotation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRow {
    /// Never reused in the signal.
    pub id: u64,
    /// First index.
    pub start: i64,
    /// One past the last index; `start` for an instant.
    pub end: i64,
    /// Kind, `snake_case` by convention.
    pub kind: String,
    /// A JSON object.
    pub fields: String,
}

/// A user's comparison of a signal's clock with a better one. The fit is recomputed on load, so `method` names its
/// rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorrectionRow {
    /// Never reused in the signal.
    pub id: u32,
    /// Corrected run; `None`: all.
    pub run: Option<u32>,
    /// Removed: kept for its points.
    pub is_removed: bool,
    /// Rules of the fit: [`METHOD`](crate::corrections::METHOD).
    pub method: u8,
    /// Shape: 0 none, 1 line, 2 pieces.
    pub shape: u8,
    /// Wander of the rate, in 10^-12 of it.
    pub wander_ppt: u64,
    /// Signal whose indices `to` of the points counts; `None`: civil time.
    pub to: Option<u64>,
    /// In the order given.
    pub points: Vec<CorrectionPointRow>,
}

/// One point of a comparison. Pairs: whole part and fraction in 2^-32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorrectionPointRow {
    /// `from` is civil time by the signal's clock, ns since 1970; else an index.
    pub from_time: bool,
    /// Position on the signal's clock.
    pub from: (i64, u32),
    /// True time, ns since 1970.
    pub civil: (i64, u32),
    /// Half-width around `civil`, ns; `None`: from the scatter of the points.
    pub uncertainty: Option<(i64, u32)>,
    /// Position on the other clock: an index of the other signal, else equal to `civil`.
    pub to: (i64, u32),
    /// Left out of the fit.
    pub is_outlier: bool,
}

impl Op {
    /// The signal it applies to.
    #[must_use]
    pub fn signal(&self) -> SignalId {
        match self {
            Self::Create { id, .. }
            | Self::Remove { id }
            | Self::Rename { id, .. }
            | Self::Meta { id, .. }
            | Self::Samples { id, .. }
            | Self::End { id, .. }
            | Self::Valid { id, .. }
            | Self::Gap { id, .. }
            | Self::Crc { id, .. }
            | Self::Run { id, .. }
            | Self::Point { id, .. }
            | Self::Fit { id, .. }
            | Self::Event { id, .. }
            | Self::EventRemove { id, .. }
            | Self::ReplaceShard { id, .. }
            | Self::ReplaceData { id, .. }
            | Self::Data { id, .. }
            | Self::Tables { id, .. }
            | Self::SmallTables { id, .. }
            | Self::WriteMark { id, .. }
            | Self::Correction { id, .. } => *id,
        }
    }

    pub(crate) fn replacement(&self) -> Option<&str> {
        match self {
            Self::ReplaceShard { tmp, .. } | Self::ReplaceData { tmp, .. } => Some(tmp),
            _ => None,
        }
    }
}

/// Serialises a byte list without a call per byte.
mod raw_bytes {
    use std::fmt;

    use serde::de::{Error, SeqAccess, Visitor};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
        d.deserialize_byte_buf(Bytes)
    }

    struct Bytes;

    impl<'de> Visitor<'de> for Bytes {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bytes")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_vec())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<u8>, A::Error> {
            let mut bytes = Vec::new();
            while let Some(byte) = seq.next_element()? {
                bytes.push(byte);
            }
            Ok(bytes)
        }
    }
}
