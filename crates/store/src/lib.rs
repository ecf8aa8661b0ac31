//! Signals on disk: a Zarr v3 store with commits, gaps, exact time and zero-copy reads.
//!
//! A [`Store`] holds signals by name. A [`Signal`] is one at one moment. A [`Selection`] of it, by a range in any
//! timebase, knows its segments and gaps and reads samples on demand. A [`SignalWriter`] appends samples, with or
//! without stamps, and gaps; [`Store::commit`] makes them durable.
//!
//! On-disk format, invariants and crash analysis: `docs/design`.

mod append;
mod attributes;
mod backend;
mod backfill;
mod backup;
mod calibration;
mod clock;
mod consistency;
pub mod corrections;
mod decode;
#[doc(hidden)]
pub mod engine;
mod error;
mod fill;
mod forked;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gather;
mod info;
pub mod interrupt;
mod io_hint;
#[doc(hidden)]
pub mod layout;
mod lease;
#[doc(hidden)]
pub mod media;
mod memory_blocks;
pub mod meta;
mod mutex;
mod names;
pub mod op;
mod options;
mod readers;
mod sample_format;
mod scratch;
mod seal;
mod selection;
pub mod shard_cache;
mod signal;
mod signal_source;
mod snapshot;
mod span;
pub mod state;
mod store;
mod store_state;
pub mod timebases;
mod verify;
pub mod version;
pub mod views;
mod write;

/// Machine model: costs measured by [`calibrate`](machine::calibrate), kept in a [`Profile`](machine::Profile).
pub mod machine {
    pub use crate::calibration::{calibrate, choose, estimate, time_scan};
    pub use isochrony_io::machine::{
        Amount, CacheState, CalibrationOptions, CheckedPrediction, ColdCosts, Costs, DiskCosts,
        Machine, MeasuredOperator, OperatorCosts, Profile, Quartiles, ScanEstimate, StrategyCosts,
        StrategyEstimate, SummaryCosts, Trial,
    };
}

pub use append::{Appended, AppendedRecordings, SignalWriter, StampedRecording};
pub use backfill::Backfilled;
pub use backup::{BackupReport, CopyOptions, OnProgress, backup, copy_store};
pub use corrections::{ClockComparison, ClockCorrection, CorrectionOptions, RecordedAt};
pub use error::{SnapshotError, StoreError};
pub use gather::{Gathered, Method};
pub use info::{Room, SignalInfo, StoreInfo};
pub use isochrony_io::{Positions, Reading, Strategy};
pub use lease::{Blocks, Lease};
pub use names::{Pattern, RESERVED, check_name, nearest};
pub use op::{EventRow, RunReason, SignalId};
pub use options::{CreateOptions, Mode};
pub use readers::{Readers, SignalReader, Tasks};
pub use sample_format::SampleFormat;
pub use scratch::Scratch;
pub use seal::{BloscCompressor, Codec, Sealed};
pub use selection::{Fill, Hole, Selection, Stretch, Values};
pub use signal::{GapTimes, Run, Signal};
pub use snapshot::{SignalSnapshot, StoreSnapshot};
pub use span::{Overlap, Span};
pub use state::{Gap, GapTable};
pub use store::Store;
#[doc(hidden)] // Media are internal; tests name them.
pub use verify::repair_on;
pub use verify::{Finding, Loss, Report, VerifyOptions, repair, verify};
