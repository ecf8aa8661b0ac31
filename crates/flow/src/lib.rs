//! Plans of operators over signal segments, and how they run.
//!
//! A [`Plan`] is data: operators and their connections, with types checked as it is built. [`Plan::collect`] and
//! [`Plan::run`] execute it depth first: an item passes all operators before the next is read, so samples stay in the
//! cache and memory stays flat. [`RunOptions`] add workers.
//!
//! | folder | what it provides |
//! |---|---|
//! | `plan` | plans, the [`Operator`] contract, items, types, declarations, rows, errors, JSON |
//! | `sources` | recordings: stored signals, segments in memory, generated samples |
//! | `operators` | built-in operators by family, and methods of [`Plan`] that add them |
//! | `sinks` | where results are kept: signals, events, files |
//! | `optimiser` | rewrites that keep every bit of the results |
//! | `engine` | depth-first execution in one thread |
//! | `scheduler` | tasks for workers, in order; `explain` |
//!
//! Each folder uses those above it, except that a plan holds its recordings, [`Catalog`] lists the built-in operators,
//! and operators and sinks name the engine's [`Out`], [`RunOptions`], [`PlanOutput`]. [`operator!`] declares operators,
//! also in other crates. Semantics: `docs/design/execution.md`.

mod engine;
pub mod operators;
mod optimiser;
mod plan;
mod scheduler;
mod sinks;
mod sources;

pub use engine::control::Control;
pub use engine::dispatch::Out;
pub use engine::gathered::{Array, PlanOutput};
pub use engine::pool::Block;
pub use engine::report::{
    BranchReport, ChangeReport, LinkReport, OperatorReport, PlanWorkerReport, Report,
    StageMeasurement, StageReport, TaskReport, ThreadReport,
};
pub use engine::start_settings::GivenSettings;
pub use engine::tuning::Tuning;
pub use engine::{DEFAULT_MEMORY, DEFAULT_TASK, RunOptions, StageOptions};
pub use isochrony_runtime::{Interrupt, Latency, LatencyHistogram, Progress, Watch, WorkerReport};
pub use isochrony_tune::{FunctionPlace, TuningMode, TuningReport};
pub use isochrony_workers::ProcessReport;
pub use operators::Stat;
pub use plan::catalog::Catalog;
pub use plan::declaration::{
    Build, Declaration, Inputs, OperatorBuilder, OperatorType, ResultTolerance,
};
pub use plan::error::{Cause, OpError, OpErrorKind, PlanError, RemoteFailure, RunError};
pub use plan::item::{Break, Frames, Item, Ranges};
pub use plan::length::{IntoParameter, Length, LengthError};
pub(crate) use plan::operator::KeyReplicas;
pub use plan::operator::{
    Alignment, Contract, Extent, InputBounds, Next, Operator, OperatorProperties, ParameterUpdate,
    Port, Resource, RowAxis,
};
pub use plan::operator_factory::{FactoryResolver, OperatorFactory, Parallelism, SharedFactory};
pub use plan::parameter::{Param, Unit};
pub use plan::parameter_range::ParamRange;
pub use plan::partial_result::PartialResult;
pub use plan::port_type::PortType;
pub use plan::rows::{Clock, Fields, Rows};
pub use plan::saved::RecordingResolver;
pub use plan::sent_objects::{SentObject, SentObjects};
pub use plan::workspace::Workspace;
pub use plan::{Plan, SEGMENT_SAMPLES, ScannedSignal};
pub use scheduler::characterise::{CharacteriseOptions, OperatorCost};
pub use scheduler::prediction::ThroughputPrediction;
pub use scheduler::remote::{
    CauseCodec, DispatchOptions, HostError, HostInbox, HostRequest, HostRun, PreparedTasks,
    RemoteSlot, RunnerContext, SendBuffer, SlotError, SnapshotCheck, TaskCluster, TaskRunner,
    TaskRunnerError,
};
pub use scheduler::repeated::RepeatedPlan;
pub use sinks::events::EventSink;
pub use sinks::files::{BatchEncoder, PartFile, WavFormat, WavGaps, WavSink, partial_name};
pub use sinks::signal::{IfExists, SignalSink};
pub use sinks::signal_location::SignalLocation;
pub use sinks::{Sink, SinkFactory, SinkWriter};
pub use sources::description::{OuterGaps, SignalDescription};
pub use sources::generated::{GeneratedRecording, GeneratorFactory, SegmentGenerator};
pub use sources::segments::Segments;
pub use sources::snapshot::{
    IndexedSnapshot, PlannedReads, Portion, PortionOpener, PortionOverlap, RangePortion, Snapshot,
};
pub use sources::source::{RangeOrigin, Source, SourceEvent};
pub use sources::stored::StoredRecording;
pub use sources::{Recording, SharedRecording};

/// Arrow's tables and columns.
pub mod arrow {
    pub use arrow_array as array;
    pub use arrow_array::RecordBatch;
    pub use arrow_schema as schema;

    pub use crate::plan::rows::columns::samples_column;
}

#[doc(hidden)]
pub use serde_json::json;

/// A JSON object, for [`operator!`].
#[doc(hidden)]
pub type JsonObject = serde_json::Map<String, serde_json::Value>;
