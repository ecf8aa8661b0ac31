//! [`Ratio`]: ratio of two sample grids.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::wide::gcd;
use crate::{Rate, TimeError};

/// `up` samples per `down` of another grid: index `j` lies at `j * down / up` of the other. Reduced and positive.
///
/// ```
/// use isochrony_time::Ratio;
/// let ratio = Ratio::new(320, 294)?; // 44,100 to 48,000 Hz
/// assert_eq!((ratio.up(), ratio.down()), (160, 147));
/// assert_eq!(ratio.place(161), Some((147, 147))); // 147 + 147 / 160
/// assert_eq!(ratio.first_from(148), Some(162));
/// # Ok::<(), isochrony_time::TimeError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "(u64, u64)", into = "(u64, u64)")]
pub struct Ratio {
    up: u64,
    down: u64,
}

impl TryFrom<(u64, u64)> for Ratio {
    type Error = TimeError;

    fn try_from((up, down): (u64, u64)) -> Result<Self, TimeError> {
        Self::new(up, down)
    }
}

impl From<Ratio> for (u64, u64) {
    fn from(ratio: Ratio) -> Self {
        (ratio.up, ratio.down)
    }
}

impl Ratio {
    /// Equal grids.
    pub const ONE: Self = Self { up: 1, down: 1 };

    /// `up` samples per `down`.
    ///
    /// # Errors
    /// [`TimeError::BadRate`] if either is zero.
    pub fn new(up: u64, down: u64) -> Result<Self, TimeError> {
        if up == 0 || down == 0 {
            return Err(TimeError::BadRate {
                text: format!("{up}/{down}"),
                reason: "a ratio must be above zero",
            });
        }
        Self::reduced(up.into(), down.into())
    }

    /// Ratio of one rate to another.
    ///
    /// # Errors
    /// [`TimeError::Overflow`] if a part needs more than 63 bits.
    pub fn between(from: Rate, to: Rate) -> Result<Self, TimeError> {
        Self::reduced(
            u128::from(to.num()) * u128::from(from.den()),
            u128::from(to.den()) * u128::from(from.num()),
        )
    }

    /// The product, applied in sequence.
    ///
    /// # Errors
    /// [`TimeError::Overflow`] if a part needs more than 63 bits.
    pub fn then(self, next: Self) -> Result<Self, TimeError> {
        Self::reduced(
            u128::from(self.up) * u128::from(next.up),
            u128::from(self.down) * u128::from(next.down),
        )
    }

    fn reduced(up: u128, down: u128) -> Result<Self, TimeError> {
        let common = gcd(up, down);
        let part = |part: u128| {
            i64::try_from(part / common)
                .map(i64::unsigned_abs)
                .map_err(|_| TimeError::Overflow {
                    what: "ratio of two rates",
                })
        };
        Ok(Self {
            up: part(up)?,
            down: part(down)?,
        })
    }

    /// Samples of this grid.
    #[must_use]
    pub fn up(self) -> u64 {
        self.up
    }

    /// Samples of the other in the same time.
    #[must_use]
    pub fn down(self) -> u64 {
        self.down
    }

    /// Whether both grids are equal.
    #[must_use]
    pub fn is_one(self) -> bool {
        self == Self::ONE
    }

    /// The nearest float.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        self.up as f64 / self.down as f64
    }

    /// Rate of this grid, given the other's.
    ///
    /// # Errors
    /// [`TimeError::Overflow`] if a part needs more than 63 bits.
    pub fn rate(self, of: Rate) -> Result<Rate, TimeError> {
        let as_ratio = Self::reduced(of.num().into(), of.den().into())?;
        let made = as_ratio.then(self)?;
        Rate::new(made.up, made.down)
    }

    /// Position on the other grid: the index at or before it, and the fraction in parts of `up`. None beyond 64 bits.
    #[must_use]
    pub fn place(self, index: i64) -> Option<(i64, u64)> {
        let product = i128::from(index) * i128::from(self.down);
        let up = i128::from(self.up);
        let whole = i64::try_from(product.div_euclid(up)).ok()?;
        Some((whole, product.rem_euclid(up) as u64))
    }

    /// The first index at or after one of the other grid. None beyond 64 bits.
    #[must_use]
    pub fn first_from(self, other: i64) -> Option<i64> {
        let product = i128::from(other) * i128::from(self.up);
        let down = i128::from(self.down);
        i64::try_from(-(-product).div_euclid(down)).ok()
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.up, self.down)
    }
}
