//! What can go wrong with a model.

use std::borrow::Cow;

/// An error of this crate: what is wrong, where, and how to fix it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TuneError {
    /// A parameter outside its range.
    #[error("{parameter}={got} is refused; it must be {allowed}")]
    Parameter {
        /// The parameter, with the place where it stands.
        parameter: String,
        /// What was given.
        got: String,
        /// What may be given.
        allowed: Cow<'static, str>,
    },
    /// A configuration of a plan with another structure.
    #[error(
        "the configuration has {has} {what} and the plan has {needs}: it is of another plan, or the plan is cut in another \
         way; tune the plan again"
    )]
    OtherPlan {
        /// What differs in number.
        what: &'static str,
        /// How many the configuration has.
        has: usize,
        /// How many the plan has.
        needs: usize,
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
    /// Fewer samples than an estimate needs.
    #[error("{place} got {got} samples and needs at least {needed}; collect more")]
    TooFewSamples {
        /// Samples given.
        got: usize,
        /// Samples needed.
        needed: usize,
        /// The function that was called.
        place: &'static str,
    },
    /// A sample that is not a finite number.
    #[error("sample {index} is {got}, not a finite number ({place}); remove it before fitting")]
    NotFinite {
        /// Position of the sample, from 0.
        index: usize,
        /// What was given.
        got: f64,
        /// The function that was called.
        place: &'static str,
    },
    /// Weights of the trust classifier that cannot be read.
    #[error(
        "the weights of the trust classifier cannot be read: {problem}; write them again with tools/train_trust.py"
    )]
    WeightsSyntax {
        /// What the parser found, with line and column.
        problem: String,
    },
    /// Weights of the trust classifier in another format.
    #[error(
        "the weights of the trust classifier have format {got} and this version reads format {supported}; write them \
         again with tools/train_trust.py of this version"
    )]
    WeightsFormat {
        /// Format of the file.
        got: u64,
        /// Format that is read.
        supported: u64,
    },
    /// Weights of the trust classifier for other features or models.
    #[error(
        "the weights of the trust classifier have the {place} {got} instead of {needed}; write them again with \
         tools/train_trust.py of this version"
    )]
    WeightsNames {
        /// The list in the file.
        place: &'static str,
        /// Names in the file.
        got: String,
        /// Names that are needed.
        needed: String,
    },
    /// Weights of the trust classifier of a wrong number.
    #[error(
        "the weights of the trust classifier have {got} values in {place} where {needed} are needed; write them again \
         with tools/train_trust.py"
    )]
    WeightsShape {
        /// The list in the file.
        place: &'static str,
        /// Values there.
        got: usize,
        /// Values needed.
        needed: usize,
    },
    /// Samples without spread.
    #[error(
        "all {count} samples are {value}, so {place} finds no scale; use a clock of finer resolution"
    )]
    NoSpread {
        /// Samples given.
        count: usize,
        /// Their common value.
        value: f64,
        /// The function that was called.
        place: &'static str,
    },
}

impl TuneError {
    /// A stable name of the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Parameter { .. } => "parameter",
            Self::OtherPlan { .. } => "other_plan",
            Self::UnknownServer { .. } => "unknown_server",
            Self::RouteSum { .. } => "route_sum",
            Self::EndlessLoop { .. } => "endless_loop",
            Self::NoSources => "no_sources",
            Self::UnlimitedSource { .. } => "unlimited_source",
            Self::BudgetTooSmall { .. } => "budget_too_small",
            Self::Unstable { .. } => "unstable",
            Self::BufferTooLarge { .. } => "buffer_too_large",
            Self::TooFewSamples { .. } => "too_few_samples",
            Self::NotFinite { .. } => "not_finite",
            Self::WeightsSyntax { .. } => "weights_syntax",
            Self::WeightsFormat { .. } => "weights_format",
            Self::WeightsNames { .. } => "weights_names",
            Self::WeightsShape { .. } => "weights_shape",
            Self::NoSpread { .. } => "no_spread",
        }
    }

    /// An error that says that a parameter is outside its range.
    pub(crate) fn parameter(
        parameter: impl Into<String>,
        got: impl ToString,
        allowed: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::Parameter {
            parameter: parameter.into(),
            got: got.to_string(),
            allowed: allowed.into(),
        }
    }

    /// An error unless `holds`, of a parameter of the function or type `place`.
    pub(crate) fn unless(
        holds: bool,
        parameter: &'static str,
        got: impl ToString,
        allowed: &'static str,
        place: &'static str,
    ) -> Result<(), Self> {
        match holds {
            true => Ok(()),
            false => Err(Self::parameter(
                format!("{place}: {parameter}"),
                got,
                allowed,
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TuneError as E;

    #[test]
    fn messages_of_estimates_say_what_where_and_how_to_fix_it() {
        let place = "ModifiedLevy::fit";
        let cases = [
            (
                E::unless(false, "scale", -1, "above 0", place).unwrap_err(),
                "parameter",
                "ModifiedLevy::fit: scale=-1 is refused; it must be above 0",
            ),
            (
                E::TooFewSamples {
                    got: 3,
                    needed: 20,
                    place,
                },
                "too_few_samples",
                "ModifiedLevy::fit got 3 samples and needs at least 20; collect more",
            ),
            (
                E::NotFinite {
                    index: 7,
                    got: f64::INFINITY,
                    place,
                },
                "not_finite",
                "sample 7 is inf, not a finite number (ModifiedLevy::fit); remove it before fitting",
            ),
            (
                E::NoSpread {
                    count: 20,
                    value: 1.5,
                    place,
                },
                "no_spread",
                "all 20 samples are 1.5, so ModifiedLevy::fit finds no scale; use a clock of finer resolution",
            ),
        ];
        for (error, code, message) in cases {
            assert_eq!(error.code(), code);
            assert_eq!(error.to_string(), message);
        }
    }
}
