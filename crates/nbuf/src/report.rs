use std::time::Duration;

use isochrony_runtime::WorkerReport;
use isochrony_tune::TuningReport;

/// Time in each state of the paper's figure 7.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StateTimes {
    /// Waiting to read.
    pub read_wait: Duration,
    /// Reading.
    pub read: Duration,
    /// Waiting to execute and to join.
    pub execute_wait: Duration,
    /// Executing and joining.
    pub execute: Duration,
    /// Waiting to write.
    pub write_wait: Duration,
    /// Writing.
    pub write: Duration,
}

impl StateTimes {
    /// Sum of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            read_wait: self.read_wait + other.read_wait,
            read: self.read + other.read,
            execute_wait: self.execute_wait + other.execute_wait,
            execute: self.execute + other.execute,
            write_wait: self.write_wait + other.write_wait,
            write: self.write + other.write,
        }
    }

    /// Time spent working.
    #[must_use]
    pub fn busy(&self) -> Duration {
        self.read + self.execute + self.write
    }

    /// Time spent waiting.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.read_wait + self.execute_wait + self.write_wait
    }
}

/// Statistics of a worker.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StreamWorkerReport {
    /// Number of buffers, and sums of `states`.
    pub work: WorkerReport,
    /// Bytes in the buffers.
    pub bytes: u64,
    /// Time in each state.
    pub states: StateTimes,
    /// Its first spans, up to [`Options::trace`](crate::Options).
    pub trace: Vec<StateSpan>,
}

/// A state of the paper's diagrams.
#[allow(missing_docs)] // The names say what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerState {
    Read,
    Execute,
    /// In stream order.
    Join,
    Write,
}

/// One buffer in one state of a worker. Times count from the start of the execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateSpan {
    /// Buffer number in read order.
    pub buffer: u64,
    /// The state.
    pub state: WorkerState,
    /// Start.
    pub start: Duration,
    /// End.
    pub end: Duration,
}

/// Statistics of an input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InputReport {
    /// Its name.
    pub name: String,
    /// Bytes read and processed.
    pub bytes: u64,
    /// Bytes of its last record, if short.
    pub short_record: Option<u64>,
    /// Whether it was read to its end.
    pub ended: bool,
}

/// Statistics of an output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputReport {
    /// Its name.
    pub name: String,
    /// Bytes written.
    pub bytes: u64,
}

/// Report of an execution.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Whether all inputs were completely read. If not, outputs are partial.
    pub complete: bool,
    /// Bytes processed.
    pub bytes: u64,
    /// Records processed.
    pub records: u64,
    /// Buffers processed.
    pub buffers: u64,
    /// Buffer bytes after the ramp.
    pub buffer_bytes: usize,
    /// Upper bound of memory at once.
    pub peak_bytes: u64,
    /// Wall-clock time.
    pub elapsed: Duration,
    /// One per input.
    pub inputs: Vec<InputReport>,
    /// One per output.
    pub outputs: Vec<OutputReport>,
    /// One per worker.
    pub workers: Vec<StreamWorkerReport>,
    /// Tuning results, if tuned.
    pub tuning: Option<TuningReport>,
}

impl Report {
    /// Sum of all workers' state times.
    #[must_use]
    pub fn states(&self) -> StateTimes {
        let workers = self.workers.iter();
        workers.fold(StateTimes::default(), |all, one| all.plus(&one.states))
    }
}
