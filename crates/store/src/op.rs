//! Redo operations: what a commit record holds.
//!
//! Every operation has *set semantics*: it says what one keyed piece of state is after it, never how it changed.
//! Replaying all operations of a log generation in order, over any mixture of older and newer tables of that
//! generation, therefore always gives the state after the last one. Recovery, live readers and checkpoints rely on
//! this and on nothing else.
//!
//! The encoding is postcard. The order of variants and of fields below is load-bearing: it *is* the file format.
//! New variants go at the end; a changed one needs a new format version.

use serde::{Deserialize, Serialize};

use crate::layout::mark::WriteMark;
use crate::meta::SignalMeta;
use crate::version::DataVersion;

/// Identifies a signal for the life of its store; never reused, unlike its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SignalId(pub u64);

/// One redo operation. Index ranges are half open, in samples on the signal's index axis.
#[allow(missing_docs)] // Each variant's sentence names its fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Op {
    /// The signal exists, under this name, with this metadata and no samples (if it did not exist before).
    Create {
        id: SignalId,
        name: String,
        meta: Box<SignalMeta>,
    },
    /// The signal does not exist; its directory goes.
    Remove { id: SignalId },
    /// The signal's name, and so its directory, is `to`.
    Rename { id: SignalId, to: String },
    /// Metadata that may change after creation (unit, calibration, user attributes).
    Meta { id: SignalId, meta: Box<SignalMeta> },
    /// Bytes of samples from `index` on are these (small appends and fills travel inside the record).
    Samples {
        id: SignalId,
        index: i64,
        #[serde(with = "raw_bytes")]
        bytes: Vec<u8>,
    },
    /// The index axis ends at `end`.
    End { id: SignalId, end: i64 },
    /// `[start, end)` holds samples.
    Valid { id: SignalId, start: i64, end: i64 },
    /// `[start, end)` is a gap.
    Gap { id: SignalId, start: i64, end: i64 },
    /// Inner chunk `chunk` of `data` has this crc32c (gap samples taken as zero). Where the signal's `End` so far cuts the
    /// chunk short: what the chunk holds up to that end has it.
    Crc { id: SignalId, chunk: u64, crc: u32 },
    /// The run with `run.id` is this.
    Run { id: SignalId, run: RunRow },
    /// The stamp of run and index is this.
    Point { id: SignalId, point: PointRow },
    /// The fit of `run` from sample `from` on consists of these pieces; earlier pieces stay.
    Fit {
        id: SignalId,
        run: u32,
        from: i64,
        pieces: Vec<PieceRow>,
    },
    /// The event with `event.id` is this.
    Event { id: SignalId, event: EventRow },
    /// There is no event with this id.
    EventRemove { id: SignalId, event: u64 },
    /// Shard file `shard` of `data` is the file `tmp` (a name inside the engine's `tmp/`), synced before.
    ReplaceShard {
        id: SignalId,
        shard: u64,
        tmp: String,
    },
    /// The array `data` is the directory `tmp` (inside the engine's `tmp/`), synced before; `codec` names its sealing
    /// ("zstd", "blosc") or is empty for the flat layout.
    ReplaceData {
        id: SignalId,
        tmp: String,
        codec: String,
    },
    /// The files of `data` say this of themselves, and these samples were replaced or taken away. In the base of a log,
    /// and behind the creation of a signal.
    Data {
        id: SignalId,
        data: Box<DataVersion>,
    },
    /// The files of the signal's tables are these, and those that are not listed do not exist. In the base of a log only.
    Tables {
        id: SignalId,
        tables: Vec<TableStamp>,
    },
    /// The signal is compact: the rows of its tables, but for that of gaps, are these and lie in no file. In the base of a
    /// log only.
    SmallTables {
        id: SignalId,
        tables: Vec<TableRows>,
    },
    /// The file of shard `shard` of `data` has this write mark, or that of a later commit. `synced`: it was durable before
    /// the record. Otherwise the record holds the samples, and recovery leaves the mark again once it has written them.
    WriteMark {
        id: SignalId,
        shard: u64,
        mark: WriteMark,
        synced: bool,
    },
    /// The correction of the clock with `correction.id` is this.
    Correction {
        id: SignalId,
        correction: Box<CorrectionRow>,
    },
}

