//! Errors of building a plan ([`PlanError`]), of an operator ([`OpError`]), and of an execution ([`RunError`]).

mod operator;
mod plan;

use std::ops::Range;

pub use isochrony_runtime::Cause;

pub(crate) use operator::store_error;
pub use operator::{OpError, OpErrorKind, RemoteFailure};
pub use plan::PlanError;

/// Why and where an execution ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Failed operator.
    #[error("{operator} (node {node}{}): {error}", place(range.as_ref(), time.as_deref()))]
    Operator {
        /// Operator.
        operator: &'static str,
        /// Node number in the executed plan.
        node: usize,
        /// Indices of its item.
        range: Option<Range<i64>>,
        /// Civil time of the item's first sample.
        time: Option<String>,
        /// Cause.
        #[source]
        error: OpError,
    },
    /// Cluster task that failed outside an operator.
    #[error("task{}: {error}", place(Some(range), time.as_deref()))]
    Task {
        /// Scan whose samples it reads, by number in the executed plan.
        scan: usize,
        /// Indices that it reads.
        range: Range<i64>,
        /// Civil time of the first one.
        time: Option<String>,
        /// Cause.
        #[source]
        error: OpError,
    },
    /// Invalid plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Unusable saved configuration.
    #[error("tune=: {0}")]
    Configuration(#[from] isochrony_tune::TuneError),
    /// Last operator that declared a result and returned none.
    #[error(
        "{operator} (node {node}) ends the plan and declares a count, but returned none; implement Operator::result, or end \
         the plan with count"
    )]
    NoResult {
        /// Operator.
        operator: &'static str,
        /// Node number in the executed plan.
        node: usize,
    },
    /// Interrupted execution.
    #[error(
        "the run was interrupted after {items} blocks; what was already committed to a store is kept; run the plan again"
    )]
    Interrupted {
        /// Blocks of samples, windows or rows emitted by the sources.
        items: u64,
    },
}

impl RunError {
    /// Stable error code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Operator { error, .. } | Self::Task { error, .. } => error.code(),
            Self::Plan(error) => error.code(),
            Self::Configuration(error) => error.code(),
            Self::NoResult { .. } => "no_result",
            Self::Interrupted { .. } => "interrupted",
        }
    }
}

fn place(range: Option<&Range<i64>>, time: Option<&str>) -> String {
    let range = range.map_or(String::new(), |r| {
        format!(", samples {} to {}", r.start, r.end)
    });
    let time = time.map_or(String::new(), |t| format!(", {t}"));
    range + &time
}
