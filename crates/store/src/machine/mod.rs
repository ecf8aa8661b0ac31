//! What this machine costs: measured by [`calibrate`], kept in a [`Profile`], and what follows for scans.
//!
//! Measuring ([`calibrate`]), deriving costs from what was measured ([`Costs::derive`], [`Path`]) and predicting from
//! costs ([`Volume::predict`]) are apart; the last two are plain arithmetic, and nothing is predicted that was not measured.

pub(crate) mod cache;
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

pub use calibrate::Calibration;
pub(crate) use calibrate::{ScratchRecording, calibrate as calibrate_with};
pub use choose::{Outlook, Prospect};
pub use costs::{Cold, Costs, Path, State, Trial};
pub use kernels::Kernel;
pub use model::{Amount, Volume};
pub use profile::{Machine, Profile};
pub use spread::Spread;
pub(crate) use timed::Scan;

pub use crate::calibration::{calibrate, choose, estimate, time_scan};
