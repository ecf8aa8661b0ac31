//! Calls a function in worker processes, with a retry if a process dies.

use std::sync::Arc;
use std::thread::{self, ThreadId};

use isochrony_runtime::{Interrupt, Watch};

use crate::block::{BlockCall, BlockResult};
use crate::error::{CallError, Cause, ProcessError, RemoteException};
use crate::function::PortableFunction;
use crate::pool::ProcessPool;
use crate::process::WorkerProcess;
use crate::records::{RecordCall, RecordResult};
use crate::tasklet::{TaskletCall, TaskletResult};
use crate::wire::InterruptCheck;

/// For whom a function is called, and what ends the wait.
#[derive(Clone)]
pub struct CallContext {
    /// Number of the worker, which has a process of its own; None: the caller.
    pub worker: Option<usize>,
    /// The thread that handles signals, if it may call the function; workers may execute in it, too.
    pub caller: Option<ThreadId>,
    /// Requests the end of the execution.
    pub interrupt: Option<Interrupt>,
    /// Of the execution, polled in any thread; it checks signals itself.
    pub watch: Option<Watch>,
    /// Without a watch, called in the caller's thread. An error ends the execution.
    pub check_signals: fn() -> Result<(), Cause>,
}

impl CallContext {
    fn check(&self) -> Result<(), ProcessError> {
        if (self.interrupt.as_ref()).is_some_and(Interrupt::is_requested) {
            return Err(ProcessError::Stopped);
        }
        match &self.watch {
            Some(watch) if watch.poll() => Ok(()),
            Some(_) => Err(ProcessError::Stopped),
            None if self.is_in_caller() => (self.check_signals)().map_err(ProcessError::Signal),
            None => Ok(()),
        }
    }

    fn is_in_caller(&self) -> bool {
        self.caller == Some(thread::current().id())
    }
}

#[derive(Debug, Clone, Copy)]
enum WorkUnit {
    Block,
    Tasklet,
    Records,
}

impl WorkUnit {
    fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Tasklet => "tasklet",
            Self::Records => "buffer of records",
        }
    }

    /// What to make smaller if memory is short.
    fn remedy(self) -> &'static str {
        match self {
            Self::Block => "windows",
            Self::Tasklet => "tasklets",
            Self::Records => "buffers",
        }
    }
}

/// A function in worker processes, as used by one operator or tasklet.
pub struct RemoteFunction {
    pool: Arc<ProcessPool>,
    function: Arc<PortableFunction>,
    name: String,
    context: CallContext,
    unit: WorkUnit,
    /// A call may be repeated in another process.
    is_stateless: bool,
}

impl RemoteFunction {
    /// A function called with blocks.
    #[must_use]
    pub fn of_blocks(
        pool: Arc<ProcessPool>,
        function: Arc<PortableFunction>,
        name: &str,
        context: CallContext,
        is_stateless: bool,
    ) -> Self {
        let unit = WorkUnit::Block;
        Self::new(pool, function, name, context, unit, is_stateless)
    }

    /// A tasklet has its own outputs, so a call may be repeated.
    #[must_use]
    pub fn of_tasklet(
        pool: Arc<ProcessPool>,
        function: Arc<PortableFunction>,
        name: &str,
        context: CallContext,
    ) -> Self {
        Self::new(pool, function, name, context, WorkUnit::Tasklet, true)
    }

    /// A function of records of a byte stream. A call may be repeated.
    #[must_use]
    pub fn of_records(
        pool: Arc<ProcessPool>,
        function: Arc<PortableFunction>,
        name: &str,
        context: CallContext,
    ) -> Self {
        Self::new(pool, function, name, context, WorkUnit::Records, true)
    }

    fn new(
        pool: Arc<ProcessPool>,
        function: Arc<PortableFunction>,
        name: &str,
        context: CallContext,
        unit: WorkUnit,
        is_stateless: bool,
    ) -> Self {
        let remote = Self {
            pool,
            function,
            name: name.to_owned(),
            context,
            unit,
            is_stateless,
        };
        remote.warm_up();
        remote
    }

