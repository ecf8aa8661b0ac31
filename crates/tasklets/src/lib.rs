//! Tasklets: explicit units of work over ranges of signals.
//!
//! A tasklet declares what it reads, writes and does. Pure functions derive [`DependencyGraph`], [`SerialOrder`] (by
//! disk position, within a scratch budget) and what may start next ([`TaskletScheduler`]). [`Executor`] runs them on
//! threads over stores.
//!
//! After J. E. Smith, *Access Scheduler and Multiprocessor* (2010); `docs/design/tasklets.md` lists differences.

mod block_pool;
mod catalog;
mod context;
mod error;
mod executor;
mod graph;
mod journal;
mod journal_location;
mod options;
mod prefetch;
mod previous_execution;
mod progress;
mod report;
mod runner;
mod schedule;
mod scheduler;
mod segment_tree;
mod serial_order;
mod shared_scheduler;
mod shared_signal;
mod signal_range;
mod store_runner;
mod tasklet;
mod tuning;
mod worker_pool;

use isochrony_runtime::sync;

pub use block_pool::BlockPool;
pub use context::{OutputBytes, TaskletContext};
pub use error::{Cause, TaskletError};
pub use executor::Executor;
pub use graph::{DependencyGraph, InputSpec, SignalExtent, SignalSpec, TaskletSpec};
pub use isochrony_runtime::{Interrupt, Progress, WorkerReport};
pub use isochrony_tune::{TuningMode, TuningReport};
pub use options::ExecutorOptions;
pub use progress::{TaskletProgress, TaskletTiming};
pub use report::{ExecutionFailure, TaskletReport, TaskletsReport};
pub use scheduler::{Assignment, TaskletScheduler, TaskletState};
pub use serial_order::{OrderPolicy, OrderReason, SerialOrder};
pub use signal_range::SignalRange;
pub use tasklet::{ReturnValue, Tasklet, TaskletFunction};
