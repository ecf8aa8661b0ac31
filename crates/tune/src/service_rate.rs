//! Service rates from queue counters: the rate of a server that never waits.
//!
//! A monitor reads and clears a queue's counters once per sampling period. Source: chapter 6 of Beard, *Online Modeling
//! and Tuning of Parallel Stream Processing Systems* (dissertation, Washington University in St. Louis, 2015), except
//! for the default method.
//!
//! # Sampling period
//! 128 samples judge a period by the table; it is also too short if more than an eighth of them are off by more than 10
//! %. It is doubled or halved until both bounds are known; then their geometric mean is tried, until they are within a
//! factor of 1.25 (failure). The utilization law prefers half of a period reached from above, which may hide short
//! services.
//!
//! | method | too short | too long | lengthened, though usable |
//! |---|---|---|---|
//! | `UtilizationLaw` | fewer than 1/32 items | more than 10 % of periods blocked, and in more than 6 % of unblocked pairs both periods have items | never |
//! | `FilteredQuantile` | fewer than 4 items | more than 90 % of periods blocked | no period blocked, fewer than 64 items |
//!
//! # Methods
//! [`RateMethod::FilteredQuantile`] (the dissertation's): the last 32 unblocked counts pass a Gaussian filter of radius
//! 2 (eq. 6.2); mean plus 1.64485 standard deviations estimates their 95 % quantile (eq. 6.3); the rate is the running
//! mean of the quantiles. It is known when the standard error of that mean, after a Laplacian-of-Gaussian filter (eq.
//! 6.4), stays within 2e-6 of the rate for 16 quantiles in a row. Corrections: the kernel of eq. 6.2 sums to 1
//! (printed: 0.991), that of eq. 6.4 to 0 (printed: -0.6), and the tolerance is relative (printed: 5e-7, absolute).
//!
//! [`RateMethod::UtilizationLaw`] (distribution-free): throughput divided by utilisation, the server's busy share. A
//! short wait blocks a whole period, so the unblocked shares of single periods and of consecutive pairs are
//! extrapolated linearly to zero length. The rate is known when the jackknife standard error over 16 to 32 batches is
//! within [`ServiceRateOptions::relative_error`], utilisation is at least 0.4, and the period is short enough: less
//! than 10 % of periods block, or it resolves single services and a quadratic extrapolation over three periods differs
//! by less than 5 %. If only the last fails, shorter periods are tried.
//!
//! Simulated mean estimates over the truth, for deterministic, exponential, normal (20 %) and bimodal (1 : 11) service,
//! by utilisation: random arrivals, mean service 1 ms, periods off by 5 %, an item lost in 1 % of samples, first period
//! 0.1 or 10 ms; unknown where fewer than half of 50 attempts converge (test
//! `mean_estimates_are_those_of_the_documented_table`):
//!
//! | method | 0.3 | 0.5 | 0.6 | 0.7 | 0.9 | 0.98 |
//! |---|---|---|---|---|---|---|
//! | `UtilizationLaw` | unknown | 0.99–1.01 | 0.99 | 0.98–1.00 | 0.99–1.00 | 1.00 |
//! | `FilteredQuantile` | unknown | unknown (bimodal: 0.78) | 0.90–1.06 | 1.04–1.05 | 1.03–1.31 | 1.02–1.39 |
//!
//! The filtered quantile has two biases, which cancel only by chance: a 95 % quantile exceeds the mean, and unblocked
//! periods are those with slow services. The utilization law has neither: from utilisation 0.5 on, at least 90 % of its
//! estimates are within 10 %, also for regular arrivals and bursts (tests
//! `utilization_law_is_within_a_tenth_or_unknown`, `utilization_law_does_not_depend_on_the_arrivals`). At utilisation
//! 0.7 half of the attempts take fewer than 2,000 samples for deterministic and normal, 13,000 for exponential and
//! 32,000 for bimodal service.
//!
//! Options and limits were chosen by simulation only.
//!
//! If the shortest period exceeds a service, the utilization law needs a server that waits in less than 10 % of
//! periods.
//!
//! # Changes
//! A two-sided CUSUM compares the logarithms of the rates of blocks, of 64 samples (`UtilizationLaw`) or 32 unblocked
//! periods (`FilteredQuantile`), with earlier ones. In standard deviations: steps are limited to 4, 0.5 are allowed,
//! and a sum of 12 signals a change. Simulated at utilisations 0.7 and 0.9 (tests `changes_by_two_and_ten_are_noticed`,
//! `false_alarms_are_rare`):
//!
//! | samples to notice | `UtilizationLaw` | `FilteredQuantile` |
//! |---|---|---|
//! | ten times slower | up to 1,024 | up to 512 |
//! | half as fast | up to 4,096 | up to 512 |
//! | twice as fast | up to 4,096 | not always |
//! | ten times faster | up to 1,024 | up to 4,096 |
//! | false alarms in 10,000 samples | below 0.05 | below 0.15 |

