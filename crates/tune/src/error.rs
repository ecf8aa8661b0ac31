//! Errors of this crate.

use std::borrow::Cow;

/// What is wrong, where, and how to fix it.
#[allow(missing_docs)] // The messages document the fields.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TuneError {
    /// Parameter out of range.
    #[error("{parameter}={got} is refused; it must be {allowed}")]
    Parameter {
        /// Parameter, with its place.
        parameter: String,
        got: String,
        allowed: Cow<'static, str>,
    },
    /// Configuration of a plan with another structure.
    #[error(
        "the configuration has {has} {what} and the plan has {needs}: it was made for another plan, or the plan is now cut in another \
         way; tune the plan again"
    )]
    OtherPlan {
        /// What differs.
        what: &'static str,
        has: usize,
        needs: usize,
    },
    /// Cuts that a plan cannot have.
    #[error(
        "the plan cannot be cut into the {stages} stages of the configuration: {why}; change that, or tune the plan again"
    )]
    Cuts { stages: usize, why: String },
    /// Unknown server.
    #[error(
        "{place}={index} is not a server: the graph has {servers} servers, numbered from 0; add the server or change {place}"
    )]
    UnknownServer {
        /// Field that names the server.
        place: String,
        index: usize,
        servers: usize,
    },
    /// Route probabilities that sum to more than 1.
    #[error(
        "the routes from server {server} ({name}) have probabilities that sum to {sum}, more than 1; lower them, and \
         let gain say how many items come out"
    )]
    RouteSum {
        server: usize,
        name: String,
        sum: f64,
    },
    /// Loop that returns as many items as it takes, or more.
    #[error(
        "a loop never drains: server {server} ({name}) gets {returned} items back for each item that it takes; lower \
         gains or probabilities on the loop until that is below 1"
    )]
    EndlessLoop {
        server: usize,
        name: String,
        returned: f64,
    },
    /// Graph without sources.
    #[error("the graph has no sources, so nothing flows; add at least one source")]
    NoSources,
    /// Source without a limit.
    #[error(
        "nothing limits source {source_index}, which enters at server {server} ({name}); give it a rate, or give a \
         server that it reaches a service_time above 0"
    )]
    UnlimitedSource {
        /// Source number.
        source_index: usize,
        /// Number of the server it enters.
        server: usize,
        name: String,
    },
    /// Fewer cores than servers that need one.
    #[error(
        "budget={budget} cores are fewer than the {needed} that one replica of each server needs; raise budget, or \
         join servers"
    )]
    BudgetTooSmall { budget: u32, needed: u32 },
    /// Queue without a steady state.
    #[error(
        "utilization={utilization} leaves the queue without a steady state, which needs less than 1; lower \
         arrival_rate or service_time, or bound the queue with a capacity"
    )]
    Unstable {
        /// Arrival rate times service time.
        utilization: f64,
    },
    /// Buffer beyond the model's limit.
    #[error(
        "fraction={fraction} needs more than {limit} items at utilization={utilization}; lower fraction, or serve items \
         more evenly"
    )]
    BufferTooLarge {
        fraction: f64,
        /// Arrival rate times service time.
        utilization: f64,
        /// Largest capacity tried.
        limit: usize,
    },
    /// Too few samples for an estimate.
    #[error("{place} got {got} samples and needs at least {needed}; collect more")]
    TooFewSamples {
        got: usize,
        needed: usize,
        /// Called function.
        place: &'static str,
    },
    /// Sample that is not finite.
    #[error("sample {index} is {got}, not a finite number ({place}); remove it before fitting")]
    NotFinite {
        /// Its position, from 0.
        index: usize,
        got: f64,
        /// Called function.
        place: &'static str,
    },
    /// Unreadable classifier weights.
    #[error(
        "the weights of the trust classifier cannot be read: {problem}; write them again with tools/train_trust.py"
    )]
    WeightsSyntax {
        /// Parser message, with line and column.
        problem: String,
    },
    /// Unsupported format of the classifier's weights.
    #[error(
        "the weights of the trust classifier have format {got} and this version reads format {supported}; write them \
         again with tools/train_trust.py of this version"
    )]
    WeightsFormat { got: u64, supported: u64 },
    /// Classifier weights for other features or models.
    #[error(
        "the weights of the trust classifier have the {place} {got} instead of {needed}; write them again with \
         tools/train_trust.py of this version"
    )]
    WeightsNames {
        place: &'static str,
        got: String,
        needed: String,
    },
    /// Wrong number of classifier weights.
    #[error(
        "the weights of the trust classifier have {got} values in {place} where {needed} are needed; write them again \
         with tools/train_trust.py"
    )]
    WeightsShape {
        place: &'static str,
        got: usize,
        needed: usize,
    },
    /// Samples without spread.
    #[error(
        "all {count} samples are {value}, so {place} finds no scale; use a clock of finer resolution"
    )]
    NoSpread {
        count: usize,
        value: f64,
        /// Called function.
        place: &'static str,
    },
}

impl TuneError {
    /// Stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Parameter { .. } => "parameter",
            Self::OtherPlan { .. } => "other_plan",
            Self::Cuts { .. } => "cuts",
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
    fn messages_say_what_where_and_how_to_fix_it() {
        let place = "ModifiedLevy::fit";
        let cases = [
            (
                E::unless(false, "scale", -1, "above 0", place).unwrap_err(),
                "parameter",
                "ModifiedLevy::fit: scale=-1 is refused; it must be above 0",
            ),
            (
                E::Cuts {
                    stages: 3,
                    why: "memory= has no room".into(),
                },
                "cuts",
                "the plan cannot be cut into the 3 stages of the configuration: memory= has no room; change that, or tune the \
                 plan again",
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