    /// So that loading is not counted for the first block, which reports failures. Not in the caller's thread, where
    /// signals could not end the execution meanwhile.
    fn warm_up(&self) {
        if !self.context.is_in_caller()
            && let Ok(mut process) = self.pool.take(self.context.worker, false)
        {
            match process.load(&self.function, &mut || self.context.check()) {
                Ok(()) => self.pool.give_back(process),
                Err(ProcessError::Died) => drop(self.pool.record_death(process)),
                Err(_) => {}
            }
        }
    }

    /// Calls the function with a block. Copies an expected result to `out`.
    ///
    /// # Errors
    /// The function raised, its process died, or the execution was stopped.
    pub fn call_block(
        &self,
        call: &BlockCall<'_>,
        out: &mut [u8],
    ) -> Result<BlockResult, CallError> {
        self.call(|process, function, check| {
            process.call(function, check, |connection, check| {
                call.call(connection, function.number(), out, check)
            })
        })
    }

    /// Like [`call_block`](Self::call_block), with a tasklet's inputs.
    pub fn call_tasklet(&self, call: &TaskletCall<'_>) -> Result<TaskletResult, CallError> {
        self.call(|process, function, check| {
            process.call(function, check, |connection, check| {
                call.call(connection, function.number(), check)
            })
        })
    }

    /// As [`call_block`](Self::call_block), with records. A record's exception is in the result.
    pub fn call_records(&self, call: &RecordCall<'_>) -> Result<RecordResult, CallError> {
        self.call(|process, function, check| {
            process.call(function, check, |connection, check| {
                call.call(connection, function.number(), check)
            })
        })
    }

    fn call<T>(
        &self,
        mut call: impl FnMut(
            &mut WorkerProcess,
            &Arc<PortableFunction>,
            InterruptCheck<'_>,
        ) -> Result<Result<T, RemoteException>, ProcessError>,
    ) -> Result<T, CallError> {
        let mut is_retry = false;
        loop {
            let mut process = (self.pool).take(self.context.worker, self.is_stateless)?;
            process.holds_state |= !self.is_stateless;
            match call(&mut process, &self.function, &mut || self.context.check()) {
                Ok(answer) => {
                    self.pool.give_back(process);
                    return answer.map_err(CallError::Raised);
                }
                Err(ProcessError::Died) => self.after_death(process, &mut is_retry)?,
                Err(error) => return Err(self.failure(error)),
            }
        }
    }

    fn after_death(&self, process: WorkerProcess, is_retry: &mut bool) -> Result<(), CallError> {
        let function = self.name.clone();
        let (was_ready, was_asked) = {
            let connection = process.connection();
            (connection.is_ready(), connection.was_asked())
        };
        let (end, may_replace) = self.pool.record_death(process);
        if !was_ready {
            return Err(CallError::DiedAtStart { function, end });
        }
        // A process that died idle did not die of this call.
        if may_replace && self.is_stateless && !(*is_retry && was_asked) {
            *is_retry |= was_asked;
            return Ok(());
        }
        Err(if !self.is_stateless {
            CallError::StateLost { function, end }
        } else if may_replace {
            let unit = self.unit.name();
            CallError::DiedTwice {
                function,
                end,
                unit,
            }
        } else {
            CallError::TooManyDeaths { function, end }
        })
    }

    fn failure(&self, error: ProcessError) -> CallError {
        let function = self.name.clone();
        match error {
            ProcessError::Died => CallError::Unreachable {
                function,
                error: std::io::ErrorKind::BrokenPipe.into(),
            },
            ProcessError::Stopped => CallError::Stopped,
            ProcessError::Signal(cause) => CallError::Signal(cause),
            ProcessError::NotPortable(reason) => CallError::NotPortable { function, reason },
            ProcessError::OutOfMemory { bytes, error } => CallError::OutOfMemory {
                function,
                bytes,
                error,
                units: self.unit.remedy(),
            },
            ProcessError::Io(error) => CallError::Unreachable { function, error },
        }
    }
}
