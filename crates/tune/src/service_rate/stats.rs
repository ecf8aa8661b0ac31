//! Running mean and standard deviation.

/// By Welford's method.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RunningStats {
    count: u64,
    mean: f64,
    squares: f64,
}

impl RunningStats {
    pub(super) fn push(&mut self, value: f64) {
        self.count += 1;
        let off = value - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (value - self.mean);
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn mean(&self) -> f64 {
        self.mean
    }

    /// With `count - 1` degrees of freedom; 0 for fewer than two values.
    pub(super) fn deviation(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        (self.squares / (self.count - 1) as f64).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::RunningStats;

    #[test]
    fn equals_two_passes_far_from_zero() {
        let values: Vec<f64> = (0..100).map(|i| 1e9 + f64::from(i * i % 17)).collect();
        let mut running = RunningStats::default();
        values.iter().for_each(|&value| running.push(value));
        let mean = values.iter().sum::<f64>() / 100.0;
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 99.0;
        assert_eq!(running.count(), 100);
        assert!((running.mean() - mean).abs() < 1e-6);
        assert!((running.deviation() / variance.sqrt() - 1.0).abs() < 1e-7);
    }
}
