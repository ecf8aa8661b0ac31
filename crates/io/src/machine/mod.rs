//! The machine model: measured costs in a [`Profile`], and predictions from them.
//!
//! [`calibrate`] measures, [`Costs::derive`] and [`Path`] derive costs, [`Volume::predict`] predicts. The last two are plain
//! arithmetic; what was not measured is not predicted.

mod calibrate;
mod choose;
mod costs;
mod kernels;
mod model;
mod place;
mod profile;
mod scratch_folder;
mod spread;
mod timed;

pub use calibrate::{Calibration, ScratchRecording, calibrate};
pub use choose::{Outlook, Prospect};
pub use costs::{Cold, Costs, Path, State, Trial};
pub use kernels::Kernel;
pub use model::{Amount, Volume};
pub use profile::{Machine, Profile};
pub use spread::Spread;
pub use timed::Scan;
