//! I/O strategies, and the machine model that chooses between them.
//!
//! A [`SampleSource`] maps samples to bytes of files. A [`PieceReader`] reads it by a [`Strategy`]. All strategies give
//! the same samples at different costs, which [`machine`] measures and predicts. `isochrony-store` maps its signals to
//! sources.

mod error;
pub mod machine;
mod page_cache;
mod positions;
mod scan;
mod scratch_folder;
mod source;
mod strategy;
mod system;
#[cfg(test)]
mod test_source;
// Where the io_uring crate knows the kernel's structures.
#[cfg_attr(
    not(all(
        target_os = "linux",
        any(
            target_arch = "x86_64",
            target_arch = "aarch64",
            target_arch = "riscv64",
            target_arch = "loongarch64",
            target_arch = "powerpc64"
        )
    )),
    path = "uring/none.rs"
)]
mod uring;

pub use error::IoError;
pub use positions::Positions;
pub use scan::{PieceReader, Reading, ScanReaders, TaskParts, prefetch};
pub use scratch_folder::ScratchFolder;
pub use source::{FileRange, SampleSource, ShardFile, ShardLayout, Shards, SourceError, is_same};
pub use strategy::Strategy;
pub use system::{free_memory, punch_hole, write_back};
