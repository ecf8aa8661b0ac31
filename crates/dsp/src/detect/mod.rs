//! Detectors: from a stream of numbers to how far each stands out, and from there to ranges.
//!
//! - [`ClassicStaLta`], [`RecursiveStaLta`]: power of a short time over power of a long one, seismology's trigger.
//! - [`CellCfar`]: power over that of cells around it, for a stated probability of false alarms (radar's CFAR).
//! - [`NoiseCfar`]: a number over a running model of Gaussian noise, as XStream's detector of audio events has it.
//! - [`Triggers`]: where such a stream goes above one threshold, until it falls below another.
//!
//! All keep their state between calls and give the same bits however the stream is cut into calls; none allocates per
//! sample. What they compare with, for a stated probability, is in [`odds`].

mod cells;
mod noise;
pub mod odds;
mod stalta;
mod triggers;

pub use cells::{CellCfar, Noise, Sides};
pub use noise::NoiseCfar;
pub use stalta::{ClassicStaLta, RecursiveStaLta};
pub use triggers::{Grid, Triggers};
