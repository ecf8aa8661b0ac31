//! [`LoadWatch`]: detects a change of throughput.

use crate::Window;

/// A smaller relative change is noise.
const MIN_CHANGE: f64 = 0.05;
/// In standard deviations (Page, Biometrika 41, 1954: one-sided cumulative sums).
const DRIFT: f64 = 1.0;
const ALARM: f64 = 8.0;
/// Least deviation of the logarithm of throughput: few windows underestimate it.
const MIN_DEVIATION: f64 = 0.02;
const MEMORY: f64 = 50.0;

pub(super) struct LoadWatch {
    mean: f64,
    deviation: f64,
    up: f64,
    down: f64,
    since_up: (f64, f64),
    since_down: (f64, f64),
}

impl LoadWatch {
    pub(super) fn new(windows: &[Window]) -> Self {
        let rates: Vec<f64> = windows
            .iter()
            .map(|window| log_rate(window.rate()))
            .collect();
        Self {
            mean: mean(&rates),
            deviation: deviation(&rates),
            up: 0.0,
            down: 0.0,
            since_up: (0.0, 0.0),
            since_down: (0.0, 0.0),
        }
    }

    /// Of the logarithm of throughput, window by window.
    pub(super) fn deviation(&self) -> f64 {
        self.deviation
    }

    /// Returns new over old throughput if it has changed.
    pub(super) fn add(&mut self, rate: f64) -> Option<f64> {
        let rate = log_rate(rate);
        let step = (rate - self.mean) / self.deviation;
        let sums = [
            (&mut self.up, &mut self.since_up, step),
            (&mut self.down, &mut self.since_down, -step),
        ];
        let mut changed = None;
        for (sum, since, step) in sums {
            *sum = (*sum + step - DRIFT).max(0.0);
            *since = match *sum > 0.0 {
                true => (since.0 + 1.0, since.1 + rate),
                false => (0.0, 0.0),
            };
            if *sum > ALARM {
                let ratio = (since.1 / since.0 - self.mean).exp();
                if (ratio - 1.0).abs() > MIN_CHANGE {
                    changed = Some(ratio);
                }
            }
        }
        self.mean += (rate - self.mean) / MEMORY;
        changed
    }
}

/// Finite also for an empty window.
pub(super) fn log_rate(rate: f64) -> f64 {
    rate.max(f64::MIN_POSITIVE.sqrt()).ln()
}

pub(super) fn mean(log_rates: &[f64]) -> f64 {
    log_rates.iter().sum::<f64>() / log_rates.len().max(1) as f64
}

/// At least [`MIN_DEVIATION`].
pub(super) fn deviation(log_rates: &[f64]) -> f64 {
    let mean = mean(log_rates);
    let squares: f64 = log_rates.iter().map(|rate| (rate - mean).powi(2)).sum();
    let freedom = log_rates.len().saturating_sub(1).max(1);
    (squares / freedom as f64).sqrt().max(MIN_DEVIATION)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch() -> LoadWatch {
        let window = |rate: f64| Window {
            elapsed_s: 1.0,
            delivered: rate,
            ..Window::default()
        };
        LoadWatch::new(&[window(99.0), window(101.0), window(100.0)])
    }

    #[test]
    fn noise_is_no_change() {
        let mut watch = watch();
        let mut random = fastrand::Rng::with_seed(3);
        let alarms = (0..2000).filter(|_| watch.add(100.0 + 6.0 * (random.f64() - 0.5)).is_some());
        assert_eq!(alarms.count(), 0);
    }

    #[test]
    fn a_fall_by_a_third_is_noticed_within_three_windows() {
        let mut watch = watch();
        let ratios: Vec<f64> = (0..3).filter_map(|_| watch.add(67.0)).collect();
        assert!((ratios[0] - 0.67).abs() < 0.02, "{ratios:?}");
    }

    #[test]
    fn a_rise_is_noticed_and_slow_drift_is_not() {
        let mut watch = watch();
        for at in 0..400 {
            assert_eq!(watch.add(100.0 * 1.0002f64.powi(at)), None);
        }
        assert!((0..4).any(|_| watch.add(140.0).is_some()));
    }
}
