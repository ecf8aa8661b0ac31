//! Searches a period, estimates, watches for changes.

use super::change::ChangeDetector;
use super::period::{Found, PeriodSearch};
use super::quantile::FilteredQuantile;
use super::stats::RunningStats;
use super::utilization_law::UtilizationLaw;
use super::{
    Estimate, PeriodSample, QueueEnd, RateMethod, RateProgress, ServiceRate, ServiceRateOptions,
    UnknownRate,
};
use crate::TuneError;

/// Estimates the service rate at one end of a queue.
///
/// The caller waits [`period_s`](Self::period_s), reads and clears the queue's counters, and calls
/// [`push`](Self::push), which takes constant time and allocates nothing.
///
/// ```
/// use isochrony_tune::service_rate::{
///     PeriodSample, ServiceRate, ServiceRateMonitor, ServiceRateOptions,
/// };
///
/// let mut monitor = ServiceRateMonitor::new(ServiceRateOptions::default())?;
/// let mut random = fastrand::Rng::with_seed(1);
/// for _ in 0..4_000 {
///     // A reader that always has items and takes 20,000 a second.
///     let expected = 20_000.0 * monitor.period_s();
///     let items = (expected + random.f64()) as u64;
///     monitor.push(PeriodSample::unblocked(monitor.period_s(), items))?;
/// }
/// let ServiceRate::Known { items_per_second, .. } = monitor.rate() else {
///     panic!("{:?}", monitor.rate())
/// };
/// assert!((items_per_second / 20_000.0 - 1.0).abs() < 0.05);
/// # Ok::<(), isochrony_tune::TuneError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ServiceRateMonitor {
    options: ServiceRateOptions,
    period_s: f64,
    phase: Phase,
    failure: Option<UnknownRate>,
    attempt_samples: u64,
    changes: u64,
}

#[derive(Debug, Clone)]
enum Phase {
    Search(PeriodSearch),
    Estimate(Estimator),
    Watch {
        estimator: Estimator,
        detector: ChangeDetector,
        known: ServiceRate,
    },
}

// A box would only add a pointer.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone)]
enum Estimator {
    UtilizationLaw(UtilizationLaw),
    FilteredQuantile(FilteredQuantile),
}

impl Estimator {
    fn new(options: &ServiceRateOptions) -> Self {
        match options.method {
            RateMethod::UtilizationLaw => {
                Self::UtilizationLaw(UtilizationLaw::new(options.relative_error))
            }
            RateMethod::FilteredQuantile => Self::FilteredQuantile(FilteredQuantile::new()),
        }
    }

    fn push(&mut self, sample: &PeriodSample, blocked: bool) -> Option<f64> {
        match self {
            Self::UtilizationLaw(estimator) => estimator.push(sample, blocked),
            Self::FilteredQuantile(estimator) => estimator.push(sample, blocked),
        }
    }

    fn estimate(&self) -> Estimate {
        match self {
            Self::UtilizationLaw(estimator) => estimator.estimate(),
            Self::FilteredQuantile(estimator) => estimator.estimate(),
        }
    }

    fn logarithms(&self) -> &RunningStats {
        match self {
            Self::UtilizationLaw(estimator) => estimator.logarithms(),
            Self::FilteredQuantile(estimator) => estimator.logarithms(),
        }
    }
}

impl ServiceRateMonitor {
    /// A monitor without samples.
    ///
    /// # Errors
    /// [`TuneError::Parameter`] for an option outside its range.
    pub fn new(options: ServiceRateOptions) -> Result<Self, TuneError> {
        options.check()?;
        let mut monitor = Self {
            options,
            period_s: options.first_period_s,
            phase: Phase::Estimate(Estimator::new(&options)),
            failure: None,
            attempt_samples: 0,
            changes: 0,
        };
        monitor.search_from(options.first_period_s);
        Ok(monitor)
    }

    /// Length of the next sampling period in seconds.
    pub fn period_s(&self) -> f64 {
        self.period_s
    }

