//! Clocks, metrics and timebases, in one binary: each file of a folder of tests would be linked by itself.

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
