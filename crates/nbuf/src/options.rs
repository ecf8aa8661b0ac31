//! Options of an execution.

use isochrony_tune::TuningMode;

use crate::framing::Framing;

/// Which parts of the read order are preserved: table 2 of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// None: buffers are executed in parallel and written as they finish (figure 6).
    None,
    /// Output is in the order of input; execution is parallel (figure 8).
    Output,
    /// Buffers are executed one by one in the order of input and written as they finish (figure 9).
    Execution,
    /// Execution and output are in the order of input (figure 7).
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

/// How several inputs become one stream. No record spans two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Merge {
    /// One after another.
    #[default]
    InOrder,
    /// A buffer of each in turn. Skips files, pipes and sockets with nothing to read now.
    Fair,
}

/// Options of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Preserved order.
    pub order: Order,
    /// Workers; None: as many as can be busy.
    pub workers: Option<usize>,
    /// Most bytes of buffers, staged output and processors together.
    pub memory: usize,
    /// Bytes that a buffer is filled with. None: 1 MiB, which fits in a core's cache, 4 MiB if the work is done in
    /// joins, or less to keep to `memory`. It decides where the stream is cut, which shows if a processor writes output
    /// per buffer.
    pub buffer: Option<usize>,
    /// What a record is.
    pub framing: Framing,
    /// How inputs are merged.
    pub merge: Merge,
    /// Fills the first buffers to 10, 20, 40 and 80 per cent only, so that work starts early.
    pub ramp: bool,
    /// Processes a buffer once it has a whole record and its input has nothing more to read now. The cuts then depend
    /// on timing.
    pub eager: bool,
    /// State spans that each worker records in its report.
    pub trace: usize,
    /// Changes the number of workers that take buffers, and the size of buffers, while the stream is processed. What the
    /// options fix stays as it is: `workers`, `buffer`, and the size of buffers where results or output would show it
    /// ([`BlockProcessor::is_cut_invariant`](crate::BlockProcessor::is_cut_invariant), [`Merge::Fair`]). A configuration
    /// has no replicas, and the bytes of a buffer as the capacity of its only link.
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
