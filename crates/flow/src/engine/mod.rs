//! Executes a graph in one thread, depth first, a bounded burst at a time.
//!
//! ```text
//!  RunOptions ───────────────────────┐ once a burst: watch, interrupt
//!                                    ▼
//!  source 0 ─┐ select   ┌──────────────────┐  item   ┌────────┐ Forward ┌────────┐  emit  ┌────────┐
//!  source 1 ─┼────────▶ │ burst            │ ──────▶ │ slot 2 │ ──────▶ │ slot 3 │ ─────▶ │ slot 5 │ ─▶ sink
//!  source 2 ─┘ furthest │ ≤ 64 items, then │  mark   └────────┘  loop   └───┬────┘ call   └───▲────┘
//!              behind   │ a progress mark  │                                │                │ matched items
//!                       └──────────────────┘                                └──▶ fan-in queues
//!
//!  Memory budget: blocks of the output pool, items in fan-in queues, and what operators state with `Out::holds`.
//! ```
//!
//! A [`PlanExecutor`] lays the operators out in topological order. An operator reaches only the slots after it, so none
//! is entered twice at once, without locks. The thread sleeps only while no source has items.
//!
//! | step | files |
//! |---|---|
//! | set up | `layout`, `executor`, `slot`, `context`, `pool` |
//! | which source is asked, and for how much | `source_order`, `burst`, `burst_latency`, `run` |
//! | items and marks through operators | `dispatch`, `mark`, `fan_in` |
//! | parts of an operator call in other threads | `part_executor` |
//! | errors | `first_error`, `time_axis` |
//! | branches that are added while it runs | `branches` |
//! | around it | `options`, `cut_rule`, `control`, `tuning`, `advice`, `start_settings`, `report`, `gathered`, `budget` |

pub(crate) mod advice;
pub(crate) mod branches;
pub(crate) mod budget;
mod burst;
mod burst_latency;
mod context;
pub(crate) mod control;
mod cut_rule;
pub(crate) mod dispatch;
mod executor;
mod fan_in;
mod first_error;
pub(crate) mod gathered;
mod layout;
mod mark;
mod options;
mod part_executor;
pub(crate) mod pool;
mod ranked_error;
pub(crate) mod report;
mod run;
mod run_status;
mod slot;
mod source_order;
pub(crate) mod start_settings;
pub(crate) mod time_axis;
pub(crate) mod tuning;

pub(crate) use cut_rule::{CutOrigin, CutRule};
pub(crate) use dispatch::is_operator_error;
pub(crate) use executor::PlanExecutor;
pub(crate) use first_error::panic_error;
pub(crate) use layout::ReusableParts;
pub(crate) use options::PlanCuts;
pub use options::{DEFAULT_MEMORY, DEFAULT_TASK, RunOptions, StageOptions};
pub(crate) use part_executor::{DividedWork, PartExecutor};
pub(crate) use run::Burst;
