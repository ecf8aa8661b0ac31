//! [`RunContext`]: run options for operators that call Python.

use std::any::Any;
use std::sync::Arc;

use isochrony_flow::RunOptions;
use isochrony_workers::ProcessPool;

use super::nesting::Nesting;

pub(crate) struct RunContext {
    processes: Option<Arc<ProcessPool>>,
    nesting: Arc<Nesting>,
}

impl RunContext {
    pub(super) fn new(processes: Option<Arc<ProcessPool>>, nesting: Arc<Nesting>) -> Self {
        Self { processes, nesting }
    }

    fn of(run: &RunOptions<'_>) -> Option<Arc<Self>> {
        let shared: Arc<dyn Any + Send + Sync> = run.shared?.clone();
        shared.downcast().ok()
    }

    pub(crate) fn processes(run: &RunOptions<'_>) -> Option<Arc<ProcessPool>> {
        Self::of(run)?.processes.clone()
    }

    pub(crate) fn nesting(run: &RunOptions<'_>) -> Arc<Nesting> {
        Self::of(run).map_or_else(Nesting::current, |context| Arc::clone(&context.nesting))
    }
}
