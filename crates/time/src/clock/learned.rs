//! What a clock has learned and carries over gaps and steps: its rate and the
//! scatter of its stamps.
//!
//! Everything is relative to the reference rate (initial or nominal): `x` is a
//! nominal duration in ns, `y` a stamp minus its nominal time in ns, so a slope
//! is dimensionless (1e-6 is one part per million).

use super::config::{COVER, FLOOR_SLOPE, PRIOR_SIGMA};
use super::fit::{Obs, Scatter, Slope};

/// Robust scatter of stamps, from second differences: blind to offset and rate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Jitter {
    /// The last differences, a ring of [`Jitter::MEMORY`].
    ring: Vec<f64>,
    next: usize,
    /// The last two stamps of the present stretch, as `(x, y)`.
    last: [Option<(f64, f64)>; 2],
    sigma: f64,
    bound: f64,
}

impl Jitter {
    const MEMORY: usize = 64;
    /// Differences needed before the scatter is believed.
    const ENOUGH: usize = 4;
    /// Half-width assumed until then, ns: a busy operating system's latency.
    const GUESS_NS: f64 = 100_000.0;
    /// No stamp is better than this, ns: rounding of what lies before us.
    const FLOOR_NS: f64 = 1.0;

    /// Forget neighbours: the next stamp does not follow on the last one.
    pub(crate) fn interrupt(&mut self) {
        self.last = [None; 2];
    }

    pub(crate) fn add(&mut self, x: f64, y: f64) {
        if let [Some((x0, y0)), Some((x1, y1))] = self.last
            && x > x1
            && x1 > x0
        {
            let w = (x1 - x0) / (x - x0);
            let off = y1 - y0 - w * (y - y0);
            // Three stamps of equal variance enter with weights 1, w and 1 - w.
            self.learn(off.abs() / (1.0 + w * w + (1.0 - w) * (1.0 - w)).sqrt());
        }
        self.last = [self.last[1], Some((x, y))];
    }

    fn learn(&mut self, scatter: f64) {
        if self.ring.len() < Self::MEMORY {
            self.ring.push(scatter);
        } else {
            self.ring[self.next] = scatter;
            self.next = (self.next + 1) % Self::MEMORY;
        }
        let mut sorted = self.ring.clone();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
        self.sigma = median / 0.6745;
        // Heavy tails (one-sided latencies) show in the upper decile. Few
        // differences make a poor median, so they are widened.
        let tail = 2.0 * sorted[(n * 9 / 10).min(n - 1)];
        self.bound = (5.0 * self.sigma).max(tail) * (1.0 + 8.0 / n as f64);
    }

    /// Standard deviation of the stamps beyond their resolution, ns.
    pub(crate) fn sigma(&self, resolution: f64) -> f64 {
        if self.ring.len() < Self::ENOUGH {
            return (Self::GUESS_NS - resolution).max(0.0) / 3.0;
        }
        if self.sigma < 0.5 * resolution {
            0.0
        } else {
            self.sigma
        }
    }

    /// Half-width that practically every stamp keeps, beyond its resolution, ns.
    pub(crate) fn bound(&self, resolution: f64) -> f64 {
        if self.ring.len() < Self::ENOUGH {
            return (Self::GUESS_NS - resolution).max(Self::FLOOR_NS);
        }
        // Scatter well below the resolution is the resolution's own rounding.
        if self.sigma < 0.5 * resolution {
            Self::FLOOR_NS
        } else {
            self.bound.max(Self::FLOOR_NS)
        }
    }
}

/// Exponentially weighted regression of stamps on index: the running rate.
///
/// Sums are centred within a stretch; between stretches only the slope's
/// information survives, so an offset never turns into a rate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Running {
    pub(crate) points: u64,
    weight: f64,
    mean_x: f64,
    mean_y: f64,
    sxx: f64,
    sxy: f64,
    /// Weighted count behind `sxx`, over all stretches.
    count: f64,
}

impl Running {
    /// The offset starts anew (gap, step); the slope's evidence stays.
    pub(crate) fn interrupt(&mut self) {
        (self.weight, self.mean_x, self.mean_y) = (0.0, 0.0, 0.0);
    }

    pub(crate) fn add(&mut self, alpha: f64, x: f64, y: f64) {
        for sum in [
            &mut self.weight,
            &mut self.sxx,
            &mut self.sxy,
            &mut self.count,
        ] {
            *sum *= alpha;
        }
        let before = self.weight;
        self.weight += 1.0;
        let (dx, dy) = (x - self.mean_x, y - self.mean_y);
        self.mean_x += dx / self.weight;
        self.mean_y += dy / self.weight;
        let share = before / self.weight;
        self.sxx += share * dx * dx;
        self.sxy += share * dx * dy;
        self.count += 1.0;
        self.points += 1;
    }

    /// Slope and its standard deviation, for stamps of standard deviation `sigma`.
    ///
    /// Rounding to a coarse resolution is no independent noise (a slow clock
    /// rounds the same way for hours), so `correlated` counts all stamps as one.
    pub(crate) fn slope(&self, sigma: f64, correlated: bool) -> (f64, f64) {
        let variance = sigma * sigma * if correlated { self.count.max(1.0) } else { 1.0 };
        let prior = variance / (PRIOR_SIGMA * PRIOR_SIGMA);
        let information = self.sxx + prior;
        if information <= 0.0 {
            return (0.0, PRIOR_SIGMA);
        }
        (self.sxy / information, (variance / information).sqrt())
    }
}

/// Both, with the configured weight of the past.
#[derive(Clone, Debug)]
pub(crate) struct Learned {
    pub(crate) alpha: f64,
    pub(crate) jitter: Jitter,
    pub(crate) running: Running,
}

impl Learned {
    pub(crate) fn new(alpha: f64) -> Self {
        Self {
            alpha,
            jitter: Jitter::default(),
            running: Running::default(),
        }
    }

    /// A gap or a step: neighbours and offset are forgotten.
    pub(crate) fn interrupt(&mut self) {
        self.jitter.interrupt();
        self.running.interrupt();
    }

    pub(crate) fn add(&mut self, obs: &Obs) {
        self.jitter.add(obs.x, obs.centre());
        self.running.add(self.alpha, obs.x, obs.centre());
    }

    pub(crate) fn scatter(&self, resolution: f64) -> Scatter {
        Scatter {
            sigma: self.jitter.sigma(resolution),
            bound: self.jitter.bound(resolution),
        }
    }

    /// The running slope, with what a clock may wander added to its half-width.
    pub(crate) fn slope(&self, resolution: f64) -> Slope {
        let scatter = self.scatter(resolution);
        let sigma = (resolution * resolution / 12.0 + scatter.sigma * scatter.sigma)
            .sqrt()
            .max(0.3);
        let (value, sd) = self.running.slope(sigma, resolution > 2.0 * scatter.bound);
        Slope {
            value,
            half: COVER * sd + FLOOR_SLOPE,
        }
    }
}
