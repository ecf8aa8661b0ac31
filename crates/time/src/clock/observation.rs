//! [`Observation`], [`Scatter`] and [`Slope`]: coordinates of fits.
//!
//! Relative to the reference rate (initial or nominal): `x` is a nominal duration in ns, `y` a stamp minus its nominal
//! time in ns, a slope dimensionless (1e-6 is 1 ppm).

/// A stamp; its true `y` is in `[y, y + width)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observation {
    pub(crate) index: i64,
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
}

impl Observation {
    pub(crate) fn centre(&self) -> f64 {
        self.y + self.width / 2.0
    }
}

/// Distances of stamps from a line, beyond their resolution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scatter {
    pub(crate) sigma: f64,
    /// Half-width that practically every stamp keeps, ns.
    pub(crate) bound: f64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Slope {
    pub(crate) value: f64,
    pub(crate) half: f64,
}
