//! [`Line`]: the line of a piece or gap.

use crate::wide::mul_div_round;
use crate::{Exact, Fixed, Piece, TimeError};

/// `civil = civil0 + (index - index0) * num / den`, wider than a [`Piece`]: a gap's slope is a ratio of arbitrary
/// lengths.
///
/// `den == 0`: a gap without indices maps all its civil times to `index0`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) index: i64,
    pub(crate) civil: Fixed,
    pub(crate) num: i128,
    pub(crate) den: i128,
}

impl Line {
    pub(crate) fn of(piece: &Piece) -> Self {
        Self {
            index: piece.index,
            civil: piece.civil,
            num: piece.num.into(),
            den: piece.den.into(),
        }
    }

    /// Indices must not descend, civil time must ascend.
    pub(crate) fn between(index: i64, civil: Fixed, index_end: i64, civil_end: Fixed) -> Self {
        let num = civil_end.to_bits().saturating_sub(civil.to_bits()).max(1);
        let den = (i128::from(index_end) - i128::from(index)).max(0) << 32;
        Self {
            index,
            civil,
            num,
            den,
        }
    }

    pub(crate) fn civil_at(&self, index: Fixed) -> Result<Fixed, TimeError> {
        let d = index.to_bits() - Fixed::from_int(self.index).to_bits();
        mul_div_round(d, self.num, self.den)
            .and_then(|ns| self.civil.checked_add(Fixed::from_bits(ns)))
            .ok_or(TimeError::Overflow {
                what: "civil time of an index",
            })
    }

    pub(crate) fn civil_at_exact(&self, index: &Exact) -> Result<Exact, TimeError> {
        if self.den == 0 {
            return Err(TimeError::Overflow {
                what: "civil time of an index",
            });
        }
        let origin = Fixed::from_int(self.index);
        Ok(index.on_line(origin, self.civil, self.num, self.den))
    }

    /// Within 2^-32 ns of a sample's time it is that sample, since both it and the line's start may be rounded.
    pub(crate) fn position_exact(&self, civil: &Exact) -> Result<Exact, TimeError> {
        let origin = Fixed::from_int(self.index);
        let position = civil.on_line(self.civil, origin, self.den, self.num);
        if self.den == 0 {
            return Ok(position);
        }
        let near = position.round_i64();
        let near = near.ok_or(TimeError::Overflow { what: "index" })?;
        let sample = self.civil_at(Fixed::from_int(near))?.into();
        // The second condition is for samples closer than a nanosecond.
        let rounding = |off: Exact| off.magnitude() <= Fixed::EPSILON.into();
        if rounding(civil.minus(&sample)) && rounding(position.minus(&near.into())) {
            return Ok(near.into());
        }
        Ok(position)
    }

    pub(crate) fn position(&self, civil: Fixed) -> Result<Fixed, TimeError> {
        civil
            .checked_sub(self.civil)
            .and_then(|d| mul_div_round(d.to_bits(), self.den, self.num))
            .and_then(|q| Fixed::from_int(self.index).checked_add(Fixed::from_bits(q)))
            .ok_or(TimeError::Overflow {
                what: "index of a civil time",
            })
    }

    pub(crate) fn samples_per_ns(&self) -> f64 {
        self.den as f64 / self.num as f64
    }
}
