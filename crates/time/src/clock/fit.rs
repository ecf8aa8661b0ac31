//! [`Fit`]: a line through its stamps' corridors, computed online.
//!
//! Each stamp requires `lower <= line(x) <= upper`. Regression towards the prior chooses among feasible slopes
//! (`corridor`). A fit that continues a piece starts at its end, so the metric is continuous.

use super::config::{COVERAGE_SIGMAS, HIDDEN_LATENCY};
use super::corridor::Corridor;
use super::excluded::ExcludedStamps;
use super::model::spread;
use super::observation::{Observation, Scatter, Slope};

/// Samples that may be missing before a contiguous stamp.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HiddenGap {
    pub(crate) reach: f64,
    pub(crate) least: f64,
}

#[derive(Clone, Copy, Debug)]
struct SuspectedGap {
    gap: HiddenGap,
    x: f64,
    y: f64,
    width: f64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FitLine {
    pub(crate) offset: f64,
    pub(crate) slope: Slope,
    pub(crate) uncertainty: f64,
    pub(crate) residual: f64,
}

impl FitLine {
    pub(crate) fn at(&self, x: f64) -> f64 {
        self.offset + self.slope.value * x
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Fit {
    prior: Slope,
    /// Start of a fit that continues another.
    anchor: Option<(f64, f64)>,
    /// Lower bound of the start: time advances.
    floor: Option<f64>,
    early: Vec<Observation>,
    corridor: Corridor,
    sums: RegressionSums,
    y_range: (f64, f64),
    width: f64,
    pub(crate) last: Observation,
    suspect: Option<SuspectedGap>,
}

#[derive(Clone, Copy, Debug, Default)]
struct RegressionSums {
    n: f64,
    weight: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    /// By recursion: sums of squares cancel beside a steep slope.
    sse: f64,
}

impl RegressionSums {
    fn add(&mut self, weight: f64, x: f64, y: f64) {
        let (dx, dy) = (x - self.x, y - self.y);
        if self.xx > 0.0 {
            let off = dy - self.xy / self.xx * dx;
            let leverage = 1.0 / self.weight + dx * dx / self.xx;
            self.sse += off * off / (1.0 / weight + leverage);
        }
        // The square of one distance, never a product of two: means far from zero are rounded.
        let before = self.weight;
        self.weight += weight;
        let share = weight / self.weight;
        self.x += dx * share;
        self.y += dy * share;
        self.xx += before * share * dx * dx;
        self.xy += before * share * dx * dy;
    }
}

impl Fit {
    const KEPT_STAMPS: usize = 24;
    /// Stamps whose slope tells a gap from a rate.
    const MIN_TELLING_STAMPS: f64 = 6.0;
    /// Weight in stamps, which fixes the start.
    const ANCHOR: f64 = 1e9;

    pub(crate) fn new(
        first: Observation,
        prior: Slope,
        floor: Option<f64>,
        scatter: Scatter,
    ) -> Self {
        let mut fit = Self::empty(first, prior);
        fit.floor = floor;
        fit.add(first, scatter);
        fit
    }

    pub(crate) fn anchored(at: Observation, prior: Slope) -> Self {
        let mut fit = Self::empty(at, prior);
        fit.anchor = Some((at.x, at.y));
        fit.reset();
        fit
    }

    fn empty(first: Observation, prior: Slope) -> Self {
        Self {
            prior,
            anchor: None,
            floor: None,
            early: Vec::new(),
            corridor: Corridor::new(),
            sums: RegressionSums::default(),
            y_range: (f64::INFINITY, f64::NEG_INFINITY),
            width: first.width,
            last: first,
            suspect: None,
        }
    }

    pub(crate) fn suspect(&mut self, gap: HiddenGap, obs: &Observation) {
        if self.suspect.is_none_or(|known| known.gap.reach < gap.reach) {
            self.suspect = Some(SuspectedGap {
                gap,
                x: obs.x - self.last.x,
                y: obs.centre() - self.last.centre(),
                width: obs.width.max(self.last.width),
            });
        }
    }

    /// Possible time error from a hidden gap, ns; 0 once later stamps show the rate that explains it.
    fn hidden(&self, slope: Slope) -> f64 {
        let Some(suspect) = &self.suspect else {
            return 0.0;
        };
        if self.sums.n < Self::MIN_TELLING_STAMPS {
            return suspect.gap.reach;
        }
        let unexplained = (suspect.y - slope.value * suspect.x).abs();
        let reach = unexplained + suspect.width + slope.half * suspect.x;
        if reach >= suspect.gap.least {
            reach.min(suspect.gap.reach)
        } else {
            0.0
        }
    }

    fn reset(&mut self) {
        (self.corridor, self.sums) = (Corridor::new(), RegressionSums::default());
        if let Some((x, y)) = self.anchor {
            self.corridor.require(x, y, y, 0.0);
            self.sums.add(Self::ANCHOR, x, y);
        }
    }

    /// Adds a stamp if a line through all corridors remains; else returns `false`, unchanged.
    pub(crate) fn add(&mut self, obs: Observation, scatter: Scatter) -> bool {
        if self.early.len() < Self::KEPT_STAMPS && self.sums.n as usize == self.early.len() {
            self.early.push(obs);
            if !self.rebuilt(scatter) && !self.constrain(obs, scatter) {
                self.early.pop();
                return false;
            }
        } else if self.constrain(obs, scatter) {
            self.early = Vec::new();
        } else {
            return false;
        }
        let (low, high) = self.y_range;
        self.y_range = (low.min(obs.y), high.max(obs.y));
        self.width = self.width.max(obs.width);
        self.last = obs;
        true
    }

    /// Distance from the line if scatter does not explain it. Coarse stamps and young free fits accept every feasible
    /// stamp.
    pub(crate) fn off(&self, obs: &Observation, scatter: Scatter) -> Option<f64> {
        if self.sums.n < 8.0 && self.anchor.is_none() || self.coarse(scatter) {
            return None;
        }
        let off = obs.centre() - self.line(scatter, obs.x, obs.x).at(obs.x);
        (off.abs() > scatter.bound).then_some(off)
    }

    fn rebuilt(&mut self, scatter: Scatter) -> bool {
        let mut anew = self.clone();
        anew.reset();
        let fits = self.early.iter().all(|&obs| anew.constrain(obs, scatter));
        if fits {
            *self = anew;
        }
        fits
    }

    fn constrain(&mut self, obs: Observation, scatter: Scatter) -> bool {
        let (mut low, mut high) = (obs.y - scatter.bound, obs.y + obs.width + scatter.bound);
        if let (None, Some(floor)) = (self.corridor.start(), self.floor) {
            low = low.max(floor);
            high = high.max(low);
        }
        let leeway = 0.25 * obs.width.max(2.0 * scatter.bound);
        if !self.corridor.require(obs.x, low, high, leeway) {
            return false;
        }
        self.sums.add(1.0, obs.x, obs.centre());
        self.sums.n += 1.0;
        true
    }

    pub(crate) fn line(&self, scatter: Scatter, start: f64, end: f64) -> FitLine {
        let slope = self.slope(scatter);
        let (low, high) = self.corridor.offsets(slope.value);
        // Stamps on the reference's ticks start at the first; rounded ones may lie anywhere in their corridor.
        let nominal = self.nominal(scatter);
        let free = if nominal {
            0.0
        } else if self.coarse(scatter) {
            (low + high) / 2.0
        } else {
            self.sums.y - slope.value * self.sums.x
        };
        let chosen = if low <= high {
            free.clamp(low, high)
        } else {
            (low + high) / 2.0
        };
        // Corridors may widen, but time must advance.
        let offset = self.floor.map_or(chosen, |floor| chosen.max(floor));
        let raised = offset - chosen;
        let stamps = self.sums.n.max(1.0);
        let residual = self.residual(slope.value, offset);
        let uncertainty = if self.coarse(scatter) {
            let ends = self
                .spread(slope, offset, start)
                .max(self.spread(slope, offset, end));
            ends + self.resolution_excess()
        } else {
            // Residuals beyond the scatter are wander that a line cannot follow.
            let sigma = self.sigma(scatter);
            // A constant latency cannot be told from time: one sigma.
            let wander = (residual * residual - sigma * sigma).max(0.0).sqrt();
            let beyond = slope.half * (end - self.last.x).max(0.0);
            let rounding = if nominal {
                self.width
            } else {
                self.width / 2.0
            };
            rounding + sigma * (1.0 + 2.0 * COVERAGE_SIGMAS / stamps.sqrt()) + 3.0 * wander + beyond
        };
        FitLine {
            offset,
            slope,
            uncertainty: uncertainty + raised + self.hidden(slope),
            residual,
        }
    }

    /// Slope by regularised regression, kept feasible.
    pub(crate) fn slope(&self, scatter: Scatter) -> Slope {
        let p = self.prior.value;
        let prior_sigma = (self.prior.half / COVERAGE_SIGMAS).max(1e-12);
        let (low, high) = self.corridor.slopes();
        if self.sums.n >= 2.0 && self.nominal(scatter) {
            let span = (self.last.x - self.sums.x).max(1.0);
            return Slope {
                value: 0.0,
                half: ((1.0 + self.width) / span).min(self.prior.half),
            };
        }
        let reach = (
            (p - self.prior.half).max(low),
            (p + self.prior.half).min(high),
        );
        let (from, to) = if reach.0 <= reach.1 {
            reach
        } else {
            (low, high)
        };
        if self.coarse(scatter) {
            let (middle, width) = ((from + to) / 2.0, high - low);
            let trust = 1.0 / (1.0 + width * width / 12.0 / (prior_sigma * prior_sigma));
            let value = (p + trust * (middle - p)).clamp(from, to);
            let start = self.corridor.start().unwrap_or(self.last.x);
            let span = (self.last.x - start).max(1.0);
            let half = (value - from).max(to - value) + 2.0 * self.resolution_excess() / span;
            let half = half.min(self.prior.half);
            return Slope { value, half };
        }
        let variance = spread(scatter.sigma, self.width, self.sums.n);
        let pull = variance / (prior_sigma * prior_sigma);
        let information = self.sums.xx + pull;
        let value = ((self.sums.xy + pull * p) / information).clamp(low, high);
        let half = COVERAGE_SIGMAS * variance.sqrt() * self.excess(scatter) / information.sqrt();
        Slope { value, half }
    }

    /// Whether fine stamps are ticks of the reference to a nanosecond (disciplined digitisers): the metric then goes
    /// through the stamps, not the middle of their last digit.
    pub(crate) fn nominal(&self, scatter: Scatter) -> bool {
        let (low, high) = self.y_range;
        let free = self.anchor.is_none() && !self.coarse(scatter);
        free && high - low <= 1.0 && low.abs() <= 1.0
    }

    /// Scatter about the line over that between neighbours, at least 1: heavy tails, or wander.
    pub(crate) fn excess(&self, scatter: Scatter) -> f64 {
        if self.sums.n < 5.0 {
            return 1.0;
        }
        ((self.sums.sse / (self.sums.n - 2.0)).sqrt() / self.sigma(scatter)).max(1.0)
    }

    /// The observed miss and some constant latency.
    fn resolution_excess(&self) -> f64 {
        2.0 * self.corridor.missed + HIDDEN_LATENCY * self.width
    }

    /// Whether resolution, not scatter, limits the fit: not once stamps miss the corridor by more than rounding.
    pub(crate) fn coarse(&self, scatter: Scatter) -> bool {
        self.width > 2.0 * scatter.bound && self.corridor.missed <= HIDDEN_LATENCY * self.width
    }

    pub(crate) fn sigma(&self, scatter: Scatter) -> f64 {
        (self.width * self.width / 12.0 + scatter.sigma * scatter.sigma)
            .sqrt()
            .max(0.3)
    }

    fn spread(&self, slope: Slope, offset: f64, x: f64) -> f64 {
        let chosen = offset + slope.value * x;
        let (least, greatest) = self.corridor.slopes();
        let mut worst: f64 = 0.0;
        for step in 0..=8 {
            let s = slope.value + slope.half * (f64::from(step) / 4.0 - 1.0);
            let s = s.clamp(least, greatest);
            let (low, high) = self.corridor.offsets(s);
            if low <= high {
                worst = worst
                    .max((low + s * x - chosen).abs())
                    .max((high + s * x - chosen).abs());
            }
        }
        worst
    }

    /// RMS distance of the stamps' centres, excluded ones included.
    pub(crate) fn residual_with(&self, line: &FitLine, excluded: &ExcludedStamps) -> f64 {
        if excluded.count == 0.0 {
            return line.residual;
        }
        let own = line.residual * line.residual * self.sums.n;
        let others = excluded.squares(line.offset, line.slope.value);
        ((own + others) / (self.sums.n + excluded.count)).sqrt()
    }

    /// RMS distance of the fitted stamps' centres.
    fn residual(&self, slope: f64, offset: f64) -> f64 {
        let s = &self.sums;
        if s.n == 0.0 {
            return 0.0;
        }
        let middle = if self.anchor.is_some() {
            0.0
        } else {
            s.y - offset - slope * s.x
        };
        let turn = if s.xx > 0.0 { slope - s.xy / s.xx } else { 0.0 };
        ((s.sse + turn * turn * s.xx + s.weight * middle * middle) / s.n).sqrt()
    }
}
