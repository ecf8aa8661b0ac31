//! What this machine costs: measured by [`calibrate`], kept in a [`Profile`], and what follows for scans.
//!
//! Measuring ([`calibrate`]), deriving costs from what was measured ([`Costs::derive`], [`Path`]) and predicting from
//! costs ([`Volume::predict`]) are apart; the last two are plain arithmetic, and nothing is predicted that was not measured.

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
