//! Redo operations: the content of commit records.
//!
//! Every operation has *set semantics*: it states one keyed piece of state, never a change to it. So replaying a whole
//! log generation in order over any mixture of that generation's older and newer tables gives the final state.
//! Recovery, live readers and checkpoints rely on this alone.
//!
//! Encoded with postcard. The order of variants and fields is load-bearing: it *is* the file format. Add new variants
//! at the end; changing one needs a new format version.

use serde::{Deserialize, Serialize};

use crate::layout::mark::WriteMark;
use crate::meta::SignalMeta;
use crate::version::DataVersion;

/// Identifies a signal for the life of its store. Never reused, unlike its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SignalId(pub u64);

/// One redo operation. Index ranges are half open, in samples.
#[allow(missing_docs)] // Each variant's sentence names its fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Op {
    /// Creates the signal, without samples, unless it exists.
    Create {
        id: SignalId,
        name: String,
        meta: Box<SignalMeta>,
    },
    /// Removes the signal and its directory.
    Remove { id: SignalId },
    /// Renames the signal, and so its directory.
    Rename { id: SignalId, to: String },
    /// Sets metadata that may change after creation (unit, calibration, user attributes).
    Meta { id: SignalId, meta: Box<SignalMeta> },
    /// Sets the bytes of samples from `index` on. Only small appends and fills travel inside the record.
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
    /// Sets the crc32c of inner chunk `chunk` of `data`, gap samples taken as zero. If the signal's current `End` cuts
    /// the chunk short, only samples up to that end count.
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
    /// Replaces shard file `shard` of `data` by the file `tmp` in the engine's `tmp/`, synced before.
    ReplaceShard {
        id: SignalId,
        shard: u64,
        tmp: String,
    },
    /// Replaces the array `data` by the directory `tmp` in the engine's `tmp/`, synced before. `codec`: the codec it is
    /// sealed with ("zstd", "blosc"); empty for the flat layout.
    ReplaceData {
        id: SignalId,
        tmp: String,
        codec: String,
    },
    /// States what the files of `data` say of themselves, and which samples were replaced or removed. Only in the base
    /// of a log and after `Create`.
    Data {
        id: SignalId,
        data: Box<DataVersion>,
    },
    /// States the files of the signal's tables; those not listed do not exist. Only in the base of a log.
    Tables {
        id: SignalId,
        tables: Vec<TableStamp>,
    },
    /// Marks the signal as compact and gives the rows of its tables except that of gaps; they have no files. Only in
    /// the base of a log.
    SmallTables {
        id: SignalId,
        tables: Vec<TableRows>,
    },
    /// States the least write mark of the file of shard `shard` of `data`. `synced`: the mark was durable before the
    /// record. Otherwise the record holds the samples, and recovery writes the mark again after them.
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

/// The rows of a table that has no file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableRows {
    /// Index of the table in [`TABLES`](crate::state::TABLES).
    pub table: u8,
    /// Numbers, row after row.
    pub rows: Vec<i64>,
    /// Text that the rows refer to.
    #[serde(with = "raw_bytes")]
    pub text: Vec<u8>,
}

/// Identity of a table's file as of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableStamp {
    /// Index of the table in [`TABLES`](crate::state::TABLES).
    pub table: u8,
    /// Last commit that it contains.
    pub sequence: u64,
    /// Number of rows.
    pub rows: u64,
    /// Checksum of rows and attachment.
    pub crc: u32,
}

/// One clock between two clock steps, `[start, end)` on the index axis; may contain gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRow {
    /// Unique in the signal, never reused.
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
    /// First run of the signal.
    First,
    /// The clock stepped back.
    BackwardStep,
    /// Samples overlap stored ones in time.
    Overlap,
    /// Late samples that fit no gap.
    Late,
    /// Requested by the user or the importer.
    Requested,
    /// A one-second overlap that the source flagged as a leap second.
    LeapSecond,
    /// Continues the clock of an earlier run after late samples were stored.
    Resumed,
}

