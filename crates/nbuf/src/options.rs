//! What a run is told.

use crate::framing::Framing;

/// What of the order of reading the caller relies on: table 2 of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Nothing: buffers are executed in parallel and written as they come (figure 6).
    None,
    /// Output is in the order of input; execution is parallel (figure 8).
    Output,
    /// Buffers are executed one after another in the order of input; output is written as it comes (figure 9).
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

/// How several inputs become one stream. A record is never made of two inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Merge {
    /// One after another.
    #[default]
    InOrder,
    /// A buffer of each in turn; inputs that have nothing yet are passed over, if they are files, pipes or sockets.
    Fair,
}

/// How a run is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What of the order of reading is kept.
    pub order: Order,
    /// How many workers; None: as many as can be busy.
    pub workers: Option<usize>,
    /// Bytes that buffers, staged output and processors may take together.
    pub memory: usize,
    /// Bytes that a buffer is filled with. None: 1 MiB, which stays in a core's cache (4 MiB for native processors
    /// that take buffers one after another, as SHA-256 does), or less to keep to `memory`. It
    /// decides where a stream is cut, which shows where a processor's output is made buffer by buffer.
    pub buffer: Option<usize>,
    /// What a record is.
    pub framing: Framing,
    /// How inputs are merged.
    pub merge: Merge,
    /// Whether the first buffers are filled by 10, 20, 40 and 80 per cent only, so that work starts early.
    pub ramp: bool,
    /// Whether a buffer is processed as soon as it has a whole record and its input has no more yet, instead of being
    /// filled. Then the cuts depend on time.
    pub eager: bool,
    /// How many visits of states each worker notes in its report.
    pub trace: usize,
}

impl Default for Options {
    /// Order kept, 100 MB, strides of 1,024 bytes.
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
        }
    }
}
