use std::time::Duration;

/// Options of a followed signal.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct FollowOptions {
    /// First index read.
    pub start: i64,
    /// Silence without commits that ends the run. None: never.
    pub silence: Option<Duration>,
    /// Samples overdue for this time are given up. None: never.
    pub lateness: Option<Duration>,
    /// Ends once no process has the store open for writing.
    pub while_written: bool,
}

/// Counts over all runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FollowCounts {
    /// Samples delivered to plans.
    pub samples: u64,
    /// Times that new samples were found, including the first.
    pub commits: u64,
    /// Samples committed behind the read position, or after they were given up.
    pub backfilled_samples: u64,
}

impl FollowCounts {
    /// Names and values.
    #[must_use]
    pub fn named(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("samples", self.samples),
            ("commits", self.commits),
            ("backfilled_samples", self.backfilled_samples),
        ]
    }
}
