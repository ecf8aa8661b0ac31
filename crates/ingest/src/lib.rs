//! Imports recordings into a signal store.
//!
//! Three parts, each usable on its own:
//! - [`Layout`]: a template such as `{station}/{year}/{day}/{sensor}/{station}_{epoch}.raw` that says what the paths
//!   of a folder of recordings mean: which signal, which time stamp, how finely stamped;
//! - [`discover`]: walks a folder, matches every file, and returns a [`Catalogue`] of compact records sorted by signal
//!   and time, with everything that cannot be imported listed beside it with its reason.

mod discover;
mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod layout;
mod stamp;

pub use discover::{
    Cancel, Catalogue, DiscoverOptions, Found, Problem, Problems, Symlinks, discover,
};
pub use error::IngestError;
pub use layout::{Layout, Match, Preset};
pub use stamp::CivilStamp;
