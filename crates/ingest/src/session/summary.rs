//! The summary of an import.

use isochrony_time::{Fixed, MeanRate, Rate};

use crate::{Problem, Problems};

/// Result of an import.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// The signals that were fed, by name.
    pub signals: Vec<SignalSummary>,
    /// Files with stored samples.
    pub files: u64,
    /// Files skipped because they were imported before.
    pub known: u64,
    /// Files skipped since their samples are stored with the same stamp from another file.
    pub duplicates: u64,
    /// Bytes of samples stored.
    pub bytes: u64,
    /// Wall-clock time of the import in seconds.
    pub seconds: f64,
    /// Files that were not imported, or only in part, and why.
    pub problems: Problems,
    /// Whether the import was cancelled before its end.
    pub cancelled: bool,
}

/// An import's effect on a signal, and the signal's present state.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SignalSummary {
    /// Name in the store.
    pub name: String,
    /// Files with stored samples.
    pub files: u64,
    /// Samples stored by this import.
    pub added: i64,
    /// Files skipped because they were imported before.
    pub known: u64,
    /// Files skipped as duplicates.
    pub duplicates: u64,
    /// Samples of the signal now.
    pub samples: i64,
    /// Gaps of the signal now.
    pub gaps: u64,
    /// Runs of the signal now: one more than its clock steps and overlaps.
    pub runs: u64,
    /// Mean rate with uncertainty, of the run that knows it best; `None` without stamps.
    pub rate: Option<MeanRate>,
    /// Nominal rate at creation.
    pub nominal_rate: Rate,
    /// Unit of its values, empty if unknown.
    pub unit: String,
    /// Civil time of the earliest sample and of the end of the latest, UTC ns since 1970.
    pub civil: Option<(Fixed, Fixed)>,
}

impl Summary {
    /// Whether everything was imported or known.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty() && !self.cancelled
    }

    /// The problem of a path, if any.
    #[must_use]
    pub fn problem(&self, path: &str) -> Option<&Problem> {
        self.problems
            .list
            .iter()
            .find(|problem| problem.path == path)
    }
}
