//! Plans of operators over signal segments, and how they run.
//!
//! A [`Plan`] is data: operators and how they are connected, with types checked as it is built, printed and compared
//! without running. [`Plan::collect`] and [`Plan::run`] run it depth first, in one thread unless [`RunOptions`] give more workers: an item goes through all
//! operators before the next is asked for, so that samples stay in the cache and memory stays flat. The words and
//! rules are in `docs/design.md` 15; [`Operator`] is the contract, and [`operator!`] declares one, also in a crate of
//! the user's own.

mod ascending;
mod catalog;
mod control;
mod cut;
mod declare;
mod description;
mod error;
mod exec;
mod explain;
mod frequencies;
mod gathered;
mod generated;
mod graph;
mod held;
mod item;
mod operator;
pub mod ops;
mod optimise;
mod parallel;
mod partial;
mod place;
mod plan;
mod repeated;
mod report;
mod rows;
mod run;
mod saved;
mod snapshot;
mod source;
mod stored;
mod stored_ahead;
mod stored_clock;
mod stored_pass;
mod stored_portions;
mod target;
mod to_events;
mod to_file;
mod to_signal;
mod types;
mod units;
mod workspace;

pub use catalog::Catalog;
pub use control::Control;
pub use declare::{Build, Declaration, Declared, Inputs, Param};
pub use description::{OuterGaps, SignalDescription};
pub use error::{Cause, OpError, OpErrorKind, PlanError, RunError};
pub use exec::drive::Out;
pub use exec::pool::Block;
pub use exec::{MEMORY, Progress, RunOptions, TASK, Watch};
pub use gathered::{Array, Gathered};
pub use generated::{Begin, Generated, Made};
pub use held::{Held, Kept, Revive, Spread};
pub use isochrony_workers::ProcessReport;
pub use item::{Break, Frames, Item, Ranges};
pub use operator::{Align, Applied, Bound, Columns, Contract, Extent, Needs, Next, Operator, Port};
pub use ops::Stat;
pub use partial::Partial;
pub use place::Place;
pub use plan::{Plan, SEGMENT, Scanned};
pub use repeated::Repeated;
pub use report::{OperatorReport, Report, TaskReport, WorkerReport};
pub use rows::{Clock, Fields, Rows};
pub use saved::Resolve;
pub use snapshot::{Foreseen, Indexed, Opens, Portion, Reach, Snapshot, Within};
pub use source::{Live, Pulled, Recording, Segments, Source};
pub use stored::Stored;
pub use target::{Keep, Target, Writer};
pub use to_events::ToEvents;
pub use to_file::{Batches, PartFile, ToWav, WavFormat, WavGaps, partial_name};
pub use to_signal::{IfExists, ToSignal};
pub use types::PortType;
pub use workspace::Workspace;

/// Tables and their columns are Arrow's.
pub mod arrow {
    pub use arrow_array as array;
    pub use arrow_array::RecordBatch;
    pub use arrow_schema as schema;
}

#[doc(hidden)]
pub use serde_json::json;
