//! Isochrony: store.

#[doc(hidden)]
pub mod engine;
mod error;
#[doc(hidden)]
pub mod media;
pub mod meta;
mod names;
pub mod op;
pub mod state;
pub mod views;

pub use error::StoreError;
pub use names::{Pattern, RESERVED, check_name};
