//! [`ExcludedStamps`]: distances of stamps excluded from a fit.
//!
//! They are stored as used: a piece's residual includes them and bounds the distance of each of its stamps.

use super::observation::Observation;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExcludedStamps {
    pub(crate) count: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

impl ExcludedStamps {
    pub(crate) fn add(&mut self, obs: &Observation) {
        let (x, y) = (obs.x, obs.centre());
        self.merge(&Self {
            count: 1.0,
            x,
            y,
            ..Self::default()
        });
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        if other.count == 0.0 {
            return;
        }
        let (dx, dy) = (other.x - self.x, other.y - self.y);
        let count = self.count + other.count;
        let share = other.count / count;
        let weight = self.count * share;
        self.x += share * dx;
        self.y += share * dy;
        self.xx += other.xx + weight * dx * dx;
        self.xy += other.xy + weight * dx * dy;
        self.yy += other.yy + weight * dy * dy;
        self.count = count;
    }

    /// RMS distance from `y = offset + slope * x`; 0 without stamps.
    pub(crate) fn residual(&self, offset: f64, slope: f64) -> f64 {
        (self.squares(offset, slope) / self.count.max(1.0)).sqrt()
    }

    pub(crate) fn squares(&self, offset: f64, slope: f64) -> f64 {
        let middle = self.y - offset - slope * self.x;
        let turned = self.yy - 2.0 * slope * self.xy + slope * slope * self.xx;
        turned.max(0.0) + self.count * middle * middle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_are_those_of_the_single_distances() {
        let obs = |k: i32| Observation {
            index: k.into(),
            x: 1e9 * f64::from(k),
            y: f64::from(k * k % 7) * 1e3,
            width: 10.0,
        };
        let (mut early, mut late) = (ExcludedStamps::default(), ExcludedStamps::default());
        (0..5).for_each(|k| early.add(&obs(k)));
        (5..9).for_each(|k| late.add(&obs(k)));
        early.merge(&late);
        early.merge(&ExcludedStamps::default());
        let (offset, slope) = (-300.0, 2e-6);
        let expected: f64 = (0..9)
            .map(|k| (obs(k).centre() - offset - slope * obs(k).x).powi(2))
            .sum();
        let got = early.squares(offset, slope);
        assert!((got / expected - 1.0).abs() < 1e-9, "{got} {expected}");
        assert_eq!(early.count, 9.0);
    }
}