use serde::{Deserialize, Serialize};

use crate::TuneError;

mod change;
mod monitor;
mod period;
mod quantile;
mod stats;
mod utilization_law;

pub use monitor::ServiceRateMonitor;

/// End of a queue with the estimated server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueEnd {
    /// Server that takes items.
    #[default]
    Reader,
    /// Server that puts items.
    Writer,
}

/// Estimation method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateMethod {
    /// Throughput over busy share.
    #[default]
    UtilizationLaw,
    /// Mean of 95 % quantiles of filtered counts.
    FilteredQuantile,
}

/// Queue counters of one sampling period.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PeriodSample {
    /// Seconds since the last sample; finite and above 0.
    pub elapsed_s: f64,
    /// Items that passed the estimated end.
    pub items: u64,
    /// Whether the reader waited, for items or for room in its output.
    pub reader_blocked: bool,
    /// Whether the writer waited, for room or for its input.
    pub writer_blocked: bool,
}

impl PeriodSample {
    /// A sample without waiting.
    pub fn unblocked(elapsed_s: f64, items: u64) -> Self {
        Self {
            elapsed_s,
            items,
            reader_blocked: false,
            writer_blocked: false,
        }
    }
}

/// Why a service rate is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UnknownRate {
    /// The first attempt is running.
    #[error("{samples} samples so far are too few; keep sampling")]
    TooFewSamples {
        /// Samples of the attempt.
        samples: u64,
    },
    /// The server waited in every period.
    #[error(
        "the server waited in each of {samples} periods; give it work, or sample while it has some"
    )]
    NeverUnblocked {
        /// Samples of the attempt.
        samples: u64,
    },
    /// Even the longest period is unstable.
    #[error(
        "sampling periods of {period_s} s are off by more than 10 %; raise max_period_s, or run the monitor on a core of its own"
    )]
    PeriodUnstable {
        /// Longest period tried.
        period_s: f64,
    },
    /// Too few items even in the longest period.
    #[error("too few items pass in a period of {period_s} s; raise max_period_s")]
    TooFewItems {
        /// Longest period tried.
        period_s: f64,
    },
    /// The server waits in most periods, or between services shorter than the shortest period.
    #[error(
        "the server waits too often in periods of {period_s} s; lower min_period_s, or give it more work"
    )]
    PeriodTooLong {
        /// Shortest period tried.
        period_s: f64,
    },
    /// Sufficiently long periods are too long.
    #[error(
        "a period of {too_short_s} s is unstable or holds too few items, and in one of {too_long_s} s the server waits too often; give it more work"
    )]
    NoPeriod {
        /// Longest period that is too short.
        too_short_s: f64,
        /// Shortest period that is too long.
        too_long_s: f64,
    },
    /// The server waits most of the time.
    #[error(
        "the server is busy in a share of {utilization} of the time and at least 0.4 is needed; give it more work"
    )]
    LowUtilization {
        /// Estimated share, 0 to 1.
        utilization: f64,
    },
    /// The estimate did not settle.
    #[error(
        "the estimate did not settle within {samples} samples; raise max_samples or relative_error"
    )]
    NotConverged {
        /// Samples of the attempt.
        samples: u64,
    },
}

