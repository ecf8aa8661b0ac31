//! [`Corridor`]: all lines through the intervals so far.
//!
//! Feasible slopes satisfy every pair of intervals. Only vertices of the convex hulls of lower and upper ends can be
//! contradicted later (O'Rourke 1981), so memory is bounded.

use super::config::MAX_SLOPE;

#[derive(Clone, Debug)]
pub(crate) struct Corridor {
    lower: Vec<(f64, f64)>,
    upper: Vec<(f64, f64)>,
    smin: f64,
    smax: f64,
    /// How far stamps lie outside their stated resolution.
    pub(crate) missed: f64,
}

impl Corridor {
    /// Larger hulls lose every second vertex: only a steady curve has so many, nearly redundant.
    const MAX_HULL: usize = 128;

    pub(crate) fn new() -> Self {
        let (lower, upper) = (Vec::new(), Vec::new());
        Self {
            lower,
            upper,
            smin: -MAX_SLOPE,
            smax: MAX_SLOPE,
            missed: 0.0,
        }
    }

    /// Requires `low <= line(x) <= high`, for ascending `x`. An interval that misses every feasible line by at most
    /// `leeway` is widened; else returns `false` and changes nothing.
    pub(crate) fn require(&mut self, x: f64, mut low: f64, mut high: f64, leeway: f64) -> bool {
        let (bottom, top) = self.reach(x);
        let miss = (low - top).max(bottom - high);
        if miss > leeway {
            return false;
        }
        if miss > 0.0 {
            (low, high) = (low - 1.001 * miss, high + 1.001 * miss);
            self.missed = self.missed.max(miss);
        }
        for l in self.lower.iter().filter(|l| l.0 < x) {
            self.smax = self.smax.min((high - l.1) / (x - l.0));
        }
        for u in self.upper.iter().filter(|u| u.0 < x) {
            self.smin = self.smin.max((low - u.1) / (x - u.0));
        }
        push(&mut self.lower, (x, low), 1.0);
        push(&mut self.upper, (x, high), -1.0);
        true
    }

    fn reach(&self, x: f64) -> (f64, f64) {
        let bottom = self.lower.iter().map(|l| l.1 + self.smin * (x - l.0));
        let top = self.upper.iter().map(|u| u.1 + self.smax * (x - u.0));
        (
            bottom.fold(f64::NEG_INFINITY, f64::max),
            top.fold(f64::INFINITY, f64::min),
        )
    }

    /// Feasible slopes, in order even if rounding makes limits cross.
    pub(crate) fn slopes(&self) -> (f64, f64) {
        (self.smin.min(self.smax), self.smax.max(self.smin))
    }

    pub(crate) fn offsets(&self, slope: f64) -> (f64, f64) {
        let low = self.lower.iter().map(|l| l.1 - slope * l.0);
        let high = self.upper.iter().map(|u| u.1 - slope * u.0);
        (
            low.fold(f64::NEG_INFINITY, f64::max),
            high.fold(f64::INFINITY, f64::min),
        )
    }

    pub(crate) fn start(&self) -> Option<f64> {
        self.lower.first().map(|l| l.0)
    }
}

/// Extends an upper (`side` = 1) or lower (-1) hull; `x` ascends.
fn push(hull: &mut Vec<(f64, f64)>, p: (f64, f64), side: f64) {
    while let [.., a, b] = hull[..] {
        // b stays only if the turn bends away from the other hull.
        let turn = (b.1 - a.1) * (p.0 - b.0) - (p.1 - b.1) * (b.0 - a.0);
        if turn * side > 0.0 {
            break;
        }
        hull.pop();
    }
    hull.push(p);
    if hull.len() > Corridor::MAX_HULL {
        let mut k = 0;
        let last = hull.len() - 1;
        hull.retain(|_| {
            k += 1;
            k % 2 == 1 || k - 1 == last
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feasible_slopes(intervals: &[(f64, f64, f64)]) -> (f64, f64) {
        let (mut smin, mut smax) = (-MAX_SLOPE, MAX_SLOPE);
        for (j, b) in intervals.iter().enumerate() {
            for a in &intervals[..j] {
                smax = smax.min((b.2 - a.1) / (b.0 - a.0));
                smin = smin.max((b.1 - a.2) / (b.0 - a.0));
            }
        }
        (smin, smax)
    }

    #[test]
    fn hulls_leave_the_slopes_that_all_pairs_leave() {
        let mut seed = 1u64;
        let mut uniform = || {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 11) as f64 / (1u64 << 53) as f64
        };
        for _ in 0..200 {
            let mut corridor = Corridor::new();
            let mut intervals = Vec::new();
            let (slope, mut x) = (2e-3 * (uniform() - 0.5), 0.0);
            for _ in 0..60 {
                x += 1.0 + 1e4 * uniform();
                let y = slope * x + 2.0 * (uniform() - 0.5);
                let (low, high) = (y - 1.0, y + 1.0);
                assert!(corridor.require(x, low, high, 0.0));
                intervals.push((x, low, high));
            }
            let (smin, smax) = feasible_slopes(&intervals);
            let got = corridor.slopes();
            assert!((got.0 - smin).abs() < 1e-12 && (got.1 - smax).abs() < 1e-12);
            let (low, high) = corridor.offsets((smin + smax) / 2.0);
            let middle = (low + high) / 2.0;
            for (x, from, to) in intervals {
                let y = middle + (smin + smax) / 2.0 * x;
                assert!(from - 1e-9 <= y && y <= to + 1e-9);
            }
        }
    }

    #[test]
    fn an_interval_that_no_line_reaches_is_refused_and_changes_nothing() {
        let mut corridor = Corridor::new();
        for k in 0..10 {
            assert!(corridor.require(f64::from(k) * 1e6, -1.0, 1.0, 0.0));
        }
        let before = corridor.slopes();
        assert!(!corridor.require(1e7, 50.0, 52.0, 1.0));
        assert_eq!(corridor.slopes(), before);
        assert!(corridor.require(1e7, 1.5, 2.5, 1.0));
        assert!(corridor.missed > 0.0);
    }

    #[test]
    fn memory_stays_bounded_on_a_steady_curve() {
        let mut corridor = Corridor::new();
        for k in 0..100_000 {
            let x = f64::from(k) * 1e3;
            let y = 1e-15 * x * x;
            assert!(corridor.require(x, y - 3.0, y + 3.0, 0.0));
        }
        assert!(
            corridor.lower.len() <= Corridor::MAX_HULL
                && corridor.upper.len() <= Corridor::MAX_HULL
        );
    }
}
