//! Detectors: how far each number of a stream stands out, and the ranges where it does.
//!
//! - [`ClassicStaLta`], [`RecursiveStaLta`]: short-term over long-term average power, the trigger of seismology.
//! - [`CellCfar`]: power over that of surrounding cells, for a given probability of false alarms (radar's CFAR).
//! - [`NoiseCfar`]: a number over a running model of Gaussian noise, as in XStream's detector of audio events.
//! - [`Triggers`]: ranges from exceeding one threshold to falling below another.
//!
//! State is kept between calls: results have the same bits however the stream is cut. Nothing allocates per sample.
//! Factors for a probability of false alarms are in [`thresholds`].

mod cells;
mod noise;
mod stalta;
pub mod thresholds;
mod triggers;

pub use cells::{CellCfar, Noise, Sides};
pub use noise::NoiseCfar;
pub use stalta::{ClassicStaLta, RecursiveStaLta};
pub use triggers::{Grid, Triggers};
