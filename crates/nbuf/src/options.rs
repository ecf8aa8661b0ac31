//! Options of an execution.

use isochrony_tune::TuningMode;

use crate::framing::Framing;

/// Which parts of the read order are preserved: table 2 of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// None: buffers are executed in parallel and written as they finish (figure 6).
    None,
    /// Ordered output, parallel execution (figure 8).
    Output,
    /// Ordered execution, output as buffers finish (figure 9).
    Execution,
    /// Ordered execution and output (figure 7).
    #[default]
    Both,
}

impl Order {
    /// Whether buffers are executed one after another.
    #[must_use]
    pub fn executes_in_turn(self) -> bool {
        matches!(self, Self::Execution | Self::Both)
    }

    /// Whether output is in the order of input.
    #[must_use]
    pub fn writes_in_turn(self) -> bool {
        matches!(self, Self::Output | Self::Both)
    }
}

/// How inputs become one stream. No record spans two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Merge {
    /// One after another.
    #[default]
    InOrder,
    /// A buffer of each in turn. Skips files, pipes and sockets without data.
    Fair,
}

/// Options of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Preserved order.
    pub order: Order,
    /// Workers; None: as many as can be busy.
    pub workers: Option<usize>,
    /// Maximum bytes of buffers, staged output and processors together.
    pub memory: usize,
    /// Buffer bytes. None: 1 MiB, 4 MiB if the work is done in joins, or less to keep to `memory`. Decides where the
    /// stream is cut, which shows if a processor writes output per buffer.
    pub buffer: Option<usize>,
    /// Record format.
    pub framing: Framing,
    /// How inputs are merged.
    pub merge: Merge,
    /// Fills the first buffers to 10, 20, 40 and 80 per cent, to start early.
    pub ramp: bool,
    /// Processes a buffer once it has a whole record and its input has no more data now, so cuts depend on timing.
    pub eager: bool,
    /// State spans to record per worker.
    pub trace: usize,
    /// Tunes active workers and buffer size. Fixed are `workers` and `buffer` if given, and the buffer size where
    /// results or output would show it ([`BlockProcessor::is_cut_invariant`](crate::BlockProcessor::is_cut_invariant),
    /// [`Merge::Fair`]). A configuration has no replicas, and the bytes of a buffer as the capacity of its only link.
    pub tuning: Option<TuningMode>,
}

impl Default for Options {
    /// Both orders, 100 MB, strides of 1,024 bytes.
    fn default() -> Self {
        Self {
            order: Order::default(),
            workers: None,
            memory: 100_000_000,
            buffer: None,
            framing: Framing::Stride(1024),
            merge: Merge::default(),
            ramp: true,
            eager: false,
            trace: 0,
            tuning: None,
        }
    }
}
