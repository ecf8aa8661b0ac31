//! Clock properties kept across gaps and steps.

use super::config::{
    COARSE_NS, COVERAGE_SIGMAS, GUESS_NS, HIDDEN_LATENCY, MAX_SLOPE, MIN_SLOPE_UNCERTAINTY,
    PRIOR_SIGMA,
};
use super::observation::{Observation, Scatter, Slope};

/// From second differences: independent of offset and rate.
#[derive(Clone, Debug)]
pub(crate) struct Jitter {
    guess: f64,
    ring: Vec<f64>,
    next: usize,
    /// As `(x, y)`, since the last gap.
    last: [Option<(f64, f64)>; 2],
    sigma: f64,
    bound: f64,
    worst: f64,
}

impl Jitter {
    const MEMORY: usize = 64;
    const MIN_DIFFERENCES: usize = 12;
    /// Differences needed to exclude chance.
    const MIN_SEEN: usize = 2;
    const FLOOR_NS: f64 = 1.0;

    fn new(period_ns: f64) -> Self {
        let guess = (0.25 * period_ns).max(GUESS_NS);
        Self {
            guess,
            ring: Vec::new(),
            next: 0,
            last: [None; 2],
            sigma: 0.0,
            bound: 0.0,
            worst: 0.0,
        }
    }

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
            // Three stamps of equal variance have weights 1, w and 1 - w.
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
        self.worst = sorted[n - 1];
        // The upper decile shows heavy tails (one-sided latencies); the margin allows for few differences.
        let tail = 2.0 * sorted[(n * 9 / 10).min(n - 1)];
        self.bound = (5.0 * self.sigma).max(tail) * (1.0 + 12.0 / n as f64);
    }

    pub(crate) fn known(&self) -> bool {
        self.ring.len() >= Self::MIN_DIFFERENCES
    }

    /// Largest scatter so far, if beyond chance; ns.
    pub(crate) fn seen(&self) -> Option<f64> {
        (self.ring.len() >= Self::MIN_SEEN).then_some(self.worst.max(Self::FLOOR_NS))
    }

    pub(crate) fn exceeds(&self, resolution: f64) -> bool {
        self.worst > resolution + Self::FLOOR_NS
    }

    /// Whether rounding explains every difference: below one resolution between a stamp and its neighbours' middle,
    /// over sqrt(1.5) by normalisation.
    pub(crate) fn only_rounding(&self, resolution: f64) -> bool {
        self.worst <= 0.82 * resolution
    }

    /// Standard deviation beyond the resolution, ns.
    pub(crate) fn sigma(&self, resolution: f64) -> f64 {
        if !self.known() {
            return (self.guess - resolution).max(0.0) / 3.0;
        }
        if resolution >= COARSE_NS && self.only_rounding(resolution) {
            0.0
        } else {
            self.sigma
        }
    }

    /// Half-width that practically every stamp keeps, beyond its resolution, ns. If rounding explains coarse stamps,
    /// leaves room for hidden latency: near the turn of a second, milliseconds decide which second is named. Others get
    /// at least a resolution, at no cost to a regression.
    pub(crate) fn bound(&self, resolution: f64) -> f64 {
        let few = !self.known();
        if resolution >= COARSE_NS && (few || self.only_rounding(resolution)) {
            return HIDDEN_LATENCY * resolution;
        }
        let scatter = if few {
            self.guess
        } else {
            self.bound.max(Self::FLOOR_NS)
        };
        scatter.max(resolution)
    }
}

/// How long stamps have kept to the ticks of the reference rate. Stamps of a disciplined digitiser do; with latency or
/// drift, three in a row never do. So one sample off means one lost sample, even before the scatter is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TickStreak {
    stamps: u32,
    /// Longest nominal duration, ns.
    span: f64,
}

impl TickStreak {
    /// `range` is that of all offsets since the last gap.
    pub(crate) fn follow(&mut self, x: f64, range: f64, width: f64) {
        if range <= width.max(Jitter::FLOOR_NS) {
            self.stamps += 1;
            self.span = self.span.max(x);
        } else {
            *self = Self::default();
        }
    }

