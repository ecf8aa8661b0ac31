//! Errors of estimates from samples: [`crate::service_rate`] and [`crate::noise`].

/// An error of an estimate: what is wrong, where, and how to fix it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EstimateError {
    /// A parameter outside its legal range.
    #[error("{parameter}={got} must be {allowed} ({place}); change {parameter}")]
    Parameter {
        /// The parameter.
        parameter: &'static str,
        /// What was given.
        got: String,
        /// What may be given.
        allowed: &'static str,
        /// The function or type that was called.
        place: &'static str,
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

impl EstimateError {
    /// A stable name of the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Parameter { .. } => "parameter",
            Self::TooFewSamples { .. } => "too_few_samples",
            Self::NotFinite { .. } => "not_finite",
            Self::NoSpread { .. } => "no_spread",
        }
    }

    /// Returns an error unless `holds`.
    pub(crate) fn unless(
        holds: bool,
        parameter: &'static str,
        got: impl ToString,
        allowed: &'static str,
        place: &'static str,
    ) -> Result<(), Self> {
        if holds {
            return Ok(());
        }
        Err(Self::Parameter {
            parameter,
            got: got.to_string(),
            allowed,
            place,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::EstimateError as E;

    #[test]
    fn every_message_says_what_where_and_how_to_fix_it() {
        let place = "ModifiedLevy::fit";
        let cases = [
            (
                E::Parameter {
                    parameter: "scale",
                    got: "-1".into(),
                    allowed: "above 0",
                    place,
                },
                "parameter",
                "scale=-1 must be above 0 (ModifiedLevy::fit); change scale",
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
