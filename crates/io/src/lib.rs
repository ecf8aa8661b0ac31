//! I/O strategies, and the machine model that chooses between them.
//!
//! A [`Source`] says which bytes of which files hold which samples. A [`Reader`] reads it piece by piece by a [`Strategy`]:
//! mapped, copied, past the page cache, through an io_uring. Samples are the same by each; cost differs, and [`machine`]
//! measures and predicts it. This crate knows neither signals nor stores: `isochrony-store` maps its signals to sources.

mod error;
pub mod machine;
mod page_cache;
mod source;
mod strategy;
mod system;
#[cfg(test)]
mod test_source;

pub use error::IoError;
pub use source::{ShardFile, ShardLayout, Shards, Source, SourceError, Span, is_same};
pub use strategy::{Positions, Reader, Readers, Reading, Strategy, Tasks, prefetch};
pub use system::{free_memory, punch_hole, write_back};
