//! One binary for all tests links faster.

mod any_stamps;
mod clock;
mod common;
mod estimator;
mod exact;
mod graph;
mod lost_samples;
mod marks;
mod mean_rate;
mod placement;
mod points;
mod ratio;
mod runs;
mod short_gaps;
mod values;
