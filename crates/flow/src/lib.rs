//! Plans of operators over signal segments, and how they run.
//!
//! A [`Plan`] is data: operators and how they are connected. Types are checked while it is built; it prints and compares
//! without running. [`Plan::collect`] and [`Plan::run`] execute it depth first: an item passes through all operators before
//! the next one is read, so samples stay in the cache and memory stays flat. [`RunOptions`] give it more workers.
//!
//! | folder | what it provides |
//! |---|---|
//! | `plan` | plans, the [`Operator`] contract, items, types, declarations, rows, errors, JSON |
//! | `operators` | the built-in operators by family, and the methods of [`Plan`] that add them |
//! | `sources` | recordings that a plan scans: stored signals, segments in memory, generated samples |
//! | `sinks` | where results are kept: signals, events, files |
//! | `optimiser` | rewrites of a graph that keep every bit of its results |
//! | `engine` | executes a graph in one thread, depth first |
//! | `scheduler` | runs a graph: splits it into tasks for workers, restores their order; `explain` |
//!
//! Each folder uses those above it. Two things point down: the contract names [`Out`], the engine's side of an operator call, and
//! `explain` and [`Control`] run the optimiser. [`operator!`] declares an operator, also in other crates. Semantics:
//! `docs/design.md`, section 15.

mod engine;
pub mod operators;
mod optimiser;
mod plan;
mod scheduler;
mod sinks;
mod sources;

pub use engine::control::Control;
pub use engine::dispatch::Out;
pub use engine::gathered::{Array, Gathered};
pub use engine::pool::Block;
pub use engine::report::{OperatorReport, ProcessReport, Report, TaskReport, WorkerReport};
pub use engine::{MEMORY, Progress, RunOptions, TASK, Watch};
pub use operators::Stat;
pub use plan::catalog::Catalog;
pub use plan::declaration::{Build, Declaration, Declared, Inputs, Param};
pub use plan::error::{Cause, OpError, OpErrorKind, PlanError, RunError};
pub use plan::held::{Held, Kept, Revive, Spread};
pub use plan::item::{Break, Frames, Item, Ranges};
pub use plan::operator::{
    Align, Applied, Bound, Columns, Contract, Extent, Needs, Next, Operator, Port,
};
pub use plan::partial::Partial;
pub use plan::port_type::PortType;
pub use plan::rows::{Clock, Fields, Rows};
pub use plan::saved::Resolve;
pub use plan::workspace::Workspace;
pub use plan::{Plan, SEGMENT, Scanned};
pub use scheduler::repeated::Repeated;
pub use sinks::events::ToEvents;
pub use sinks::files::{Batches, PartFile, ToWav, WavFormat, WavGaps, partial_name};
pub use sinks::signal::{IfExists, ToSignal};
pub use sinks::store_location::Place;
pub use sinks::{Keep, Target, Writer};
pub use sources::description::{OuterGaps, SignalDescription};
pub use sources::generated::{Begin, Generated, Made};
pub use sources::snapshot::{Foreseen, Indexed, Opens, Portion, Reach, Snapshot, Within};
pub use sources::stored::Stored;
pub use sources::{Live, Pulled, Recording, Segments, Source};

/// Tables and their columns are Arrow's.
pub mod arrow {
    pub use arrow_array as array;
    pub use arrow_array::RecordBatch;
    pub use arrow_schema as schema;
}

#[doc(hidden)]
pub use serde_json::json;
