//! Errors of operators during execution.

use std::ops::Range;

use isochrony_segment::SegmentError;
use isochrony_store::StoreError;

use super::Cause;

/// An operator's error. Boxed, so that the `Result` that each call of an operator returns stays small.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct OpError(Box<OpErrorKind>);

/// Error of an operator on another host.
#[derive(Debug, thiserror::Error)]
#[error("{text} (on {host})")]
pub struct RemoteFailure {
    /// Stable code as sent by the host.
    pub(crate) code: String,
    /// Message as sent by the host.
    pub(crate) text: String,
    /// Name of the worker.
    pub(crate) host: String,
}

impl RemoteFailure {
    /// Codes that keep their meaning when they come from another host; all others become `operator_failed`.
    const CODES: [&str; 18] = [
        "wrong_item",
        "short_window",
        "out_of_step",
        "memory_cap",
        "result_too_large",
        "fan_in_starved",
        "loop_skipped",
        "loop_starved",
        "too_many_groups",
        "back_in_time",
        "row_without_time",
        "arrow",
        "interrupted",
        "operator_panicked",
        "stage_failed",
        "no_thread",
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
    /// Segment that could not be cut, joined or copied.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// Expression that failed.
    #[error(transparent)]
    Expression(#[from] isochrony_expr::ExprError),
    /// Item of another type than its port.
    #[error(
        "got {got}, but the type of the input is {expected}; correct the operator before this one, which emits {got}"
    )]
    WrongItem {
        /// Expected type.
        expected: &'static str,
        /// Item type.
        got: &'static str,
    },
    /// Short window where all need the same length.
    #[error(
        "a window of {got} values where all must have {width}: rewindow(tail=\"keep\") kept the short last window of a \
         gap-free range; use tail=\"drop\", or an operator that takes windows of any length: blocks(), each(...), \
         stats(...), or rows(...) and map(...) of one value per window"
    )]
    ShortWindow {
        /// Its number of values.
        got: usize,
        /// Values of a whole window.
        width: usize,
    },
    /// In-step operator that emitted, kept, dropped or moved an item.
    #[error(
        "this operator, or one in step before it, {did} although it declares in_step(); return Next::Forward for every \
         item, with its indices unchanged, or remove the declaration"
    )]
    OutOfStep {
        /// What it did.
        did: &'static str,
    },
    /// Memory budget exceeded.
    #[error(
        "{asked} more bytes would exceed memory={cap} bytes, the limit on the memory of queues and buffers ({used} in use); \
         raise memory= to {} bytes or more", used.saturating_add(*asked)
    )]
    MemoryCap {
        /// Requested bytes.
        asked: u64,
        /// Used bytes.
        used: u64,
        /// Limit.
        cap: u64,
    },
    /// Result beyond the machine's memory.
    #[error(
        "a result of {gathered} bytes needs {more} more bytes, which do not fit into this machine's memory; write it to a signal \
         (sink) or a file (sink_parquet, sink_wav), or collect less at a time (between, limit)"
    )]
    ResultTooLarge {
        /// Bytes gathered so far.
        gathered: u64,
        /// Further bytes.
        more: u64,
    },
    /// Input of a fan-in too far ahead of another.
    #[error(
        "{ahead} is {skew} samples ahead of {behind}, and {queued} queued bytes reached the limit of {cap}; \
         raise memory=, or shorten the windows and delays of the branch that is behind"
    )]
    FanInStarved {
        /// Edge with the full queue.
        ahead: String,
        /// Edge without items.
        behind: String,
        /// Lead in samples.
        skew: i64,
        /// Queued bytes.
        queued: u64,
        /// Limit of the execution.
        cap: u64,
    },
    /// Item fed back out of order.
    #[error(
        "the feedback loop returned index {got}, but index {expected} is next; return one window, or sample, for each that \
         enters the loop"
    )]
    LoopSkipped {
        /// Expected first index.
        expected: i64,
        /// First index fed back.
        got: i64,
    },
    /// Loop that waits for feedback after the sources ended.
    #[error(
        "indices {} to {} wait for the feedback loop, but all sources have ended; return one window, or sample, for each that \
         enters the loop", waiting.start, waiting.end
    )]
    LoopStarved {
        /// Indices of waiting items.
        waiting: Range<i64>,
    },
    /// Too many groups.
    #[error(
        "{groups} groups are more than most={most} allows; group by fewer or coarser keys, or raise most="
    )]
    TooManyGroups {
        /// Groups, with the excess one.
        groups: u64,
        /// Maximum.
        most: u64,
    },
    /// Civil time that decreases where rows are matched or grouped by time.
    #[error(
        "input {port} jumps back by {by} {unit} at index {at}: its clock was set back, or the selection is not in order; \
         read one run, or one range, at a time"
    )]
    BackInTime {
        /// Input.
        port: usize,
        /// Index of the jump.
        at: i64,
        /// Size of the jump.
        by: i64,
        /// Unit of `by`.
        unit: &'static str,
    },
    /// Row without civil time in windows of civil time.
    #[error(
        "the row at index {at} has no civil time, so it belongs to no window; leave such rows out with \
         filter(lambda r: r.time > 0), or give the window's length in samples, so that windows are cut by index"
    )]
    RowWithoutTime {
        /// First index.
        at: i64,
    },
    /// Columns that do not match the port's fields.
    #[error(
        "the rows do not match the columns declared for them ({0}); correct the operator that emits these rows"
    )]
    Arrow(#[from] arrow_schema::ArrowError),
    /// Failed user code or source.
    #[error("{0}")]
    Failed(#[from] Cause),
    /// Interrupted execution.
    #[error("interrupted; run the plan again")]
    Interrupted,
    /// Panic in an operator.
    #[error(
        "the operator's code crashed: {message}; correct it if it is yours, else report this as a bug of Isochrony"
    )]
    Panicked {
        /// Panic message.
        message: String,
    },
    /// Stand-in for the error of an earlier stage.
    #[error("stage {stage} of the plan failed")]
    StageFailed {
        /// Stage.
        stage: usize,
        /// Whether the stage failed by an operator's error, and not by lack of memory.
        is_operator_error: bool,
    },
    /// Operator that failed on another host.
    #[error(transparent)]
    Remote(#[from] RemoteFailure),
    /// No worker thread could be started.
    #[error(
        "the system refuses to start threads for the workers; set workers=1, or raise the limit of threads (ulimit -u)"
    )]
    NoThread,
}

impl OpError {
    /// Error kind.
    #[must_use]
    pub fn kind(&self) -> &OpErrorKind {
        &self.0
    }

    /// Stable error code.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn code_from_host(code: &str) -> &'static str {
        let failure = RemoteFailure {
            code: code.into(),
            text: "it failed".into(),
            host: "worker-1".into(),
        };
        OpError::from(failure).code()
    }

    #[test]
    fn codes_of_operators_stay_the_same_from_another_host() {
        let panicked = OpErrorKind::Panicked {
            message: String::new(),
        };
        let skipped = OpErrorKind::LoopSkipped {
            expected: 1,
            got: 2,
        };
        let starved = OpErrorKind::LoopStarved { waiting: 1..2 };
        let failed = OpErrorKind::StageFailed {
            stage: 1,
            is_operator_error: true,
        };
        for kind in [panicked, skipped, starved, failed, OpErrorKind::NoThread] {
            let code = OpError::from(kind).code();
            assert_eq!(code_from_host(code), code);
        }
        assert_eq!(code_from_host("operator_failed"), "operator_failed");
        assert_eq!(code_from_host("no_such_code"), "operator_failed");
    }
}
