//! Signal operators on slices; independent of store and engine.
//!
//! Conventions:
//! - the same bits on every CPU: sums run in a fixed number of lanes from the window's first sample, without fused
//!   multiply-add;
//! - the instruction set is selected once per call ([`Isa`]);
//! - nothing is allocated, locked or copied per sample.

#[cfg(target_arch = "x86_64")]
mod avx2;
pub mod convert;
pub mod correlate;
pub mod detect;
mod error;
pub mod features;
pub mod filter;
pub mod interpolate;
mod isa;
pub mod math;
pub mod packets;
mod prefetch;
pub mod reduction_tree;
pub mod resample;
pub mod running;
pub mod spectrum;
pub mod stats;
mod sums;
mod tile;
pub mod window;
mod windows;

pub use error::DspError;
pub use isa::{Isa, Kernel, Level};
pub use prefetch::prefetch_start;
pub use tile::{TILE_BYTES, Tile};
pub use windows::Windows;
