//! [`Line`]: a straight stretch of either a piece or a gap, ready to evaluate.

use crate::wide::mul_div_round;
use crate::{Fixed, Piece, TimeError};

/// `civil = civil0 + (index - index0) * num / den`, with wider parts than a
/// [`Piece`] has because a gap's slope is the ratio of two arbitrary lengths.
///
/// `den == 0` stands for a gap without address space: every civil time in it
/// has position `index0`.
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

    /// From `(index, civil)` to `(index_end, civil_end)`; the caller has made
    /// sure that neither axis runs backwards and that the civil one advances.
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

    /// Fractional index, to the nearest 2^-32.
    pub(crate) fn position(&self, civil: Fixed) -> Result<Fixed, TimeError> {
        civil
            .checked_sub(self.civil)
            .and_then(|d| mul_div_round(d.to_bits(), self.den, self.num))
            .and_then(|q| Fixed::from_int(self.index).checked_add(Fixed::from_bits(q)))
            .ok_or(TimeError::Overflow {
                what: "index of a civil time",
            })
    }

    /// Samples per nanosecond.
    pub(crate) fn slope(&self) -> f64 {
        self.den as f64 / self.num as f64
    }
}
