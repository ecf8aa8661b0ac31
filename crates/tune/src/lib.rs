//! Models of a running plan: what throughput and how much buffering its stages need, and how well a model can be trusted.
//!
//! Pure functions: no threads, no clock, no I/O, and every choice at random comes from a seed, so that the tuner of a run,
//! the prediction of a plan that has not run and the simulator use the same code. Times are seconds, rates are items a
//! second.
//!
//! - [`flow_model`]: the throughput of a graph of servers, its bottleneck, and replicas for a budget of cores.
//! - [`Configuration`]: what can change while a plan runs; [`Window`]: what the plan did in a short interval.
//! - [`controller`]: changes the configuration of a running plan by paired trials.
//! - [`noise`]: distributions of the noise of execution times, and tests that reject a model.
//! - [`queueing`]: waits, queue lengths and the buffers that a throughput needs.
//! - [`service_rate`]: service rates from samples of the counters of a queue.
//! - [`session`]: the tuning of one run, from what the user asked for to the report.
//! - [`simulator`]: a plan that runs in simulated time, for tests and evaluations of what tunes plans.
//! - [`trust`]: whether a model may be believed for a link, judged by trained classifiers.

mod configuration;
pub mod controller;
mod error;
pub mod flow_model;
pub mod noise;
pub mod queueing;
pub mod service_rate;
pub mod session;
pub mod simulator;
pub mod trust;
mod window;

pub use configuration::{Configuration, ConfigurationLimits};
pub use controller::{Controller, ControllerOptions, Decision, Outcome};
pub use error::TuneError;
pub use flow_model::{
    Allocation, FlowGraph, FlowModel, FlowSolution, Limit, Resources, Route, Server, Source,
    SourceRule,
};
pub use queueing::{FiniteQueue, Queue};
pub use session::{PolledTuning, RunCounters, TuningMode, TuningReport, TuningSession};
pub use window::{LinkWindow, StageWindow, Window};
