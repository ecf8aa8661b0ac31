//! What can go wrong when a plan is made ([`PlanError`]), inside an operator ([`OpError`]), and in a run ([`RunError`]).

mod operator;
mod plan;

use std::ops::Range;

pub(crate) use operator::store_error;
pub use operator::{OpError, OpErrorKind};
pub use plan::PlanError;

/// An error of an operator's own: of user code, of whatever a source reads from.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a run ended early: the error, and where it happened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// An operator failed.
    #[error("{operator} (node {node}{}): {error}", place(range.as_ref(), time.as_deref()))]
    Operator {
        /// Name of the operator.
        operator: &'static str,
        /// Its number in the plan as run.
        node: usize,
        /// Indices of the item that it was given.
        range: Option<Range<i64>>,
        /// Civil time of the first of them.
        time: Option<String>,
        /// What happened.
        #[source]
        error: OpError,
    },
    /// The plan cannot be run.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A plan that ends in an operator which promised a result and gave none.
    #[error(
        "{operator} (node {node}) ends the plan and promised a count, but gave none; implement Operator::result, or end \
         the plan with count"
    )]
    NoResult {
        /// Name of the operator.
        operator: &'static str,
        /// Its number in the plan as run.
        node: usize,
    },
    /// Somebody asked the run to stop.
    #[error("the run was interrupted after {items} items; what was committed is kept")]
    Interrupted {
        /// Items that the sources had given.
        items: u64,
    },
}

impl RunError {
    /// A stable name of the kind of error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Operator { error, .. } => error.code(),
            Self::Plan(error) => error.code(),
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