/// A service rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceRate {
    /// Not known.
    Unknown {
        /// Reason.
        why: UnknownRate,
    },
    /// Known with an error.
    Known {
        /// Rate.
        items_per_second: f64,
        /// Standard error in items per second, without bias.
        standard_error: f64,
        /// Samples in the estimate.
        samples: u64,
    },
}

/// Effect of a sample on a monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RateProgress {
    /// Searching a sampling period.
    Searching,
    /// Collecting samples for an estimate.
    Estimating,
    /// The rate is now known.
    Converged,
    /// Known, and watched for changes.
    Watching,
    /// The rate has changed; the search restarts.
    Changed,
    /// The attempt failed ([`ServiceRateMonitor::rate`]); the search restarts.
    Failed,
}

/// Options of a [`ServiceRateMonitor`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ServiceRateOptions {
    /// Estimated end of the queue.
    pub end: QueueEnd,
    /// Estimation method.
    pub method: RateMethod,
    /// First period tried; `min_period_s` to `max_period_s`.
    pub first_period_s: f64,
    /// Shortest period in seconds; above 0.
    pub min_period_s: f64,
    /// Longest period in seconds; finite, at least `min_period_s`.
    pub max_period_s: f64,
    /// Relative standard error at which a [`RateMethod::UtilizationLaw`] estimate is known; above 0 and below 1.
    pub relative_error: f64,
    /// Samples, with the search, after which an attempt fails; at least 2,048.
    pub max_samples: u64,
}

impl Default for ServiceRateOptions {
    fn default() -> Self {
        Self {
            end: QueueEnd::Reader,
            method: RateMethod::UtilizationLaw,
            first_period_s: 100e-6,
            min_period_s: 10e-6,
            max_period_s: 0.1,
            relative_error: 0.03,
            max_samples: 65_536,
        }
    }
}

impl ServiceRateOptions {
    fn check(&self) -> Result<(), TuneError> {
        let unless = |holds, parameter, got: String, allowed| {
            TuneError::unless(holds, parameter, got, allowed, "ServiceRateOptions")
        };
        let (min, max, first) = (self.min_period_s, self.max_period_s, self.first_period_s);
        unless(
            min > 0.0,
            "min_period_s",
            min.to_string(),
            "above 0 seconds",
        )?;
        unless(
            max.is_finite() && max >= min,
            "max_period_s",
            max.to_string(),
            "finite and at least min_period_s",
        )?;
        unless(
            (min..=max).contains(&first),
            "first_period_s",
            first.to_string(),
            "min_period_s to max_period_s",
        )?;
        unless(
            self.relative_error > 0.0 && self.relative_error < 1.0,
            "relative_error",
            self.relative_error.to_string(),
            "above 0 and below 1",
        )?;
        unless(
            self.max_samples >= 2_048,
            "max_samples",
            self.max_samples.to_string(),
            "at least 2048",
        )
    }
}

#[derive(Debug, Clone, Copy)]
enum Estimate {
    Pending,
    PeriodTooLong,
    LowUtilization {
        utilization: f64,
    },
    Converged {
        items_per_second: f64,
        standard_error: f64,
        samples: u64,
    },
}

impl Estimate {
    fn known(&self) -> Option<ServiceRate> {
        match *self {
            Self::Converged {
                items_per_second,
                standard_error,
                samples,
            } => Some(ServiceRate::Known {
                items_per_second,
                standard_error,
                samples,
            }),
            Self::Pending | Self::PeriodTooLong | Self::LowUtilization { .. } => None,
        }
    }
}
