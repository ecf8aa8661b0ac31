//! What can go wrong when a windowed scan is made or run.

use isochrony_segment::SegmentError;

/// An error of whatever segments come from.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// An error of this crate: what happened, where, and how to mend it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlowError {
    /// A window that is empty or longer than memory can hold.
    #[error(
        "rewindow: window must be 1 to {most} samples, got {window}; give the window in samples"
    )]
    WindowLength {
        /// The length that was asked for.
        window: u64,
        /// The longest possible.
        most: u64,
    },
    /// No statistic was asked for.
    #[error("stats: nothing to compute; name at least one of {}", super::Stat::NAMES.join(", "))]
    NoStats,
    /// The same statistic was asked for twice.
    #[error("stats: {stat} is asked for twice; name each statistic once")]
    RepeatedStat {
        /// Its name.
        stat: super::Stat,
    },
    /// A text that names no statistic.
    #[error("stats: unknown statistic {text:?}; choose from {}", super::Stat::NAMES.join(", "))]
    UnknownStat {
        /// The text as given.
        text: String,
    },
    /// Segments of different signals in one scan.
    #[error(
        "scan: the segment at index {at} belongs to {got:?} but the scan began with {expected:?}, which \
         differs in name, timebase, rate, calibration or dtype; scan one signal at a time"
    )]
    MixedStreams {
        /// Name and dtype of the first segment's stream.
        expected: String,
        /// Name and dtype of the other one.
        got: String,
        /// Its first index.
        at: i64,
    },
    /// A stretch that is said to begin after its own samples.
    #[error(
        "scan: the stretch is anchored at index {anchor}, after its sample {start}; anchor it at the \
         first sample after the last break"
    )]
    AnchorAfterStart {
        /// First index of the stretch, as the source says.
        anchor: i64,
        /// Index of a sample in it.
        start: i64,
    },
    /// A segment could not be read.
    #[error("scan: {source}")]
    Segment {
        /// Why.
        #[from]
        source: SegmentError,
    },
    /// Whatever segments come from failed.
    #[error("scan: the source failed after index {after}: {source}")]
    Source {
        /// Index after the last sample that was read; `i64::MIN` if none was.
        after: i64,
        /// Why.
        source: SourceError,
    },
}

impl FlowError {
    /// Stable name of the kind of error, in snake_case.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::WindowLength { .. } => "window_length",
            Self::NoStats => "no_stats",
            Self::RepeatedStat { .. } => "repeated_stat",
            Self::UnknownStat { .. } => "unknown_stat",
            Self::MixedStreams { .. } => "mixed_streams",
            Self::AnchorAfterStart { .. } => "anchor_after_start",
            Self::Segment { source } => source.code(),
            Self::Source { .. } => "source_failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> Vec<(FlowError, &'static [&'static str])> {
        vec![
            (
                FlowError::WindowLength { window: 0, most: 9 },
                &["got 0", "1 to 9", "in samples"],
            ),
            (FlowError::NoStats, &["at least one", "mean"]),
            (
                FlowError::RepeatedStat {
                    stat: crate::Stat::Max,
                },
                &["max", "twice"],
            ),
            (
                FlowError::UnknownStat { text: "avg".into() },
                &["\"avg\"", "mean"],
            ),
            (
                FlowError::MixedStreams {
                    expected: "a (int16)".into(),
                    got: "b (int16)".into(),
                    at: 7,
                },
                &["index 7", "a (int16)", "b (int16)", "one signal"],
            ),
            (
                FlowError::AnchorAfterStart {
                    anchor: 5,
                    start: 3,
                },
                &["index 5", "sample 3", "first sample"],
            ),
            (
                FlowError::Segment {
                    source: SegmentError::OutOfMemory { bytes: 77 },
                },
                &["77 bytes", "shorter"],
            ),
            (
                FlowError::Source {
                    after: 12,
                    source: "disk gone".into(),
                },
                &["after index 12", "disk gone"],
            ),
        ]
    }

    #[test]
    fn every_message_says_what_where_and_how_to_mend_it() {
        for (at, (error, parts)) in examples().iter().enumerate() {
            // Fails to compile when a variant is added, and to pass until it has an example.
            let position = match error {
                FlowError::WindowLength { .. } => 0,
                FlowError::NoStats => 1,
                FlowError::RepeatedStat { .. } => 2,
                FlowError::UnknownStat { .. } => 3,
                FlowError::MixedStreams { .. } => 4,
                FlowError::AnchorAfterStart { .. } => 5,
                FlowError::Segment { .. } => 6,
                FlowError::Source { .. } => 7,
            };
            assert_eq!(position, at);
            assert!(!error.code().is_empty());
            let message = error.to_string();
            for part in *parts {
                assert!(message.contains(part), "{message:?} lacks {part:?}");
            }
        }
    }
}
