//! Models of a running plan: throughput, buffering, and how far a model can be trusted.
//!
//! Pure functions without threads, clock or I/O, and seeded randomness, so the tuner, predictions and the simulator
//! share the code. Times are seconds, rates are items per second.
//!
//! - [`flow_model`]: throughput of a graph of servers, its bottleneck, and replicas for a core budget.
//! - [`Configuration`]: what can change in a running plan; [`Window`]: its statistics over a short interval.
//! - [`controller`]: tunes a running plan by paired trials.
//! - [`noise`]: distributions of execution time noise, and tests that reject a model.
//! - [`queueing`]: waits, queue lengths and buffer sizes.
//! - [`service_rate`]: service rates from samples of queue counters.
//! - [`session`]: the tuning of one run, from request to report.
//! - [`simulator`]: a plan in simulated time, for testing and evaluating tuners.
//! - [`trust`]: trained classifiers of whether a model fits a link.

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
