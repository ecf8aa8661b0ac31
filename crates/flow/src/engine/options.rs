//! How a plan is run.

use std::any::Any;
use std::sync::Arc;

use isochrony_runtime::{Interrupt, Progress, Watch};
use serde::{Deserialize, Serialize};

use super::budget::{ExecutionMemory, MemoryHandle};
use super::control::Control;

/// Most bytes of queued and escaped memory, unless the caller says otherwise.
pub const DEFAULT_MEMORY: u64 = 1 << 30;

/// Bytes that a task reads, unless the caller says otherwise: milliseconds of work.
pub const DEFAULT_TASK: u64 = 4 << 20;

/// How a plan is run. Bindings read the plain values by name from JSON; what borrows is set by them.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RunOptions<'a> {
    /// Most bytes that may wait in queues and in blocks that operators' results keep, of all threads of the run together.
    pub memory: u64,
    /// Checked between operator calls.
    #[serde(skip)]
    pub interrupt: Option<&'a Interrupt>,
    /// Polled in the run's own thread as long as operator calls are shorter than its interval: before an item of a source, or
    /// where an operator emits one. What it takes is not counted to an operator.
    #[serde(skip)]
    pub watch: Option<&'a Watch>,
    /// Whether the plan is rewritten first; results are the same.
    pub optimise: bool,
    /// Counts the samples that sources give, burst by burst. The total is unknown if one source does not know its own.
    #[serde(skip)]
    pub progress: Option<&'a Progress>,
    /// By which parameters are changed between bursts.
    #[serde(skip)]
    pub control: Option<&'a Control>,
    /// Threads that do what can be done for a portion of a recording at a time, beside the caller's, which does the rest; 1:
    /// all is done in the caller's, unless where portions are cut shows in the results, as in those of sums
    /// ([`Contract::Reducible`](crate::Contract)). These are the same bits for any number.
    pub workers: usize,
    /// Bytes of samples that a task of a worker reads, about, beside what completes its windows; less where memory is short
    /// and it does not show where tasks are cut.
    pub task: u64,
    /// By how much results may differ from those of one pass, against the largest values that go into them, beside a rounding
    /// of their type: what operators that settle ([`Contract::Settling`](crate::Contract)) need so that tasks can do them.
    /// NaN and infinities then reach as far as the task that they are in, where they would have reached to the end of the
    /// stretch. 0: not at all. Whatever it is, results are the same bits for any number of workers, one included: where it lets
    /// such an operator into tasks, one worker works in tasks, too.
    pub tolerance: f64,
    /// Keeps each worker on a core of its own.
    pub pin: bool,
    /// Which worker it is, from 0 on; None in the caller's thread.
    #[serde(skip)]
    pub worker: Option<usize>,
    /// What operators that hold something of this process share for as long as the run lasts.
    #[serde(skip)]
    pub shared: Option<&'a Arc<dyn Any + Send + Sync>>,
    /// The memory that it shares with other threads; None: it has all of it.
    #[serde(skip)]
    pub(crate) shared_memory: Option<&'a MemoryHandle>,
}

impl RunOptions<'_> {
    /// Its access to the run's memory.
    pub(crate) fn memory_handle(&self) -> MemoryHandle {
        let own = || MemoryHandle {
            memory: Arc::new(ExecutionMemory::new(self.memory)),
            reclaimer: None,
        };
        self.shared_memory.cloned().unwrap_or_else(own)
    }
}

impl Default for RunOptions<'_> {
    fn default() -> Self {
        Self {
            memory: DEFAULT_MEMORY,
            interrupt: None,
            watch: None,
            optimise: true,
            progress: None,
            control: None,
            workers: 1,
            task: DEFAULT_TASK,
            tolerance: 0.0,
            pin: false,
            worker: None,
            shared: None,
            shared_memory: None,
        }
    }
}
