//! What can go wrong with a model.

/// An error of this crate: what is wrong, where, and how to fix it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TuneError {
    /// A parameter outside its range.
    #[error("{parameter}={got} must be {allowed}; change {parameter}")]
    Parameter {
        /// The parameter, with the place where it stands.
        parameter: String,
        /// What was given.
        got: String,
        /// What may be given.
        allowed: &'static str,
    },
    /// A server that the graph does not have.
    #[error(
        "{place}={index} is not a server: the graph has {servers} servers, numbered from 0; add the server or change {place}"
    )]
    UnknownServer {
        /// The field that names the server.
        place: String,
        /// The number given.
        index: usize,
        /// How many servers the graph has.
        servers: usize,
    },
    /// Routes of one server that send more than every item.
    #[error(
        "the routes from server {server} ({name}) have probabilities that sum to {sum}, more than 1; lower them, and \
         let gain say how many items come out"
    )]
    RouteSum {
        /// Number of the server.
        server: usize,
        /// Name of the server.
        name: String,
        /// Sum of the probabilities.
        sum: f64,
    },
    /// A loop that yields at least as many items as it takes.
    #[error(
        "a loop never drains: server {server} ({name}) gets {returned} items back for each item that it takes; lower \
         gains or probabilities on the loop until that is below 1"
    )]
    EndlessLoop {
        /// Number of a server on the loop.
        server: usize,
        /// Name of that server.
        name: String,
        /// Items that come back for each one taken.
        returned: f64,
    },
    /// A graph without sources.
    #[error("the graph has no sources, so nothing flows; add at least one source")]
    NoSources,
    /// A source that nothing limits.
    #[error(
        "nothing limits source {source_index}, which enters at server {server} ({name}); give it a rate, or give a \
         server that it reaches a service_time above 0"
    )]
    UnlimitedSource {
        /// Number of the source.
        source_index: usize,
        /// Number of the server it enters at.
        server: usize,
        /// Name of that server.
        name: String,
    },
    /// Fewer cores than servers that need one each.
    #[error(
        "budget={budget} cores are fewer than the {needed} that one replica of each server needs; raise budget, or \
         join servers"
    )]
    BudgetTooSmall {
        /// Cores given.
        budget: u32,
        /// Cores needed.
        needed: u32,
    },
    /// A queue that grows without end.
    #[error(
        "utilization={utilization} leaves the queue without a steady state, which needs less than 1; lower \
         arrival_rate or service_time, or bound the queue with a capacity"
    )]
    Unstable {
        /// Arrival rate times service time.
        utilization: f64,
    },
    /// A buffer larger than the model goes to.
    #[error(
        "fraction={fraction} needs more than {limit} items at utilization={utilization}; lower fraction, or serve items \
         more evenly"
    )]
    BufferTooLarge {
        /// Fraction of the throughput asked for.
        fraction: f64,
        /// Arrival rate times service time.
        utilization: f64,
        /// Largest capacity tried.
        limit: usize,
    },
}

impl TuneError {
    /// A stable name of the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Parameter { .. } => "parameter",
            Self::UnknownServer { .. } => "unknown_server",
            Self::RouteSum { .. } => "route_sum",
            Self::EndlessLoop { .. } => "endless_loop",
            Self::NoSources => "no_sources",
            Self::UnlimitedSource { .. } => "unlimited_source",
            Self::BudgetTooSmall { .. } => "budget_too_small",
            Self::Unstable { .. } => "unstable",
            Self::BufferTooLarge { .. } => "buffer_too_large",
        }
    }

    /// An error that says that a parameter is outside its range.
    pub(crate) fn parameter(
        parameter: impl Into<String>,
        got: impl ToString,
        allowed: &'static str,
    ) -> Self {
        Self::Parameter {
            parameter: parameter.into(),
            got: got.to_string(),
            allowed,
        }
    }
}