/// A stamp as the source gave it: sample `index` was taken in `[civil, civil + resolution)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointRow {
    /// Run of the sample.
    pub run: u32,
    /// Sample index.
    pub index: i64,
    /// Nanoseconds since 1970, whole part.
    pub civil_ns: i64,
    /// Fraction in units of 2^-32 ns.
    pub civil_frac: u32,
    /// Resolution, whole nanoseconds.
    pub resolution_ns: i64,
    /// Resolution, fraction in units of 2^-32 ns.
    pub resolution_frac: u32,
    /// How the fit treats it, an `isochrony_time::PointUse` as a number.
    pub usage: u8,
}

/// One linear piece of a run's fit: `civil(i) = civil + (i - index) * num / den`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceRow {
    /// First sample index.
    pub index: i64,
    /// One past the last sample index; -1 while open.
    pub end: i64,
    /// Nanoseconds since 1970 at `index`, whole part.
    pub civil_ns: i64,
    /// Fraction in units of 2^-32 ns.
    pub civil_frac: u32,
    /// Nanoseconds per sample, numerator.
    pub num: u64,
    /// Nanoseconds per sample, denominator.
    pub den: u64,
    /// Uncertainty in picoseconds, rounded up.
    pub uncertainty_ps: u64,
    /// Root mean square distance of the piece's points in picoseconds, rounded up.
    pub residual_ps: u64,
}

/// Kind of the events that record lost samples.
pub(crate) const SAMPLES_LOST: &str = "samples_lost";

/// An event in a signal: import provenance, a discontinuity, a user's annotation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRow {
    /// Unique in the signal, never reused.
    pub id: u64,
    /// First index.
    pub start: i64,
    /// One past the last index; equal to `start` for an instant.
    pub end: i64,
    /// Kind, `snake_case` by convention.
    pub kind: String,
    /// Free fields, a JSON object.
    pub fields: String,
}

/// A comparison of a signal's clock with a better one, as given by the user.
///
/// The fit is recomputed when the signal is loaded, so `method` names the rules of the fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorrectionRow {
    /// Unique in the signal, never reused.
    pub id: u32,
    /// Corrected run; `None`: all.
    pub run: Option<u32>,
    /// Removed: kept for its points only.
    pub is_removed: bool,
    /// Rules of the fit: [`METHOD`](crate::corrections::METHOD).
    pub method: u8,
    /// Requested shape: 0 none, 1 a line, 2 pieces.
    pub shape: u8,
    /// Wander of the rate, in 10^-12 of it.
    pub wander_ppt: u64,
    /// Signal of this store whose indices the points were given in; `None`: civil time.
    pub to: Option<u64>,
    /// Points in the order given.
    pub points: Vec<CorrectionPointRow>,
}

/// One point of a comparison. Pairs: a whole part and a fraction in units of 2^-32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorrectionPointRow {
    /// `from` is a civil time by the signal's clock, ns since 1970; otherwise an index.
    pub from_time: bool,
    /// Position on the signal's clock.
    pub from: (i64, u32),
    /// True time, ns since 1970.
    pub civil: (i64, u32),
    /// Half-width around `civil`, ns; `None`: estimated from the scatter of the points.
    pub uncertainty: Option<(i64, u32)>,
    /// Position on the other clock in its own unit: an index of the other signal, else equal to `civil`.
    pub to: (i64, u32),
    /// Left out of the fit.
    pub is_outlier: bool,
}

impl Op {
    /// The signal that the operation applies to.
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

    /// Name of the replacing file in `tmp/`.
    pub(crate) fn replacement(&self) -> Option<&str> {
        match self {
            Self::ReplaceShard { tmp, .. } | Self::ReplaceData { tmp, .. } => Some(tmp),
            _ => None,
        }
    }
}

/// Serialises bytes at once: the encoding of a byte list, without a call per byte.
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
