//! The worker processes of one execution.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::error::{CallError, MAX_DEATHS};
use crate::function::{HostFunction, MAX_EAGER_PAYLOAD, PortableFunction};
use crate::process::{StartCommand, WorkerProcess};
use crate::report::ProcessReport;

type CommandResult = Result<StartCommand, String>;

type PortableResult = Result<Arc<PortableFunction>, String>;

/// Worker processes of an execution, and their functions.
pub struct ProcessPool {
    command: LazyLock<CommandResult, Box<dyn FnOnce() -> CommandResult + Send>>,
    state: Mutex<PoolState>,
}

#[derive(Default)]
struct PoolState {
    idle: Vec<WorkerProcess>,
    deaths: usize,
    ended: Vec<ProcessReport>,
    /// By id. Functions are kept, so no other gets the id.
    functions: HashMap<usize, (Arc<dyn HostFunction>, PortableResult)>,
}

impl ProcessPool {
    /// Starts no process. `command` is called once, before the first function is serialized; its error says why none
    /// can be started.
    pub fn new(
        command: impl FnOnce() -> Result<StartCommand, String> + Send + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            command: LazyLock::new(Box::new(command)),
            state: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A function as of its first use.
    ///
    /// # Errors
    /// Why it cannot be sent to a worker process.
    pub fn function(
        &self,
        function: Arc<dyn HostFunction>,
    ) -> Result<Arc<PortableFunction>, String> {
        self.portable(function, None)
    }

    /// Like [`function`](Self::function), for a tasklet, which [releases](PortableFunction::release) it at its end.
    /// Keeps only small payloads before the first call, since each tasklet may have its own.
    ///
    /// # Errors
    /// Why it cannot be sent to a worker process.
    pub fn tasklet_function(
        &self,
        function: Arc<dyn HostFunction>,
    ) -> Result<Arc<PortableFunction>, String> {
        self.portable(function, Some(MAX_EAGER_PAYLOAD))
    }

    fn portable(
        &self,
        function: Arc<dyn HostFunction>,
        max_payload: Option<usize>,
    ) -> PortableResult {
        let acquire = |portable: &PortableResult| {
            let portable = portable.clone();
            portable.inspect(|function| function.acquire())
        };
        if let Err(reason) = &*self.command {
            return Err(format!("cannot travel to a worker process ({reason})"));
        }
        let id = function.id();
        if let Some((_, portable)) = self.lock().functions.get(&id) {
            return acquire(portable);
        }
        // Without the lock, as serializing may wait for the interpreter.
        let portable = PortableFunction::new(Arc::clone(&function), max_payload).map(Arc::new);
        let mut state = self.lock();
        let (_, portable) = state.functions.entry(id).or_insert((function, portable));
        acquire(portable)
    }

    /// The process of a worker, started if there is none. `shares`: rather than start one, one that is idle and holds
    /// no state.
    pub(crate) fn take(
        &self,
        worker: Option<usize>,
        shares: bool,
    ) -> Result<WorkerProcess, CallError> {
        let mut state = self.lock();
        let own = (state.idle.iter()).position(|process| process.report().worker == worker);
        let other = || (state.idle.iter()).position(|process| shares && !process.holds_state);
        if let Some(at) = own.or_else(other) {
            return Ok(state.idle.swap_remove(at));
        }
        drop(state);
        let command = self.command.as_ref();
        let command = command.map_err(|reason| CallError::NoCommand {
            reason: reason.clone(),
        })?;
        WorkerProcess::start(command, worker).map_err(|error| CallError::NotStarted {
            program: command.program.clone(),
            error,
        })
    }

    pub(crate) fn give_back(&self, process: WorkerProcess) {
        self.lock().idle.push(process);
    }

    /// Returns how the process ended, and whether it may be replaced.
    pub(crate) fn record_death(&self, process: WorkerProcess) -> (String, bool) {
        let (report, end) = process.into_report();
        let mut state = self.lock();
        state.ended.push(report);
        state.deaths += 1;
        (end, state.deaths <= MAX_DEATHS)
    }

    /// Ends all idle processes. Returns all reports by worker.
    pub fn close(&self) -> Vec<ProcessReport> {
        let idle = std::mem::take(&mut self.lock().idle);
        idle.iter().for_each(WorkerProcess::request_exit);
        idle.iter().for_each(WorkerProcess::wait);
        let mut reports = std::mem::take(&mut self.lock().ended);
        reports.extend(idle.iter().map(|process| process.report().clone()));
        reports.sort_by_key(|report| report.worker);
        reports
    }
}
