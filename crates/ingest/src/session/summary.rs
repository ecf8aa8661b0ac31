//! What an import did, as data.

use isochrony_time::{Fixed, MeanRate, Rate};

use crate::{Problem, Problems};

/// What an import did.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// The signals that were fed, by name.
    pub signals: Vec<SignalSummary>,
    /// Files of which something was stored.
    pub files: u64,
    /// Files skipped because they were imported before.
    pub known: u64,
    /// Files skipped because their samples are stored already, under the same stamp, from another file.
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

/// What an import did to one signal, and what the signal is now.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SignalSummary {
    /// Name in the store.
    pub name: String,
    /// Files of which something was stored.
    pub files: u64,
    /// Samples stored by this import.
    pub added: i64,
    /// Files skipped because they were imported before.
    pub known: u64,
    /// Files skipped as duplicates.
    pub duplicates: u64,
    /// Samples that the signal holds now.
    pub samples: i64,
    /// Gaps that it has now.
    pub gaps: u64,
    /// Runs that it has now: one more than its clock steps and overlaps.
    pub runs: u64,
    /// Mean rate, with uncertainty, of the run that knows it best; `None` without stamps.
    pub rate: Option<MeanRate>,
    /// Rate that it was created with.
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

    /// The problem of one path, if it has one.
    #[must_use]
    pub fn problem(&self, path: &str) -> Option<&Problem> {
        self.problems
            .list
            .iter()
            .find(|problem| problem.path == path)
    }
}
