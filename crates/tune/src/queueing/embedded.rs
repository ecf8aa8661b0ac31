//! M/G/1 at departures, as a Markov chain.
//!
//! Needs the distribution of Poisson arrivals during a service: for gamma-distributed times negative binomial, which
//! covers any coefficient of variation (Poisson for constant times, geometric for exponential ones).

const SMALLEST: f64 = 1e-60;

/// Larger weights are scaled to 1. At loads up to [`MAX_UTILIZATION`](super::MAX_UTILIZATION) no weight exceeds the sum
/// of those before by more than 10^44: none overflows.
const LARGEST_WEIGHT: f64 = 1e150;

/// Weights of the states at departures, proportional to probabilities. With room for `K` the chain is the same up to
/// state `K - 1`.
pub(super) struct DepartureChain {
    /// Probability of no arrival during a service.
    none: f64,
    /// `more[k]`: probability of more than `k` arrivals.
    more: Vec<f64>,
    weights: Vec<f64>,
    sum: f64,
}

impl DepartureChain {
    pub(super) fn new(load: f64, service_scv: f64) -> Self {
        let spread = load * service_scv;
        let none = match service_scv > 0.0 {
            true => (-spread.ln_1p() / service_scv).exp(),
            false => (-load).exp(),
        };
        let mut counts = vec![none];
        let mut count = none;
        while count >= SMALLEST || (counts.len() as f64) < load {
            let k = (counts.len() - 1) as f64;
            count *= load * (1.0 + service_scv * k) / ((k + 1.0) * (1.0 + spread));
            counts.push(count);
        }
        // From the far end, so small tails keep their relative precision.
        let mut more = vec![0.0; counts.len()];
        for k in (1..counts.len()).rev() {
            more[k - 1] = more[k] + counts[k];
        }
        Self {
            none,
            more,
            weights: vec![1.0],
            sum: 1.0,
        }
    }

    /// In the long run departures lead from states up to `n` to ones above as often as back, and each way down passes
    /// from `n + 1` to `n`. Hence `none · w[n+1] = w[0] · more[n] + Σ w[k] · more[n+1-k]` for `k` = 1 to `n`: no
    /// differences, so rounding errors do not grow.
    pub(super) fn push(&mut self) {
        let n = self.weights.len() - 1;
        let more = |k: usize| self.more.get(k).copied().unwrap_or(0.0);
        let first = (n + 1).saturating_sub(self.more.len()).max(1);
        let upward: f64 = (first..=n)
            .map(|k| self.weights[k] * more(n + 1 - k))
            .sum::<f64>()
            + self.weights[0] * more(n);
        let next = upward / self.none;
        self.weights.push(next);
        self.sum += next;
        if next > LARGEST_WEIGHT {
            for weight in &mut self.weights {
                *weight /= next;
            }
            self.sum /= next;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.weights.len()
    }

    /// Probability of no items, among the states so far.
    pub(super) fn empty(&self) -> f64 {
        self.weights[0] / self.sum
    }

    /// Probability among the states so far.
    pub(super) fn probability(&self, state: usize) -> f64 {
        self.weights[state] / self.sum
    }

    pub(super) fn ratio(&self, state: usize) -> f64 {
        self.weights[state] / self.weights[0]
    }
}
