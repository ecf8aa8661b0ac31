//! Inputs and options of a point fit.

use serde::{Deserialize, Serialize};

use crate::{Fixed, TimeError};

/// Where the first timebase is at `from`, the second is at `to`, within `uncertainty`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PointPair {
    /// Value in the first timebase.
    pub from: Fixed,
    /// Value in the second timebase.
    pub to: Fixed,
    /// Half-width around `to`, not negative; `None`: from the scatter.
    pub uncertainty: Option<Fixed>,
}

impl PointPair {
    /// A point without uncertainty.
    pub fn new(from: impl Into<Fixed>, to: impl Into<Fixed>) -> Self {
        let (from, to) = (from.into(), to.into());
        Self {
            from,
            to,
            uncertainty: None,
        }
    }

    /// Sets the uncertainty.
    #[must_use]
    pub fn within(self, uncertainty: impl Into<Fixed>) -> Self {
        let uncertainty = Some(uncertainty.into());
        Self {
            uncertainty,
            ..self
        }
    }
}

/// Shape of a fitted metric.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FitShape {
    /// One straight line.
    Line,
    /// Connected straight pieces.
    Pieces,
}

impl FitShape {
    /// `line` or `pieces`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Pieces => "pieces",
        }
    }
}

/// Options of [`PointFit::new`](crate::PointFit::new).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PointFitOptions {
    /// `None`, the default: a line if one passes through all intervals but outliers', else pieces.
    pub shape: Option<FitShape>,
    /// Deviation of the rate, beyond and between the points, from what they show: a fraction, 0 to 0.1. Default 1e-6,
    /// as of a good crystal over a day.
    pub wander: f64,
}

impl Default for PointFitOptions {
    fn default() -> Self {
        Self {
            shape: None,
            wander: 1e-6,
        }
    }
}

impl PointFitOptions {
    /// Checks ranges.
    ///
    /// # Errors
    /// [`TimeError::BadConfig`].
    pub fn check(&self) -> Result<(), TimeError> {
        if (0.0..=0.1).contains(&self.wander) {
            return Ok(());
        }
        Err(TimeError::BadConfig {
            name: "wander",
            value: self.wander,
            legal: "0 to 0.1, a share of the rate",
        })
    }
}
