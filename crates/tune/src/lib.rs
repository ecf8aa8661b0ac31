//! Models of a running plan, and tuning.
//!
//! Pure functions without threads, clock or I/O; seeded randomness. Times are seconds, rates items per second.

mod batch_advice;
mod configuration;
pub mod controller;
mod error;
pub mod flow_model;
mod function_place;
pub mod noise;
pub mod queueing;
pub mod service_rate;
pub mod session;
pub mod simulator;
mod task_advice;
pub mod trust;
mod window;

pub use batch_advice::{BatchAdvice, MessageTimes, TravelTimes};
pub use configuration::{Configuration, ConfigurationLimits, StartSettings};
pub use controller::{Controller, ControllerOptions, Decision, Outcome};
pub use error::TuneError;
pub use flow_model::{
    Allocation, FlowGraph, FlowModel, FlowSolution, Limit, Resources, Route, Server, Source,
    SourceRule,
};
pub use function_place::{
    FunctionCosts, FunctionPlace, MIN_PLACE_GAIN, PlaceDecision, PlaceOutcome, ProcessCosts,
};
pub use queueing::{FiniteQueue, Queue};
pub use session::{PolledTuning, RunCounters, TuningMode, TuningReport, TuningSession};
pub use task_advice::{MIN_ADVICE_GAIN, MIN_ADVICE_S, TaskSizeAdvice, TaskTimes};
pub use window::{LinkWindow, StageWindow, Window};
