//! How a signal is followed, and what a run counts.

use std::time::Duration;

/// How a stored signal is followed.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct FollowOptions {
    /// Index from which on it is read.
    pub start: i64,
    /// It ends when nothing was committed for so long; None: not for that.
    pub silence: Option<Duration>,
    /// It ends when nobody has the store open for writing any more.
    pub while_written: bool,
}

/// What became of a signal that is followed, over all runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FollowCounts {
    /// Samples that went to plans.
    pub samples: u64,
    /// Times that there was something new, the first included.
    pub commits: u64,
    /// Samples that were put behind the place that was read, and so did not come.
    pub backfilled_samples: u64,
}

impl FollowCounts {
    /// Names and numbers.
    #[must_use]
    pub fn named(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("samples", self.samples),
            ("commits", self.commits),
            ("backfilled_samples", self.backfilled_samples),
        ]
    }
}
