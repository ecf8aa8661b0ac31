//! [`RunContext`]: run options for operators that call Python.

use std::any::Any;
use std::sync::Arc;
use std::thread::{self, ThreadId};

use isochrony_flow::RunOptions;
use isochrony_workers::ProcessPool;

use super::nesting::Nesting;

pub(crate) struct RunContext {
    caller: ThreadId,
    processes: Option<Arc<ProcessPool>>,
    nesting: Arc<Nesting>,
}

impl RunContext {
    /// In the caller's thread.
    pub(super) fn new(processes: Option<Arc<ProcessPool>>, nesting: Arc<Nesting>) -> Self {
        Self {
            caller: thread::current().id(),
            processes,
            nesting,
        }
    }

    fn of(run: &RunOptions<'_>) -> Option<Arc<Self>> {
        let shared: Arc<dyn Any + Send + Sync> = run.shared?.clone();
        shared.downcast().ok()
    }

    /// The thread that started the run, or this one.
    pub(crate) fn caller(run: &RunOptions<'_>) -> ThreadId {
        Self::of(run).map_or_else(|| thread::current().id(), |context| context.caller)
    }

    pub(crate) fn processes(run: &RunOptions<'_>) -> Option<Arc<ProcessPool>> {
        Self::of(run)?.processes.clone()
    }

    pub(crate) fn nesting(run: &RunOptions<'_>) -> Arc<Nesting> {
        Self::of(run).map_or_else(Nesting::current, |context| Arc::clone(&context.nesting))
    }
}
