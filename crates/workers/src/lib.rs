//! Worker processes: run functions of a host language on many cores, each with its own interpreter.
//!
//! ```text
//!  worker thread                                     worker process (isochrony/workers/process.py)
//!  RemoteFunction ── takes ──▶ WorkerProcess
//!       │                          │  Unix socket: functions, calls, answers  (wire)
//!       │ retries once             ├──────────────────────────────────────▶ function
//!       ▼                          │  memfd: samples and results             (shared_memory)
//!  ProcessPool ◀── gives back ─────┘
//! ```
//!
//! An execution has one [`ProcessPool`]. A worker thread uses the same process for all calls. Processes start on first
//! use, never by forking. Samples are passed in shared memory, never pickled. A waiting thread does not hold the
//! interpreter.
//!
//! When a process dies, the call is retried once in a new one, unless the function is stateful. A second death in one
//! call, or too many in total, end the execution.
//!
//! No process outlives the pool: idle ones are asked to exit, then all are killed. Without a parent they end by
//! themselves ([`kill_group_when_closed`]). Each leads a process group, so processes started by functions end too.
//!
//! This crate knows neither Python nor plans: [`HostFunction`], [`StartCommand`] and [`CallContext`] provide the host
//! language; its exceptions are [`RemoteException`]s.

mod block;
mod connection;
mod error;
mod function;
mod parent_watch;
mod pool;
mod process;
mod records;
mod remote_function;
mod report;
mod shared_memory;
mod tasklet;
#[cfg(test)]
mod tests;
mod wire;

pub use block::{BlockCall, BlockResult};
pub use error::{CallError, Cause, RemoteException};
pub use function::{Encoding, HostFunction, PortableFunction, SerializedFunction};
pub use parent_watch::kill_group_when_closed;
pub use pool::ProcessPool;
pub use process::StartCommand;
pub use records::{RecordCall, RecordPiece, RecordResult};
pub use remote_function::{CallContext, RemoteFunction};
pub use report::ProcessReport;
pub use tasklet::{InputSegment, TaskletCall, TaskletInput, TaskletOutput, TaskletResult};
