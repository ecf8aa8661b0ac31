//! Detectors of what stands out of a stream.
//!
//! - [`ClassicStaLta`], [`RecursiveStaLta`]: short-term over long-term average power (seismology).
//! - [`CellCfar`]: power over that of surrounding cells (radar's CFAR).
//! - [`NoiseCfar`]: a number over a running model of Gaussian noise (XStream's audio detector).
//! - [`Triggers`]: ranges from exceeding one threshold to falling below another.
//!
//! State is kept between calls: the same bits however the stream is cut. Nothing allocates per sample.

mod cells;
mod noise;
mod stalta;
pub mod thresholds;
mod triggers;

pub use cells::{CellCfar, Noise, Sides};
pub use noise::NoiseCfar;
pub use stalta::{ClassicStaLta, RecursiveStaLta};
pub use triggers::{Grid, Triggers};
