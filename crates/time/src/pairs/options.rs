//! What a metric is fitted to, and how.

use serde::{Deserialize, Serialize};

use crate::{Fixed, TimeError};

/// One point of two timebases: where the first is at `from`, the second is at `to`, give or take `uncertainty`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PointPair {
    /// Value in the first timebase.
    pub from: Fixed,
    /// Value in the second timebase.
    pub to: Fixed,
    /// Half-width around `to` that holds the true value, not below zero; `None`: as the points scatter.
    pub uncertainty: Option<Fixed>,
}

impl PointPair {
    /// A point whose uncertainty follows from the scatter of all points.
    pub fn new(from: impl Into<Fixed>, to: impl Into<Fixed>) -> Self {
        let (from, to) = (from.into(), to.into());
        Self {
            from,
            to,
            uncertainty: None,
        }
    }

    /// The same point with a stated uncertainty.
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
    /// Straight pieces that join.
    Pieces,
}

impl FitShape {
    /// Its name: `line` or `pieces`.
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
    /// `None`, the default: a line if one goes through the intervals of all points but outliers, else pieces.
    pub shape: Option<FitShape>,
    /// How far the rate may differ, beyond the points and between those of pieces, from what the points show: a share of
    /// the rate, 0 to 0.1. Default 1e-6, which a good crystal keeps to over a day.
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
    /// Refuses what is outside its range.
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