    /// Number of rate changes noticed.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The service rate, as far as known.
    pub fn rate(&self) -> ServiceRate {
        let samples = match &self.phase {
            Phase::Watch { known, .. } => return *known,
            Phase::Search(_) | Phase::Estimate(_) => self.attempt_samples,
        };
        let why = self
            .failure
            .unwrap_or(UnknownRate::TooFewSamples { samples });
        ServiceRate::Unknown { why }
    }

    /// Adds a sample and returns its effect.
    ///
    /// # Errors
    /// [`TuneError::Parameter`] unless `elapsed_s` is finite and above 0; the sample is then unused.
    pub fn push(&mut self, sample: PeriodSample) -> Result<RateProgress, TuneError> {
        let legal = sample.elapsed_s.is_finite() && sample.elapsed_s > 0.0;
        TuneError::unless(
            legal,
            "elapsed_s",
            sample.elapsed_s,
            "finite and above 0 seconds",
            "ServiceRateMonitor::push",
        )?;
        let blocked = match self.options.end {
            QueueEnd::Reader => sample.reader_blocked,
            QueueEnd::Writer => sample.writer_blocked,
        };
        self.attempt_samples += 1;
        Ok(match &mut self.phase {
            Phase::Search(search) => {
                let found = search.push(&sample, blocked);
                self.period_s = search.period_s();
                match found {
                    None => RateProgress::Searching,
                    Some(Found::Period(period_s)) => {
                        self.period_s = period_s;
                        self.phase = Phase::Estimate(Estimator::new(&self.options));
                        RateProgress::Estimating
                    }
                    Some(Found::Failure(why)) => self.fail(why, self.options.first_period_s),
                }
            }
            Phase::Estimate(estimator) => {
                estimator.push(&sample, blocked);
                self.continue_estimate()
            }
            Phase::Watch {
                estimator,
                detector,
                known,
            } => {
                let logarithm = estimator.push(&sample, blocked);
                if let Some(refined) = estimator.estimate().known() {
                    *known = refined;
                }
                if logarithm.is_some_and(|logarithm| detector.push(logarithm)) {
                    self.changes += 1;
                    self.failure = None;
                    self.attempt_samples = 0;
                    self.search_from(self.period_s);
                    RateProgress::Changed
                } else {
                    RateProgress::Watching
                }
            }
        })
    }

    fn continue_estimate(&mut self) -> RateProgress {
        let Phase::Estimate(estimator) = &self.phase else {
            unreachable!("called while estimating")
        };
        let samples = self.attempt_samples;
        let is_last = samples >= self.options.max_samples;
        match estimator.estimate() {
            Estimate::PeriodTooLong if self.period_s <= self.options.min_period_s => {
                let period_s = self.period_s;
                self.fail(UnknownRate::PeriodTooLong { period_s }, period_s)
            }
            Estimate::Pending | Estimate::PeriodTooLong if is_last => {
                self.fail(UnknownRate::NotConverged { samples }, self.period_s)
            }
            Estimate::PeriodTooLong => {
                self.search_from(self.period_s / 1.5);
                RateProgress::Searching
            }
            Estimate::Pending => RateProgress::Estimating,
            Estimate::LowUtilization { utilization } => {
                self.fail(UnknownRate::LowUtilization { utilization }, self.period_s)
            }
            estimate @ Estimate::Converged { .. } => {
                let detector = ChangeDetector::new(estimator.logarithms());
                let estimator = estimator.clone();
                let known = estimate.known().expect("a converged estimate is known");
                self.failure = None;
                self.phase = Phase::Watch {
                    estimator,
                    detector,
                    known,
                };
                RateProgress::Converged
            }
        }
    }

    fn fail(&mut self, why: UnknownRate, period_s: f64) -> RateProgress {
        self.failure = Some(why);
        self.attempt_samples = 0;
        self.search_from(period_s);
        RateProgress::Failed
    }

    fn search_from(&mut self, period_s: f64) {
        let options = &self.options;
        let search = PeriodSearch::new(
            options.method,
            options.min_period_s,
            options.max_period_s,
            period_s,
        );
        self.period_s = search.period_s();
        self.phase = Phase::Search(search);
    }
}
