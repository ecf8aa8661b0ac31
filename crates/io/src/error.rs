//! Errors of strategies and of calibration.

use std::io;
use std::path::{Path, PathBuf};

use isochrony_segment::SegmentError;

use crate::source::SourceError;

/// Paths are as given.
#[allow(missing_docs)] // The messages document the fields.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IoError {
    /// Refused system call.
    #[error("cannot {action} {}: {source}", path.display())]
    System {
        /// Attempted action, such as `"read"`.
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// File that is too short.
    #[error("{} is too short: it has {have} bytes, but its samples need {need}; restore the file from a copy", path.display())]
    MissingSamples { path: PathBuf, have: u64, need: u64 },
    /// Disk with too little space.
    #[error("cannot {action} {}: the disk is full; free some space and try again", path.display())]
    DiskFull { action: &'static str, path: PathBuf },
    /// Memory beyond what can be addressed.
    #[error(
        "{what} needs {bytes} bytes, but the limit is {limit}; use a shorter range or smaller windows"
    )]
    TooLarge {
        what: &'static str,
        bytes: u128,
        limit: u128,
    },
    /// Unknown strategy name.
    #[error("there is no I/O strategy {name:?}; choose one of {known}")]
    UnknownStrategy {
        name: String,
        /// All names, comma-separated.
        known: String,
    },
    /// Invalid calibration options.
    #[error("cannot calibrate with {option} {got}; {legal}")]
    RefusedCalibration {
        option: &'static str,
        got: String,
        legal: &'static str,
    },
    /// Unusable stored machine profile.
    #[error("the machine's profile {} cannot be used: {reason}; measure again with `isochrony calibrate`, or delete that file", path.display())]
    BadProfile { path: PathBuf, reason: String },
    /// Stop requested by the caller.
    #[error("reading was stopped; start it again")]
    Interrupted,
    /// Memory for samples.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// Error of the source.
    #[error(transparent)]
    Source(SourceError),
}

impl IoError {
    /// Stable error code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::System { .. } => "io",
            Self::MissingSamples { .. } => "missing_samples",
            Self::DiskFull { .. } => "disk_full",
            Self::TooLarge { .. } => "too_large",
            Self::UnknownStrategy { .. } => "unknown_strategy",
            Self::RefusedCalibration { .. } => "refused_calibration",
            Self::BadProfile { .. } => "bad_profile",
            Self::Interrupted => "interrupted",
            Self::Segment(error) => error.code(),
            Self::Source(_) => "source",
        }
    }
}

pub(crate) trait ErrorContext<T> {
    fn with_path(self, action: &'static str, path: &Path) -> Result<T, IoError>;
}

impl<T> ErrorContext<T> for io::Result<T> {
    fn with_path(self, action: &'static str, path: &Path) -> Result<T, IoError> {
        self.map_err(|source| IoError::System {
            action,
            path: path.to_path_buf(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VARIANTS: usize = 10;

    /// Every variant, its code, and words of its message. `System` and `Source` have none: their cause is outside this
    /// crate.
    fn all() -> Vec<(IoError, &'static str, [&'static str; 3])> {
        let path = || PathBuf::from("/a/file");
        vec![
            (
                IoError::System {
                    action: "read",
                    path: path(),
                    source: io::ErrorKind::NotFound.into(),
                },
                "io",
                ["cannot read", "/a/file", "not found"],
            ),
            (
                IoError::MissingSamples {
                    path: path(),
                    have: 7,
                    need: 9,
                },
                "missing_samples",
                ["/a/file is too short: it has 7 bytes", "need 9", "restore"],
            ),
            (
                IoError::DiskFull {
                    action: "write to",
                    path: path(),
                },
                "disk_full",
                ["cannot write to", "/a/file", "free some space"],
            ),
            (
                IoError::TooLarge {
                    what: "a piece",
                    bytes: 9,
                    limit: 7,
                },
                "too_large",
                ["a piece needs 9", "limit is 7", "use a shorter range"],
            ),
            (
                IoError::UnknownStrategy {
                    name: "fread".into(),
                    known: "read, mmap".into(),
                },
                "unknown_strategy",
                ["\"fread\"", "choose one of", "read, mmap"],
            ),
            (
                IoError::RefusedCalibration {
                    option: "repeats",
                    got: "0".into(),
                    legal: "it must be 1 to 100",
                },
                "refused_calibration",
                ["cannot calibrate", "repeats 0", "1 to 100"],
            ),
            (
                IoError::BadProfile {
                    path: path(),
                    reason: "its format is 1, not 2".into(),
                },
                "bad_profile",
                ["/a/file", "its format is 1", "isochrony calibrate"],
            ),
            (
                IoError::Interrupted,
                "interrupted",
                ["was stopped", "start it again", ""],
            ),
            (
                SegmentError::OutOfMemory { bytes: 7 }.into(),
                "out_of_memory",
                ["cannot allocate", "7 bytes", "ask for a shorter range"],
            ),
            (
                IoError::Source("as the source says".into()),
                "source",
                ["as the source says", "", ""],
            ),
        ]
    }

    /// A new variant does not compile until it has an index here; then add it to `all` and raise `VARIANTS`.
    fn index_in_all(error: &IoError) -> usize {
        match error {
            IoError::System { .. } => 0,
            IoError::MissingSamples { .. } => 1,
            IoError::DiskFull { .. } => 2,
            IoError::TooLarge { .. } => 3,
            IoError::UnknownStrategy { .. } => 4,
            IoError::RefusedCalibration { .. } => 5,
            IoError::BadProfile { .. } => 6,
            IoError::Interrupted => 7,
            IoError::Segment(_) => 8,
            IoError::Source(_) => 9,
        }
    }

    #[test]
    fn every_message_states_cause_place_and_remedy() {
        for (index, (error, code, words)) in all().into_iter().enumerate() {
            assert_eq!(index_in_all(&error), index);
            assert_eq!(error.code(), code);
            let message = error.to_string();
            for word in words {
                assert!(message.contains(word), "{message}: {word}");
            }
        }
        assert_eq!(all().len(), VARIANTS);
    }
}
