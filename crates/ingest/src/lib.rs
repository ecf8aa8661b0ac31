//! Imports recordings into a signal store.
//!
//! Parts, each usable on its own:
//! - [`Layout`]: a template such as `{station}/{year}/{day}/{sensor}/{station}_{epoch}.raw` that says what the paths
//!   of a folder of recordings mean: which signal, which time stamp, how finely stamped;
//! - [`discover`]: walks a folder, matches every file, and returns a [`Catalogue`] of compact records sorted by signal
//!   and time, with everything that cannot be imported listed beside it with its reason;
//! - [`EncodedSamples`], [`RecordRun`]: decode the samples of miniSEED records, one or many at a time;
//! - [`Session`]: takes in the blocks of any importer (raw, SEED, audio, tables), places them by their stamps,
//!   recognises what is known, duplicate or late, tells provenance, commits, and reports a [`Summary`];
//! - [`gap_edges`]: which files and stamps lie on both sides of a gap;
//! - [`import_raw`]: a folder of raw recordings into a store, once or following it as it grows.

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

pub use discover::{Catalogue, DiscoverOptions, Found, Problem, Problems, Symlinks, discover};
pub use error::IngestError;
pub use gap_edges::{GapEdge, GapEdges, gap_edges};
pub use isochrony_runtime::{Interrupt, Progress};
pub use layout::{Layout, Match, Preset};
pub use mseed::{EncodedSamples, RecordRun, RunPart, RunSamples};
pub use progress::{ImportProgress, OnProgress};
pub use raw::{Follow, RawOptions, import_raw};
pub use session::{Block, Session, SessionOptions, SignalSummary, Spec, StampedBlocks, Summary};
pub use stamp::CivilStamp;
