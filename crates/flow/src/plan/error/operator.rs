//! Why an operator could not go on.

use std::ops::Range;

use isochrony_segment::SegmentError;
use isochrony_store::StoreError;

use super::Cause;

/// Why an operator could not go on. One word in size, since every operator call returns it or nothing.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct OpError(Box<OpErrorKind>);

/// Kinds of [`OpError`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpErrorKind {
    /// A segment could not be cut, joined or copied.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// An expression could not be run.
    #[error(transparent)]
    Expression(#[from] isochrony_expr::ExprError),
    /// The operator was given what its type does not promise.
    #[error(
        "got {got} where its type promised {expected}; this is an error of the operator before it"
    )]
    WrongItem {
        /// Promised.
        expected: &'static str,
        /// Given.
        got: &'static str,
    },
    /// An operator that promised to keep step did not.
    #[error(
        "this operator, or one of those in step before it, {did}, though it declared in_step(): pass every item on as it \
         came, or do not declare it"
    )]
    OutOfStep {
        /// What it did.
        did: &'static str,
    },
    /// The run's memory is used up.
    #[error(
        "{asked} bytes more would exceed the run's {cap} bytes of queued and escaped memory ({used} in use); \
         raise memory= or hold on to fewer results"
    )]
    MemoryCap {
        /// Bytes asked for.
        asked: u64,
        /// Bytes in use.
        used: u64,
        /// The cap.
        cap: u64,
    },
    /// What a run gathers is more than the machine has memory for.
    #[error(
        "{more} bytes more beside the {gathered} that the result has already do not fit into this machine's memory; keep it \
         in a signal (sink) or a file (sink_parquet, sink_wav), or collect less at a time (between, limit)"
    )]
    ResultTooLarge {
        /// Bytes that were gathered.
        gathered: u64,
        /// Bytes that come to them.
        more: u64,
    },
    /// Inputs of a fan-in drifted apart until their queues were full.
    #[error(
        "fan_in_starved: {ahead} is {skew} samples ahead of {behind}, and {queued} queued bytes reached the cap of {cap}; \
         raise memory=, or do not let one branch hold its items back"
    )]
    FanInStarved {
        /// The edge whose queue is full.
        ahead: String,
        /// The edge that all wait for.
        behind: String,
        /// By how much.
        skew: i64,
        /// Bytes in queues.
        queued: u64,
        /// The run's cap.
        cap: u64,
    },
    /// A loop that did not come round.
    #[error(
        "got index {got} fed back where {expected} was next; feed back one window, or sample, for each that comes in"
    )]
    LoopSkipped {
        /// First index of what must be fed back next.
        expected: i64,
        /// First index of what was.
        got: i64,
    },
    /// The stream ended, and what was to be fed back did not come.
    #[error(
        "indices {} to {} wait for what is fed back, and nothing is left that could be; feed back one window, or sample, for \
         each that comes in", waiting.start, waiting.end
    )]
    LoopStarved {
        /// Indices of what waits.
        waiting: Range<i64>,
    },
    /// More groups than memory was meant for.
    #[error(
        "{groups} groups would exceed most={most}; group by fewer or coarser keys, or raise most="
    )]
    TooManyGroups {
        /// Groups with the one that is too many.
        groups: u64,
        /// How many there may be.
        most: u64,
    },
    /// A stream whose time went back where rows are matched by time.
    #[error(
        "input {port} goes back by {by} {unit} at index {at}, where its clock was set back or the selection is not in \
         order; join one run, or one range, at a time"
    )]
    BackInTime {
        /// The input.
        port: usize,
        /// Where it went back.
        at: i64,
        /// How far.
        by: i64,
        /// What that counts.
        unit: &'static str,
    },
    /// Rows that do not fit together.
    #[error("rows: {0}; this is an error of the operator that made them")]
    Arrow(#[from] arrow_schema::ArrowError),
    /// User code or a source failed.
    #[error("{0}")]
    Failed(#[from] Cause),
    /// Somebody asked the run to stop.
    #[error("interrupted; run the plan again")]
    Interrupted,
    /// User code panicked.
    #[error("panicked: {message}; this is an error in the operator's code")]
    Panicked {
        /// What it said.
        message: String,
    },
    /// The system gave no thread to a run on several cores.
    #[error(
        "no thread could be begun for the run's workers; run it with workers=1, or raise the limit of threads"
    )]
    NoThread,
}

impl OpError {
    /// What kind of error it is.
    #[must_use]
    pub fn kind(&self) -> &OpErrorKind {
        &self.0
    }

    /// A stable name of the kind of error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match &*self.0 {
            OpErrorKind::Segment(error) => error.code(),
            OpErrorKind::Expression(error) => error.code(),
            OpErrorKind::WrongItem { .. } => "wrong_item",
            OpErrorKind::OutOfStep { .. } => "out_of_step",
            OpErrorKind::NoThread => "no_thread",
            OpErrorKind::MemoryCap { .. } => "memory_cap",
            OpErrorKind::ResultTooLarge { .. } => "result_too_large",
            OpErrorKind::FanInStarved { .. } => "fan_in_starved",
            OpErrorKind::LoopSkipped { .. } => "loop_skipped",
            OpErrorKind::LoopStarved { .. } => "loop_starved",
            OpErrorKind::TooManyGroups { .. } => "too_many_groups",
            OpErrorKind::BackInTime { .. } => "back_in_time",
            OpErrorKind::Arrow(_) => "arrow",
            OpErrorKind::Failed(_) => "operator_failed",
            OpErrorKind::Interrupted => "interrupted",
            OpErrorKind::Panicked { .. } => "operator_panicked",
        }
    }
}

impl<E: Into<OpErrorKind>> From<E> for OpError {
    #[cold]
    fn from(error: E) -> Self {
        Self(Box::new(error.into()))
    }
}

/// An error of a store as that of the operator or source that met it.
pub(crate) fn store_error(error: StoreError) -> OpError {
    OpErrorKind::Failed(Cause::from(error)).into()
}
