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
//! An execution has one [`ProcessPool`]. A worker thread takes the same process for each call and gives it back.
//! Processes start on first use, never forked. Samples travel in shared memory and are never pickled. A thread that
//! waits for an answer needs no interpreter.
//!
//! A process that dies closes its socket. The call is repeated once in a fresh process, unless the function keeps state
//! between calls. A second death in one call, or too many in all, end the execution.
//!
//! No process outlives the pool: idle ones are asked to exit, then all are killed. Without a parent they end by
//! themselves ([`kill_group_when_closed`]). Each leads a process group, so that what functions start ends too.
//!
//! This crate knows neither Python nor plans. The host language comes in through [`HostFunction`], [`StartCommand`] and
//! [`CallContext`]; its exceptions go out as [`RemoteException`].

mod block;
mod connection;
mod error;
mod function;
mod parent_watch;
mod pool;
mod process;
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
pub use remote_function::{CallContext, RemoteFunction};
pub use report::ProcessReport;
pub use tasklet::{InputSegment, TaskletCall, TaskletInput, TaskletOutput, TaskletResult};
