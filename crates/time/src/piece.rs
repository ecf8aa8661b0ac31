//! [`Piece`]: a stored line of an empirical metric.

use serde::{Deserialize, Serialize};

use crate::wide::mul_div_round;
use crate::{Fixed, Rate, RunId, TimeError};

/// `civil(i) = civil + (i - index) * num / den`, for `index <= i < end`.
///
/// A sample lasts 2^-16 to 2^62 ns.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Piece {
    /// Its run.
    pub run: RunId,
    /// First index, the line's origin.
    pub index: i64,
    /// Index after the last sample; `None` while the piece grows.
    pub end: Option<i64>,
    /// Civil time of `index`.
    pub civil: Fixed,
    /// Nanoseconds per sample, numerator.
    pub num: u64,
    /// Nanoseconds per sample, denominator.
    pub den: u64,
    /// Half-width of the true time, nanoseconds.
    pub uncertainty_ns: f64,
    /// RMS distance of the stamps, nanoseconds.
    pub residual_ns: f64,
}

impl Piece {
    /// An exact, open piece without stamps.
    pub fn nominal(run: RunId, index: i64, civil: Fixed, rate: Rate) -> Self {
        let (num, den) = rate.period_ns();
        Self {
            run,
            index,
            end: None,
            civil,
            num,
            den,
            uncertainty_ns: 0.0,
            residual_ns: 0.0,
        }
    }

    /// Nanoseconds per sample.
    pub fn ns_per_sample(&self) -> f64 {
        self.num as f64 / self.den as f64
    }

    /// Civil time of an index, to the nearest 2^-32 ns.
    ///
    /// # Errors
    /// [`TimeError::Overflow`].
    pub fn civil_at(&self, index: Fixed) -> Result<Fixed, TimeError> {
        let d = index.checked_sub(Fixed::from_int(self.index));
        d.and_then(|d| mul_div_round(d.to_bits(), self.num.into(), self.den.into()))
            .and_then(|ns| self.civil.checked_add(Fixed::from_bits(ns)))
            .ok_or(TimeError::Overflow {
                what: "civil time of an index",
            })
    }
}
