//! Errors of calls in worker processes.

use std::io;

pub use isochrony_runtime::Cause;

/// More process deaths are not accidents.
pub(crate) const MAX_DEATHS: usize = 8;

#[derive(Debug)]
pub(crate) enum ProcessError {
    Died,
    Stopped,
    /// Raised by a signal handler of the host language.
    Signal(Cause),
    NotPortable(String),
    OutOfMemory {
        bytes: u64,
        error: io::Error,
    },
    Io(io::Error),
}

impl From<io::Error> for ProcessError {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        match error.kind() {
            BrokenPipe | ConnectionReset | UnexpectedEof => Self::Died,
            _ => Self::Io(error),
        }
    }
}

impl ProcessError {
    pub(crate) fn unexpected_response() -> Self {
        Self::Io(io::Error::other("the response does not match the request"))
    }

    pub(crate) fn invalid_message() -> Self {
        Self::Io(io::Error::new(
            io::ErrorKind::InvalidData,
            "the message is malformed",
        ))
    }
}

/// An exception of a function in a worker process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteException {
    /// Process.
    pub pid: u32,
    /// Raised while loading the function, not by a call.
    pub while_loading: bool,
    /// Traceback.
    pub traceback: String,
    /// Class name.
    pub class: String,
    /// Message.
    pub message: String,
    /// Pickled exception; empty if it cannot be pickled.
    pub pickled: Vec<u8>,
}

/// Why a call failed, after all retries.
#[allow(missing_docs)] // The messages document the fields.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The function raised.
    #[error("{}: {}", .0.class, .0.message)]
    Raised(RemoteException),
    /// Stopped execution.
    #[error("the call was cancelled, since the run was stopped")]
    Stopped,
    /// Exception of a signal handler in the host language.
    #[error("{0}")]
    Signal(Cause),
    /// The host language has no command to start processes.
    #[error("{reason}")]
    NoCommand { reason: String },
    /// Command that fails to start.
    #[error(
        "no worker process can be started ({program}: {error}); give on_workers=\"inline\", or run with workers=1"
    )]
    NotStarted { program: String, error: io::Error },
    /// Process that ended before it was ready.
    #[error(
        "a worker process {end} before it was ready; see its output above, or give on_workers=\"inline\" to call {function} \
         in this process"
    )]
    DiedAtStart { function: String, end: String },
    /// Process that ended, losing a function's state between calls.
    #[error(
        "the worker process of {function} {end}, so the state that {function} keeps between calls is lost{}; run the \
         plan again, or give on_workers=\"inline\" to call it in this process",
        kill_hint(.end)
    )]
    StateLost { function: String, end: String },
    /// Call that ended two processes.
    #[error(
        "the worker process of {function} {end}, and so did another that was given the same {unit}{}; fix {function}, or \
         give on_workers=\"inline\" to call it in this process",
        kill_hint(.end)
    )]
    DiedTwice {
        function: String,
        end: String,
        unit: &'static str,
    },
    /// Too many processes ended.
    #[error(
        "more than {MAX_DEATHS} worker processes died in this run, the last of {function}, which {end}{}; fix {function}, \
         or give on_workers=\"inline\" to call it in this process",
        kill_hint(.end)
    )]
    TooManyDeaths { function: String, end: String },
    /// Function that can no longer be serialized.
    #[error(
        "{function} {reason}, though it could when the run began; do not change its captured variables during the run, \
         or give on_workers=\"inline\""
    )]
    NotPortable { function: String, reason: String },
    /// Shared memory that cannot be allocated.
    #[error(
        "{bytes} bytes of shared memory for a worker process of {function} cannot be allocated ({error}); run with fewer \
         workers, or make the {units} smaller"
    )]
    OutOfMemory {
        function: String,
        bytes: u64,
        error: io::Error,
        units: &'static str,
    },
    /// Failed socket, or malformed message.
    #[error(
        "the worker process of {function} cannot be reached ({error}); give on_workers=\"inline\" to call it in this process"
    )]
    Unreachable { function: String, error: io::Error },
}

fn kill_hint(end: &str) -> &'static str {
    if end.ends_with("SIGKILL") {
        "; the system kills what takes too much memory: see its log, or run with fewer workers"
    } else {
        ""
    }
}
