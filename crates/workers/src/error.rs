//! Why a call in a worker process gave no result.

use std::io;

pub use isochrony_runtime::Cause;

/// Most deaths of processes that an execution survives: more are not accidents.
pub(crate) const MAX_DEATHS: usize = 8;

/// Why a process gave no answer.
#[derive(Debug)]
pub(crate) enum ProcessError {
    /// The process ended.
    Died,
    /// The execution was stopped.
    Stopped,
    /// A signal handler of the host language raised this.
    Signal(Cause),
    /// The function can no longer be serialized.
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

/// An exception that a function raised in a worker process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteException {
    /// The process.
    pub pid: u32,
    /// It was raised while the function was loaded, not by a call.
    pub while_loading: bool,
    /// The traceback as text.
    pub traceback: String,
    /// Name of the exception's class.
    pub class: String,
    /// Its message.
    pub message: String,
    /// The exception itself; empty if it could not be pickled.
    pub pickled: Vec<u8>,
}

/// Why a call gave no result, after all retries.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The function raised an exception.
    #[error("{}: {}", .0.class, .0.message)]
    Raised(RemoteException),
    /// The execution was stopped.
    #[error("it was stopped with the run")]
    Stopped,
    /// A signal handler of the host language raised this meanwhile.
    #[error("{0}")]
    Signal(Cause),
    /// No process could be started, since the host language has no command for it.
    #[error("{reason}")]
    NoCommand {
        /// Why not.
        reason: String,
    },
    /// The command does not start.
    #[error(
        "no worker process can be started ({program}: {error}); give on_workers=\"inline\", or run with workers=1"
    )]
    NotStarted {
        /// What was to be executed.
        program: String,
        /// The system's error.
        error: io::Error,
    },
    /// A process ended before it could take calls.
    #[error(
        "a worker process {end} before it was ready; what it printed says why; give on_workers=\"inline\" to call \
         {function} in this process"
    )]
    DiedAtStart {
        /// The function, as printed.
        function: String,
        /// How it ended.
        end: String,
    },
    /// A process ended, and with it the state that a function keeps between calls.
    #[error(
        "the worker process of {function} {end}, and what {function} remembered is lost{}; run the plan again, or give \
         on_workers=\"inline\" to call it in this process",
        kill_hint(.end)
    )]
    StateLost {
        /// The function, as printed.
        function: String,
        /// How it ended.
        end: String,
    },
    /// The same call ended two processes.
    #[error(
        "the worker process of {function} {end}, and so did another that was given the same {unit}{}; mend {function}, or \
         give on_workers=\"inline\" to call it in this process",
        kill_hint(.end)
    )]
    DiedTwice {
        /// The function, as printed.
        function: String,
        /// How the second one ended.
        end: String,
        /// What one call works on.
        unit: &'static str,
    },
    /// Too many processes ended.
    #[error(
        "more than {MAX_DEATHS} worker processes died in this run, the last of {function}, which {end}{}; mend {function}, \
         or give on_workers=\"inline\" to call it in this process",
        kill_hint(.end)
    )]
    TooManyDeaths {
        /// The function, as printed.
        function: String,
        /// How the last one ended.
        end: String,
    },
    /// The function could be serialized once and cannot any more.
    #[error(
        "{function} {reason}, though it could when the run began; leave what it encloses as it is meanwhile, or give \
         on_workers=\"inline\""
    )]
    NotPortable {
        /// The function, as printed.
        function: String,
        /// Why not.
        reason: String,
    },
    /// There is no memory to share.
    #[error(
        "{bytes} bytes of shared memory for a worker process of {function} cannot be had ({error}); run with fewer workers, \
         or cut smaller {units}"
    )]
    OutOfMemory {
        /// The function, as printed.
        function: String,
        /// How much is missing.
        bytes: u64,
        /// The system's error.
        error: io::Error,
        /// What to cut smaller.
        units: &'static str,
    },
    /// The socket failed, or a message on it was not understood.
    #[error(
        "the worker process of {function} cannot be reached ({error}); give on_workers=\"inline\" to call it in this process"
    )]
    Unreachable {
        /// The function, as printed.
        function: String,
        /// What failed.
        error: io::Error,
    },
}

fn kill_hint(end: &str) -> &'static str {
    if end.ends_with("SIGKILL") {
        "; the system kills what takes too much memory: see its log, or run with fewer workers"
    } else {
        ""
    }
}
