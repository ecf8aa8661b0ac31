//! Signals: selections, segments, gaps, runs, events, levels; reading and writing.

pub(crate) mod conversion;
pub(crate) mod corrections;
pub(crate) mod counts;
pub(crate) mod events;
pub(crate) mod extent;
pub(crate) mod filling;
pub(crate) mod foreign;
pub(crate) mod gaps;
pub(crate) mod index;
pub(crate) mod key;
pub(crate) mod key_range;
pub(crate) mod level;
pub(crate) mod level_selection;
pub(crate) mod options;
pub(crate) mod reading;
pub(crate) mod runs;
pub(crate) mod segment;
pub(crate) mod segment_pickling;
pub(crate) mod selection;
pub(crate) mod stamps;
pub(crate) mod values;
pub(crate) mod view;
pub(crate) mod writer;
pub(crate) mod writing;

pub(crate) use reading::{Signal, between, one};
