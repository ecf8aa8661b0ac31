//! Errors of kernels.

/// Says what is wrong, where, and how to fix it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DspError {
    /// Empty window.
    #[error("{operator}: window must be at least 1 sample, got 0; give the window in samples")]
    ZeroWindow {
        /// Kernel.
        operator: &'static str,
    },
    /// Wrong length of the output.
    #[error(
        "{operator}: the output has room for {got} items, but the input gives {expected}; pass an output of {expected}"
    )]
    OutputLength {
        /// Kernel.
        operator: &'static str,
        /// Required length.
        expected: usize,
        /// Given length.
        got: usize,
    },
    /// Bytes that are no whole number of samples.
    #[error(
        "{operator}: {bytes} bytes are not a whole number of {size}-byte samples; pass whole samples"
    )]
    PartialSample {
        /// Kernel.
        operator: &'static str,
        /// Input bytes.
        bytes: usize,
        /// Bytes per number.
        size: usize,
    },
    /// Parameter out of range.
    #[error("{operator}: {parameter}={got} must be {allowed}; change {parameter}")]
    Parameter {
        /// Kernel.
        operator: &'static str,
        /// Its name.
        parameter: &'static str,
        /// Its value.
        got: String,
        /// Allowed values, with unit.
        allowed: String,
    },
    /// Equiripple design that did not converge.
    #[error(
        "{operator}: no equiripple filter of {taps} taps was found (errors still differ by {uneven:.1e} of the least); widen the transitions between bands, use fewer taps, or let weights differ less"
    )]
    NotConverged {
        /// Design.
        operator: &'static str,
        /// Taps.
        taps: usize,
        /// Relative excess of the largest error over the common level.
        uneven: f64,
    },
    /// Unstable recursive filter.
    #[error(
        "{operator}: section {section} of {sections} has a pole on or outside the unit circle; lower the order, or move the corners away from 0, from half the rate and from each other"
    )]
    Unstable {
        /// Design.
        operator: &'static str,
        /// Section, from 0.
        section: usize,
        /// Sections.
        sections: usize,
    },
}

impl DspError {
    /// Stable snake_case name.
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
                &["summaries", "room for 2", "gives 3", "pass"],
            ),
            (
                DspError::PartialSample {
                    operator: "swap_bytes",
                    bytes: 3,
                    size: 2,
                },
                &[
                    "swap_bytes",
                    "3 bytes",
                    "2-byte samples",
                    "pass whole samples",
                ],
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
            // A new variant does not compile without an index, and fails without an example.
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
