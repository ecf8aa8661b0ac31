//! What can go wrong when a kernel is called.

/// An error of this crate: what happened, where, and how to mend it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DspError {
    /// A window of no samples.
    #[error("{operator}: window must be at least 1 sample, got 0; give the window in samples")]
    ZeroWindow {
        /// The kernel that refused.
        operator: &'static str,
    },
    /// Input and output do not belong together.
    #[error(
        "{operator}: the output has room for {got} items but the input makes {expected}; pass an output of {expected}"
    )]
    OutputLength {
        /// The kernel that refused.
        operator: &'static str,
        /// Items that the input makes.
        expected: usize,
        /// Items that the output has room for.
        got: usize,
    },
    /// Bytes that are no whole number of samples.
    #[error(
        "{operator}: {bytes} bytes are no whole number of numbers of {size} bytes; pass whole samples"
    )]
    PartialSample {
        /// The kernel that refused.
        operator: &'static str,
        /// Bytes that were given.
        bytes: usize,
        /// Bytes of one number.
        size: usize,
    },
    /// A parameter outside what is allowed.
    #[error("{operator}: {parameter}={got} must be {allowed}; change {parameter}")]
    Parameter {
        /// The kernel that refused.
        operator: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// What was given.
        got: String,
        /// What may be given, with its unit.
        allowed: String,
    },
    /// An equiripple design that was not found.
    #[error(
        "{operator}: no equiripple filter of {taps} taps was found (errors still differ by {uneven:.1e} of the least); widen the transitions between bands, use fewer taps, or let weights differ less"
    )]
    NotConverged {
        /// The design that failed.
        operator: &'static str,
        /// Number of taps.
        taps: usize,
        /// How far the largest error is above the level of all, as a part of it.
        uneven: f64,
    },
    /// A recursive filter that would not settle.
    #[error(
        "{operator}: section {section} of {sections} has a pole on or outside the unit circle; lower the order, or move the corners away from 0, from half the rate and from each other"
    )]
    Unstable {
        /// The design that was refused.
        operator: &'static str,
        /// The section, counted from 0.
        section: usize,
        /// Number of sections.
        sections: usize,
    },
}

impl DspError {
    /// Stable name of the kind of error, in snake_case.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::ZeroWindow { .. } => "zero_window",
            Self::OutputLength { .. } => "output_length",
            Self::PartialSample { .. } => "partial_sample",
            Self::Parameter { .. } => "parameter",
            Self::NotConverged { .. } => "not_converged",
            Self::Unstable { .. } => "unstable",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_says_what_where_and_how_to_mend_it() {
        let operator = "summaries";
        let examples: [(DspError, &[&str]); 6] = [
            (
                DspError::ZeroWindow { operator },
                &["summaries", "got 0", "in samples"],
            ),
            (
                DspError::OutputLength {
                    operator,
                    expected: 3,
                    got: 2,
                },
                &["summaries", "room for 2", "makes 3", "pass"],
            ),
            (
                DspError::PartialSample {
                    operator: "swap_bytes",
                    bytes: 3,
                    size: 2,
                },
                &["swap_bytes", "3 bytes", "of 2 bytes", "whole samples"],
            ),
            (
                DspError::Parameter {
                    operator: "quantile",
                    parameter: "at",
                    got: "1.5".into(),
                    allowed: "numbers from 0 to 1".into(),
                },
                &["quantile", "at=1.5", "from 0 to 1", "change at"],
            ),
            (
                DspError::Unstable {
                    operator: "iir",
                    section: 2,
                    sections: 4,
                },
                &[
                    "iir",
                    "section 2 of 4",
                    "outside the unit circle",
                    "lower the order",
                ],
            ),
            (
                DspError::NotConverged {
                    operator: "fir",
                    taps: 91,
                    uneven: 0.13,
                },
                &["fir", "91 taps", "1.3e-1", "widen the transitions"],
            ),
        ];
        for (at, (error, parts)) in examples.iter().enumerate() {
            // Fails to compile when a variant is added, and to pass until it has an example.
            let position = match error {
                DspError::ZeroWindow { .. } => 0,
                DspError::OutputLength { .. } => 1,
                DspError::PartialSample { .. } => 2,
                DspError::Parameter { .. } => 3,
                DspError::Unstable { .. } => 4,
                DspError::NotConverged { .. } => 5,
            };
            assert_eq!(position, at);
            let message = error.to_string();
            for part in *parts {
                assert!(message.contains(part), "{message:?} lacks {part:?}");
            }
        }
    }
}