/// The rows of a table that has no file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableRows {
    /// Which table: its place in [`TABLES`](crate::state::TABLES).
    pub table: u8,
    /// Its numbers, row after row.
    pub rows: Vec<i64>,
    /// The text that they point into.
    #[serde(with = "raw_bytes")]
    pub text: Vec<u8>,
}

/// What the file of a table is, as of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableStamp {
    /// Which table: its place in [`TABLES`](crate::state::TABLES).
    pub table: u8,
    /// The last commit that it contains.
    pub sequence: u64,
    /// Its rows.
    pub rows: u64,
    /// Checksum of its rows and what belongs to them.
    pub crc: u32,
}

/// One clock between two clock steps; may contain gaps. `[start, end)` on the index axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRow {
    /// Unique in the signal, never reused.
    pub id: u32,
    /// First index.
    pub start: i64,
    /// One past the last index.
    pub end: i64,
    /// Why the run began.
    pub reason: RunReason,
}

/// Why a run began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RunReason {
    /// It is the signal's first.
    First,
    /// The clock stepped back.
    BackwardStep,
    /// Samples overlap in time with stored ones.
    Overlap,
    /// Late samples that fit no gap.
    Late,
    /// The user or the importer asked for one.
    Requested,
    /// A one-second overlap that the source flagged as a leap second.
    LeapSecond,
    /// It goes on with the clock of an earlier run, behind which late samples were stored.
    Resumed,
}

/// A stamp as the source gave it: sample `index` was taken in `[civil, civil + resolution)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointRow {
    /// The run that it belongs to.
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
    /// How the fit treats it (`isochrony_time::PointUse` as a number).
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
    /// Root mean square distance of the piece's points from it in picoseconds, rounded up.
    pub residual_ps: u64,
}

/// Something that happened in a signal: import provenance, a discontinuity, a user's annotation.
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

/// A comparison of a signal's clock with a better one, as the user gave it.
///
/// The fit follows from it whenever the signal is loaded, so `method` names the rules of the fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorrectionRow {
    /// Unique in the signal, never reused.
    pub id: u32,
    /// The run that it corrects; `None`: all.
    pub run: Option<u32>,
    /// Whether it was removed: it is kept for its points only.
    pub is_removed: bool,
    /// Rules of the fit: [`METHOD`](crate::corrections::METHOD).
    pub method: u8,
    /// Shape that was asked for: 0 none, 1 a line, 2 pieces.
    pub shape: u8,
    /// How far the rate may wander, in 10^-12 of it.
    pub wander_ppt: u64,
    /// The signal of this store whose indices the points were given in; `None`: civil time.
    pub to: Option<u64>,
    /// The points, in the order given.
    pub points: Vec<CorrectionPointRow>,
}

/// One point of a comparison. Pairs are a whole part and a fraction in units of 2^-32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorrectionPointRow {
    /// Whether `from` is a time as the signal's clock recorded it, in ns since 1970; else it is an index.
    pub from_time: bool,
    /// Where the signal's clock was.
    pub from: (i64, u32),
    /// The true time, ns since 1970.
    pub civil: (i64, u32),
    /// Half-width around `civil`, ns; `None`: as the points scatter.
    pub uncertainty: Option<(i64, u32)>,
    /// Where the other clock was, in its own unit: an index of the other signal, else the same as `civil`.
    pub to: (i64, u32),
    /// Whether the fit left it out.
    pub is_outlier: bool,
}

impl Op {
    /// The signal that the operation is about.
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

    /// Name in `tmp/` of the file or folder that takes the place of another.
    pub(crate) fn replacement(&self) -> Option<&str> {
        match self {
            Self::ReplaceShard { tmp, .. } | Self::ReplaceData { tmp, .. } => Some(tmp),
            _ => None,
        }
    }
}

/// Bytes as one piece: the same encoding as a list of them, without a call per byte.
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
