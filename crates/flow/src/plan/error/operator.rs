//! Errors of operators while a plan is executed.

use std::ops::Range;

use isochrony_segment::SegmentError;
use isochrony_store::StoreError;

use super::Cause;

/// An operator's error, one word in size: every call may return it.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct OpError(Box<OpErrorKind>);

/// An operator's error on another host, as text.
#[derive(Debug, thiserror::Error)]
#[error("{text} (on {host})")]
pub struct RemoteFailure {
    /// Its code there.
    pub(crate) code: String,
    /// Its text there.
    pub(crate) text: String,
    /// The host.
    pub(crate) host: String,
}

impl RemoteFailure {
    /// Codes of errors that tasks can end with.
    const CODES: [&str; 14] = [
        "wrong_item",
        "short_window",
        "out_of_step",
        "memory_cap",
        "result_too_large",
        "fan_in_starved",
        "too_many_groups",
        "back_in_time",
        "row_without_time",
        "arrow",
        "interrupted",
        "operator_panicked",
        "out_of_memory",
        "dtype_mismatch",
    ];

    fn code(&self) -> &'static str {
        let known = Self::CODES.into_iter().find(|code| *code == self.code);
        known.unwrap_or("operator_failed")
    }
}

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
    /// An item of another type than its port.
    #[error(
        "got {got}, but the type of the input is {expected}; correct the operator before this one, which emits {got}"
    )]
    WrongItem {
        /// What the port takes.
        expected: &'static str,
        /// The item.
        got: &'static str,
    },
    /// A short window, as `tail="keep"` leaves, where all need the same number of values.
    #[error(
        "a short window of {got} values instead of {width}, as rewindow(tail=\"keep\") keeps the last one of a gap-free \
         range; use tail=\"drop\", or what takes windows of any length: blocks(), each(...), stats(...), or \
         rows(...) and map(...) of one value a window"
    )]
    ShortWindow {
        /// Values of the window.
        got: usize,
        /// Values of a whole window.
        width: usize,
    },
    /// An operator in step did not forward an item unchanged.
    #[error(
        "this operator, or one in step before it, {did} although it declares in_step(); forward every item unchanged, or \
         remove the declaration"
    )]
    OutOfStep {
        /// What it did.
        did: &'static str,
    },
    /// The memory budget is used up.
    #[error(
        "{asked} more bytes would exceed the limit of {cap} bytes for queues and results ({used} in use); raise memory=, or \
         keep fewer results"
    )]
    MemoryCap {
        /// Bytes asked for.
        asked: u64,
        /// Bytes in use.
        used: u64,
        /// The limit.
        cap: u64,
    },
    /// The result does not fit into the machine's memory.
    #[error(
        "a result of {gathered} bytes needs {more} more, which do not fit into this machine's memory; write it to a signal \
         (sink) or a file (sink_parquet, sink_wav), or collect less at a time (between, limit)"
    )]
    ResultTooLarge {
        /// Bytes of the result so far.
        gathered: u64,
        /// Further bytes.
        more: u64,
    },
    /// One input of a fan-in ran ahead of another until the queues were full.
    #[error(
        "fan_in_starved: {ahead} is {skew} samples ahead of {behind}, and {queued} queued bytes reached the limit of {cap}; \
         raise memory=, or shorten the windows and delays of the branch that is behind"
    )]
    FanInStarved {
        /// The edge whose queue is full.
        ahead: String,
        /// The edge whose items are missing.
        behind: String,
        /// Samples by which the one is ahead.
        skew: i64,
        /// Bytes in queues.
        queued: u64,
        /// The execution's limit.
        cap: u64,
    },
    /// What was fed back is not the loop's next item.
    #[error(
        "the feedback loop returned index {got}, but index {expected} is next; return one window, or sample, for each that \
         enters the loop"
    )]
    LoopSkipped {
        /// First index that must be fed back next.
        expected: i64,
        /// First index that was fed back.
        got: i64,
    },
    /// All sources ended while a loop waited for feedback.
    #[error(
        "indices {} to {} wait for the feedback loop, but all sources have ended; return one window, or sample, for each that \
         enters the loop", waiting.start, waiting.end
    )]
    LoopStarved {
        /// Indices of the waiting items.
        waiting: Range<i64>,
    },
    /// More groups than allowed.
    #[error(
        "{groups} groups are more than most={most} allows; group by fewer or coarser keys, or raise most="
    )]
    TooManyGroups {
        /// Groups, with the one too many.
        groups: u64,
        /// Most groups allowed.
        most: u64,
    },
    /// A stream's time decreases where rows are matched or grouped by time.
    #[error(
        "input {port} jumps back by {by} {unit} at index {at}: its clock was set back, or the selection is not in order; \
         read one run, or one range, at a time"
    )]
    BackInTime {
        /// The input.
        port: usize,
        /// Where it jumps back.
        at: i64,
        /// How far.
        by: i64,
        /// The unit of `by`.
        unit: &'static str,
    },
    /// A row without civil time where windows of civil time are formed.
    #[error(
        "the row at index {at} has no civil time, so it belongs to no window; leave such rows out with \
         filter(lambda r: r.time > 0), or give lengths in samples, which count indices"
    )]
    RowWithoutTime {
        /// Its first index.
        at: i64,
    },
    /// Columns do not match the port's fields.
    #[error(
        "the rows do not match the columns declared for them ({0}); correct the operator that emits these rows"
    )]
    Arrow(#[from] arrow_schema::ArrowError),
    /// User code or a source failed.
    #[error("{0}")]
    Failed(#[from] Cause),
    /// The execution was interrupted.
    #[error("interrupted; run the plan again")]
    Interrupted,
    /// User code panicked.
    #[error(
        "the operator's code crashed: {message}; correct it if it is yours, else report this as a bug of Isochrony"
    )]
    Panicked {
        /// The panic's message.
        message: String,
    },
    /// An earlier stage failed; its error replaces this one before the execution ends.
    #[error("stage {stage} of the plan failed")]
    StageFailed {
        /// The stage.
        stage: usize,
        /// Whether an operator failed, not memory.
        is_operator_error: bool,
    },
    /// An operator failed on another host of a cluster.
    #[error(transparent)]
    Remote(#[from] RemoteFailure),
    /// No worker thread could be started.
    #[error(
        "the system refuses to start threads for the workers; set workers=1, or raise the limit of threads (ulimit -u)"
    )]
    NoThread,
}