    /// Half-width of the rate; `None`: not steady.
    pub(crate) fn slope(&self, width: f64) -> Option<f64> {
        (self.stamps >= 2).then(|| (Jitter::FLOOR_NS + width) / self.span.max(1.0))
    }
}

/// Exponentially weighted regression of stamps on index. Sums are centred between gaps; only slopes survive a gap, so
/// an offset never becomes a rate.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunningRate {
    pub(crate) points: u64,
    weight: f64,
    mean_x: f64,
    mean_y: f64,
    sxx: f64,
    sxy: f64,
    count: f64,
}

impl RunningRate {
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

    /// Slope and its standard deviation. Rounding errors are correlated (a slow clock rounds alike for hours): all
    /// stamps together count as one.
    pub(crate) fn slope(&self, sigma: f64, resolution: f64) -> (f64, f64) {
        let variance = spread(sigma, resolution, self.count);
        let prior = variance / (PRIOR_SIGMA * PRIOR_SIGMA);
        let information = self.sxx + prior;
        if information <= 0.0 {
            return (0.0, PRIOR_SIGMA);
        }
        (self.sxy / information, (variance / information).sqrt())
    }
}

/// Variance of one of `count` stamps in a regression, ns^2.
pub(crate) fn spread(sigma: f64, resolution: f64, count: f64) -> f64 {
    let rounding = resolution * resolution / 12.0 * count.max(1.0);
    (rounding + sigma * sigma).max(0.09)
}

#[derive(Clone, Debug)]
pub(crate) struct ClockModel {
    pub(crate) alpha: f64,
    pub(crate) jitter: Jitter,
    pub(crate) running: RunningRate,
    pub(crate) steady: TickStreak,
    /// With a third of the memory: a difference shows a wandering rate, behind which the longer one lags.
    quick: RunningRate,
}

impl ClockModel {
    pub(crate) fn new(alpha: f64, period_ns: f64) -> Self {
        Self {
            alpha,
            jitter: Jitter::new(period_ns),
            running: RunningRate::default(),
            steady: TickStreak::default(),
            quick: RunningRate::default(),
        }
    }

    pub(crate) fn interrupt(&mut self) {
        self.jitter.interrupt();
        self.interrupt_rate();
    }

    pub(crate) fn interrupt_rate(&mut self) {
        self.running.interrupt();
        self.quick.interrupt();
    }

    /// Two stamps mistook the step for a rate, which is forgotten; more have outweighed it.
    pub(crate) fn step_found(&mut self) {
        if self.running.points <= 2 {
            (self.running, self.quick) = (RunningRate::default(), RunningRate::default());
        }
        self.interrupt_rate();
    }

    pub(crate) fn add_rate(&mut self, obs: &Observation) {
        let quick = (1.0 - 3.0 * (1.0 - self.alpha)).max(0.5 * self.alpha);
        self.running.add(self.alpha, obs.x, obs.centre());
        self.quick.add(quick, obs.x, obs.centre());
    }

    pub(crate) fn scatter(&self, resolution: f64) -> Scatter {
        Scatter {
            sigma: self.jitter.sigma(resolution),
            bound: self.jitter.bound(resolution),
        }
    }

    /// The half-width includes wander.
    pub(crate) fn slope(&self, resolution: f64) -> Slope {
        let scatter = self.scatter(resolution);
        let (value, sd) = self.running.slope(scatter.sigma, resolution);
        let (recent, recent_sd) = self.quick.slope(scatter.sigma, resolution);
        let lag = 2.0 * ((recent - value).abs() - recent_sd).max(0.0);
        // Unbounded, this would accept any gap.
        Slope {
            value: value.clamp(-MAX_SLOPE, MAX_SLOPE),
            half: (COVERAGE_SIGMAS * sd + lag + MIN_SLOPE_UNCERTAINTY).min(MAX_SLOPE),
        }
    }
}
