//! Imports recordings into a signal store.
//!
//! Parts, each usable alone:
//! - [`Layout`]: a template such as `{station}/{year}/{day}/{sensor}/{station}_{epoch}.raw`, by which a path states
//!   signal and stamp;
//! - [`discover`]: matches the files of a folder and returns a [`Catalogue`];
//! - [`EncodedSamples`], [`RecordRun`]: decode the samples of miniSEED records, one or many at a time;
//! - [`Session`]: stores the blocks of any importer: places them by their stamps, detects known, duplicate and late
//!   ones, records provenance, commits, and gives a [`Summary`];
//! - [`gap_edges`]: files and stamps on both sides of a gap;
//! - [`import_raw`]: imports a folder of raw recordings, once or as it grows.

mod discover;
mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gap_edges;
mod layout;
mod mseed;
mod progress;
mod raw;
mod session;
mod stamp;

pub use discover::{
    Catalogue, DiscoverOptions, FoundRecording, Problem, Problems, Symlinks, discover,
};
pub use error::IngestError;
pub use gap_edges::{GapEdge, GapEdges, gap_edges};
pub use isochrony_runtime::{Interrupt, Progress};
pub use layout::{Layout, Match, Preset};
pub use mseed::{EncodedSamples, RecordRun, RunPart, RunSamples};
pub use progress::{ImportProgress, OnProgress};
pub use raw::{Follow, RawOptions, import_raw};
pub use session::{Block, Session, SessionOptions, SignalSummary, Spec, StampedBlocks, Summary};
pub use stamp::CivilStamp;