impl OpError {
    /// The kind of error.
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
            OpErrorKind::ShortWindow { .. } => "short_window",
            OpErrorKind::OutOfStep { .. } => "out_of_step",
            OpErrorKind::NoThread => "no_thread",
            OpErrorKind::StageFailed { .. } => "stage_failed",
            OpErrorKind::MemoryCap { .. } => "memory_cap",
            OpErrorKind::ResultTooLarge { .. } => "result_too_large",
            OpErrorKind::FanInStarved { .. } => "fan_in_starved",
            OpErrorKind::LoopSkipped { .. } => "loop_skipped",
            OpErrorKind::LoopStarved { .. } => "loop_starved",
            OpErrorKind::TooManyGroups { .. } => "too_many_groups",
            OpErrorKind::BackInTime { .. } => "back_in_time",
            OpErrorKind::RowWithoutTime { .. } => "row_without_time",
            OpErrorKind::Arrow(_) => "arrow",
            OpErrorKind::Failed(_) => "operator_failed",
            OpErrorKind::Interrupted => "interrupted",
            OpErrorKind::Panicked { .. } => "operator_panicked",
            OpErrorKind::Remote(failure) => failure.code(),
        }
    }
}

impl<E: Into<OpErrorKind>> From<E> for OpError {
    #[cold]
    fn from(error: E) -> Self {
        Self(Box::new(error.into()))
    }
}

pub(crate) fn store_error(error: StoreError) -> OpError {
    if let StoreError::Interrupted { .. } = error {
        return OpErrorKind::Interrupted.into();
    }
    OpErrorKind::Failed(Cause::from(error)).into()
}
