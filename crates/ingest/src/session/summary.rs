use isochrony_time::{Fixed, MeanRate, Rate};

use crate::{Problem, Problems};

/// Result of an import.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// The signals fed, by name.
    pub signals: Vec<SignalSummary>,
    /// Files with stored samples.
    pub files: u64,
    /// Files imported before.
    pub known: u64,
    /// Files whose samples are stored with the same stamp from another file.
    pub duplicates: u64,
    /// Bytes of samples stored.
    pub bytes: u64,
    /// Duration in seconds.
    pub seconds: f64,
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
    /// Files with stored samples.
    pub files: u64,
    /// Samples stored by this import.
    pub added: i64,
    /// Files imported before.
    pub known: u64,
    /// Files skipped as duplicates.
    pub duplicates: u64,
    /// Present samples.
    pub samples: i64,
    /// Present gaps.
    pub gaps: u64,
    /// Present runs: one more than clock steps and overlaps.
    pub runs: u64,
    /// Mean rate of the run that knows it best; `None` without stamps.
    pub rate: Option<MeanRate>,
    /// Nominal rate at creation.
    pub nominal_rate: Rate,
    /// Unit of its values, or empty.
    pub unit: String,
    /// Civil time of the earliest sample, and end of the latest, UTC ns since 1970.
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
