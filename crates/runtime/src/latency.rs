//! Latencies: a histogram that threads share, and its quantiles.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const CLASSES_PER_DOUBLING: usize = 8;
/// From a microsecond to over an hour.
const DOUBLINGS: usize = 32;

/// Counts latencies in eight classes per factor of two, so quantiles are accurate to a tenth.
#[derive(Debug)]
pub struct LatencyHistogram {
    classes: [AtomicU64; CLASSES_PER_DOUBLING * DOUBLINGS],
    max: AtomicU64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self {
            classes: [const { AtomicU64::new(0) }; CLASSES_PER_DOUBLING * DOUBLINGS],
            max: AtomicU64::new(0),
        }
    }
}

impl LatencyHistogram {
    /// Counts a latency.
    pub fn add(&self, took: Duration) {
        let ns = took.as_nanos().min(u128::from(u64::MAX)) as u64;
        let class = ((ns.max(1000) as f64 / 1000.0).log2() * CLASSES_PER_DOUBLING as f64) as usize;
        self.classes[class.min(CLASSES_PER_DOUBLING * DOUBLINGS - 1)]
            .fetch_add(1, Ordering::Relaxed);
        self.max.fetch_max(ns, Ordering::Relaxed);
    }

    /// The quantiles so far.
    #[must_use]
    pub fn read(&self) -> Latency {
        let counts = self
            .classes
            .each_ref()
            .map(|class| class.load(Ordering::Relaxed));
        let count: u64 = counts.iter().sum();
        let max = Duration::from_nanos(self.max.load(Ordering::Relaxed));
        let quantile = |q: f64| {
            let mut left = (q * count as f64).ceil() as u64;
            let class = counts.iter().position(|&here| {
                left = left.saturating_sub(here);
                left == 0
            });
            let above = class.unwrap_or(0) + 1;
            Duration::from_secs_f64(1e-6 * (above as f64 / CLASSES_PER_DOUBLING as f64).exp2())
                .min(max)
        };
        Latency {
            count,
            median: if count > 0 {
                quantile(0.5)
            } else {
                Duration::ZERO
            },
            p99: if count > 0 {
                quantile(0.99)
            } else {
                Duration::ZERO
            },
            max,
        }
    }
}

/// Quantiles of the time from an item's arrival to the end of its processing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Latency {
    /// Number of measurements.
    pub count: u64,
    /// Accurate to a tenth.
    pub median: Duration,
    /// Accurate to a tenth.
    pub p99: Duration,
    /// Maximum.
    pub max: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_accurate_to_a_tenth() {
        let histogram = LatencyHistogram::default();
        assert_eq!(histogram.read().median, Duration::ZERO);
        for us in 1..=1000 {
            histogram.add(Duration::from_micros(us));
        }
        let latency = histogram.read();
        assert_eq!(
            (latency.count, latency.max),
            (1000, Duration::from_millis(1))
        );
        let within = |got: Duration, want: f64| (0.95..1.1).contains(&(got.as_secs_f64() / want));
        assert!(within(latency.median, 500e-6), "{latency:?}");
        assert!(within(latency.p99, 990e-6), "{latency:?}");
    }
}
