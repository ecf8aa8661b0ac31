//! Models of a running plan: what throughput and how much buffering its stages need, and how well a model can be trusted.
//!
//! Pure functions: no threads, no clock, no I/O, and every choice at random comes from a seed, so that the tuner of a run,
//! the prediction of a plan that has not run and the simulator use the same code. Times are seconds, rates are items a
//! second.
//!
//! - [`noise`]: distributions of the noise of execution times, and tests that reject a model.
//! - [`service_rate`]: service rates from samples of the counters of a queue.

mod estimate_error;
pub mod noise;
pub mod service_rate;

pub use estimate_error::EstimateError;
