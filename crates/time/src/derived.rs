//! [`Derived`]: a rational line between two timebases.

use serde::{Deserialize, Serialize};

use crate::wide::mul_div_round;
use crate::{Exact, Fixed, Rate, TimeError};

/// `to = from * num / den + offset`, rounded once to 2^-32.
///
/// ```
/// use isochrony_time::{Derived, Fixed};
/// let ns_to_s = Derived::new(1, 1_000_000_000, Fixed::ZERO)?;
/// assert_eq!(ns_to_s.forward(Fixed::from_int(2_500_000_000))?.to_string(), "2.5");
/// # Ok::<(), isochrony_time::TimeError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Derived {
    num: i64,
    den: u64,
    offset: Fixed,
}

#[derive(Serialize, Deserialize)]
struct Parts {
    num: i64,
    den: u64,
    offset: Fixed,
}

impl TryFrom<Parts> for Derived {
    type Error = TimeError;
    fn try_from(p: Parts) -> Result<Self, TimeError> {
        Self::new(p.num, p.den, p.offset)
    }
}

impl From<Derived> for Parts {
    fn from(d: Derived) -> Self {
        Self {
            num: d.num,
            den: d.den,
            offset: d.offset,
        }
    }
}

impl Derived {
    /// Slope `num / den`; `num` has the sign.
    ///
    /// # Errors
    /// [`TimeError::ZeroSlope`] if either part is zero.
    pub fn new(num: i64, den: u64, offset: Fixed) -> Result<Self, TimeError> {
        if num == 0 || den == 0 {
            let what = "derived metric".to_owned();
            return Err(TimeError::ZeroSlope {
                what,
                num: num.into(),
                den: den.into(),
            });
        }
        Ok(Self { num, den, offset })
    }

    /// Samples at `rate` to civil ns, sample 0 at `start`.
    ///
    /// # Errors
    /// [`TimeError::Overflow`] if the period needs more than 63 bits.
    pub fn from_rate(rate: Rate, start: Fixed) -> Result<Self, TimeError> {
        let (num, den) = rate.period_ns();
        let num = i64::try_from(num).map_err(|_| TimeError::Overflow { what: "period" })?;
        Self::new(num, den, start)
    }

    /// Converts to the second timebase.
    ///
    /// # Errors
    /// [`TimeError::Overflow`].
    pub fn forward(&self, value: Fixed) -> Result<Fixed, TimeError> {
        mul_div_round(value.to_bits(), self.num.into(), self.den.into())
            .and_then(|bits| Fixed::from_bits(bits).checked_add(self.offset))
            .ok_or(TimeError::Overflow {
                what: "derived conversion",
            })
    }

    /// Converts to the first timebase.
    ///
    /// # Errors
    /// [`TimeError::Overflow`].
    pub fn backward(&self, value: Fixed) -> Result<Fixed, TimeError> {
        let (num, den) = (
            i128::from(self.num),
            i128::from(self.den) * i128::from(self.num.signum()),
        );
        value
            .checked_sub(self.offset)
            .and_then(|v| mul_div_round(v.to_bits(), den, num.abs()))
            .map(Fixed::from_bits)
            .ok_or(TimeError::Overflow {
                what: "derived conversion",
            })
    }

    pub(crate) fn forward_exact(&self, value: &Exact) -> Exact {
        value.on_line(Fixed::ZERO, self.offset, self.num.into(), self.den.into())
    }

    pub(crate) fn backward_exact(&self, value: &Exact) -> Exact {
        value.on_line(self.offset, Fixed::ZERO, self.den.into(), self.num.into())
    }

    /// Slope numerator.
    pub fn num(&self) -> i64 {
        self.num
    }

    /// Slope denominator.
    pub fn den(&self) -> u64 {
        self.den
    }

    /// The second timebase where the first is zero.
    pub fn offset(&self) -> Fixed {
        self.offset
    }
}
