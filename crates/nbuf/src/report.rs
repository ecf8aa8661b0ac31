//! What a run did.

use std::time::Duration;

use isochrony_runtime::WorkerReport;

/// Seconds of a worker in the states of the paper's figure 7.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct States {
    /// Waiting for the turn to read.
    pub read_wait: Duration,
    /// Reading.
    pub read: Duration,
    /// Waiting for the turn to execute, and to join what must be joined in stream order.
    pub execute_wait: Duration,
    /// Executing.
    pub execute: Duration,
    /// Waiting for the turn to write.
    pub write_wait: Duration,
    /// Writing.
    pub write: Duration,
}

impl States {
    /// With the time of another.
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

    /// Time in which it worked.
    #[must_use]
    pub fn busy(&self) -> Duration {
        self.read + self.execute + self.write
    }

    /// Time in which it waited.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.read_wait + self.execute_wait + self.write_wait
    }
}

/// What one worker did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StreamWorkerReport {
    /// Buffers that it carried from reading to writing, and the sums of its states.
    pub work: WorkerReport,
    /// Bytes in the buffers.
    pub bytes: u64,
    /// Where its time went.
    pub states: States,
    /// When it was in which state, if [`Options::trace`](crate::Options) asks for it.
    pub trace: Vec<Visit>,
}

/// A state of the paper's diagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Reading.
    Read,
    /// Executing.
    Execute,
    /// Joining in stream order.
    Join,
    /// Writing.
    Write,
}

/// One buffer in one state of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit {
    /// The number of the buffer, in the order of reading.
    pub buffer: u64,
    /// The state.
    pub state: State,
    /// Since the run began.
    pub start: Duration,
    /// Since the run began.
    pub end: Duration,
}

/// Bytes of one input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InputReport {
    /// What it is called.
    pub name: String,
    /// Bytes that were read and processed.
    pub bytes: u64,
    /// Bytes of its last record, if that is shorter than the framing says.
    pub short_record: Option<u64>,
    /// Whether it was read to its end.
    pub ended: bool,
}

/// Bytes of one output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputReport {
    /// What it is called.
    pub name: String,
    /// Bytes that were written.
    pub bytes: u64,
}

/// What a run did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Whether the run came to the end of its inputs without an error. If not, outputs are partial.
    pub complete: bool,
    /// Bytes that were processed.
    pub bytes: u64,
    /// Records that were processed.
    pub records: u64,
    /// Buffers that were processed.
    pub buffers: u64,
    /// Bytes that a buffer is filled with once the run is under way.
    pub buffer_bytes: usize,
    /// Most bytes that the run's buffers held at once, as far as it can know: what processors say they need included.
    pub peak_bytes: u64,
    /// From beginning to end.
    pub elapsed: Duration,
    /// Each input.
    pub inputs: Vec<InputReport>,
    /// Each output.
    pub outputs: Vec<OutputReport>,
    /// Each worker.
    pub workers: Vec<StreamWorkerReport>,
}

impl Report {
    /// The time of all workers together.
    #[must_use]
    pub fn states(&self) -> States {
        let workers = self.workers.iter();
        workers.fold(States::default(), |all, one| all.plus(&one.states))
    }
}
