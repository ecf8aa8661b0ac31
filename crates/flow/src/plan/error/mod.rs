//! Errors of building a plan ([`PlanError`]), of an operator ([`OpError`]), and of an execution ([`RunError`]).

mod operator;
mod plan;

use std::ops::Range;

pub use isochrony_runtime::Cause;

pub(crate) use operator::store_error;
pub use operator::{OpError, OpErrorKind, RemoteFailure};
pub use plan::PlanError;

/// Why an execution ended early, and where.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// An operator failed.
    #[error("{operator} (node {node}{}): {error}", place(range.as_ref(), time.as_deref()))]
    Operator {
        /// The operator.
        operator: &'static str,
        /// Its number in the plan as run.
        node: usize,
        /// Indices of its item.
        range: Option<Range<i64>>,
        /// Civil time of the item's first sample.
        time: Option<String>,
        /// What happened.
        #[source]
        error: OpError,
    },
    /// A task of a cluster failed, for a reason that belongs to no operator.
    #[error("task{}: {error}", place(Some(range), time.as_deref()))]
    Task {
        /// The scan whose samples it reads, by its number in the plan as run.
        scan: usize,
        /// Indices that it reads.
        range: Range<i64>,
        /// Civil time of the first one.
        time: Option<String>,
        /// What happened.
        #[source]
        error: OpError,
    },
    /// The plan cannot be run.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A saved configuration that the run cannot have.
    #[error("tune=: {0}")]
    Configuration(#[from] isochrony_tune::TuneError),
    /// The last operator declared a result and returned none.
    #[error(
        "{operator} (node {node}) ends the plan and declares a count, but returned none; implement Operator::result, or end \
         the plan with count"
    )]
    NoResult {
        /// The operator.
        operator: &'static str,
        /// Its number in the plan as run.
        node: usize,
    },
    /// The execution was interrupted.
    #[error(
        "the run was interrupted after {items} blocks; what was already committed to a store is kept; run the plan again"
    )]
    Interrupted {
        /// Blocks of samples, windows or rows that the sources had emitted.
        items: u64,
    },
}

impl RunError {
    /// A stable name of the kind of error.
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
