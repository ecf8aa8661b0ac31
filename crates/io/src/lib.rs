//! I/O strategies, and the machine model that chooses between them.
//!
//! A [`SampleSource`] maps samples to bytes of files. A [`PieceReader`] reads it by a [`Strategy`]. Strategies differ
//! in cost, which [`machine`] measures and predicts. `isochrony-store` maps its signals to sources.

mod error;
pub mod machine;
mod owner_process;
mod piece_ring;
mod positions;
mod scan;
mod scratch_folder;
mod source;
mod strategy;
#[cfg(test)]
mod test_source;

pub use error::IoError;
pub use positions::Positions;
pub use scan::{PieceReader, Reading, ScanReaders, TaskParts, prefetch};
pub use scratch_folder::ScratchFolder;
pub use source::{FileRange, SampleSource, ShardFile, ShardLayout, Shards, SourceError, is_same};
pub use strategy::Strategy;
