//! The machine model: measured costs in a [`Profile`], and predictions from them.
//!
//! What was not measured is not predicted.

mod calibrate;
mod costs;
mod disk_costs;
mod disk_identity;
mod estimate;
mod operator_costs;
mod profile;
mod quartiles;
mod summary_costs;
mod timed_scan;

pub use calibrate::{CalibrationOptions, ScanSource, ScratchRecording, calibrate};
pub use costs::{CacheState, ColdCosts, Costs, StrategyCosts, Trial};
pub use disk_costs::{Amount, DiskCosts};
pub use estimate::{ScanEstimate, StrategyEstimate};
pub use operator_costs::{CheckedPrediction, MeasuredOperator, OperatorCosts};
pub use profile::{Machine, Profile};
pub use quartiles::Quartiles;
pub use summary_costs::SummaryCosts;
pub use timed_scan::TimedScan;
