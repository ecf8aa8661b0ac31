//! Result of an import, in total and for each signal.

use isochrony_time::{Fixed, MeanRate, Rate};

use crate::{Problem, Problems};

/// Result of an import.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// Signals to which files were imported, by name.
    pub signals: Vec<SignalSummary>,
    /// Files from which samples were stored.
    pub files: u64,
    /// Files skipped because they had been imported before.
    pub skipped: u64,
    /// Files whose samples, with the same stamps, another file had provided.
    pub duplicates: u64,
    /// Bytes of samples stored.
    pub bytes: u64,
    /// Wall-clock time of the import, in seconds.
    pub elapsed_s: f64,
    /// Files not imported, or only in part.
    pub problems: Problems,
    /// Whether the import was cancelled.
    pub cancelled: bool,
}

/// An import's effect on a signal, and its state.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SignalSummary {
    /// Name in the store.
    pub name: String,
    /// Files from which samples were stored.
    pub files: u64,
    /// Samples stored by this import.
    pub added: i64,
    /// Files skipped because they had been imported before.
    pub skipped: u64,
    /// Files skipped as duplicates.
    pub duplicates: u64,
    /// Samples of the signal after the import.
    pub samples: i64,
    /// Gaps of the signal after the import.
    pub gaps: u64,
    /// Runs of the signal after the import: one more than its clock steps.
    pub runs: u64,
    /// Mean rate of the run in which it is known most precisely; `None` without stamps.
    pub rate: Option<MeanRate>,
    /// Nominal rate at creation.
    pub nominal_rate: Rate,
    /// Unit of its values, or empty.
    pub unit: String,
    /// Civil time of the earliest sample, and end of the latest, UTC ns since 1970.
    pub time_span: Option<(Fixed, Fixed)>,
}

impl Summary {
    /// Whether no file was refused or imported in part, and the import was not cancelled.
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
