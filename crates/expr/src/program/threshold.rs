//! Rewrites comparisons of monotonic chains as comparisons of stored samples.
//!
//! `(s - mean) / std > 3` is true exactly from some sample value on, since rounded sums, products and quotients with a
//! number are monotonic. The threshold is found once per window by inverting the chain and testing neighbours with the
//! loops' operations. Results are bit-equal; NaN never passes. Windows whose numbers make the chain non-monotonic (zero
//! deviation, infinity, NaN) take the ordinary steps.

use isochrony_segment::DType;

use crate::Binary;
use crate::kernels::Value;

use super::operand::Operand;
use super::search::{before, least, limits, rank, unrank};

/// Shortest window for which thresholds pay off.
pub(crate) const MIN_WINDOW: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Monotone {
    Add,
    Sub,
    SubFrom,
    Mul,
    Div,
    Neg,
    /// Monotonic on either side of zero.
    Abs,
    /// Widening to a float dtype with all values of `u`.
    Widen,
}

/// An operation of a chain: the dtype of `u`, and `c`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    pub(crate) operation: Monotone,
    pub(crate) dtype: DType,
    pub(crate) number: Operand,
}

/// A comparison of a chain, last operation first, with a number.
#[derive(Debug, Clone)]
pub(crate) struct Predicate {
    pub(crate) compare: Binary,
    pub(crate) dtype: DType,
    pub(crate) number: Operand,
    pub(crate) links: Vec<Link>,
}

/// Samples for which a predicate holds; never NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Interval {
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// The complement is meant.
    pub(crate) outside: bool,
}

impl Interval {
    fn emptied(self) -> Self {
        Self {
            outside: self.outside,
            ..EMPTY_INTERVAL
        }
    }
}

const EMPTY_INTERVAL: Interval = Interval {
    low: f64::INFINITY,
    high: f64::NEG_INFINITY,
    outside: false,
};

fn real(value: Value, dtype: DType) -> f64 {
    match dtype {
        DType::I8 => value.get::<i8>().into(),
        DType::I16 => value.get::<i16>().into(),
        DType::I32 => value.get::<i32>().into(),
        DType::U8 => value.get::<u8>().into(),
        DType::U16 => value.get::<u16>().into(),
        DType::U32 => value.get::<u32>().into(),
        DType::F32 => value.get::<f32>().into(),
        _ => value.get(),
    }
}

impl Link {
    fn of(&self, u: f64, c: f64) -> f64 {
        if self.operation == Monotone::Widen {
            return u;
        }
        if self.dtype == DType::F32 {
            let (u, c) = (u as f32, c as f32);
            return f64::from(match self.operation {
                Monotone::Add => u + c,
                Monotone::Sub => u - c,
                Monotone::SubFrom => c - u,
                Monotone::Mul => u * c,
                Monotone::Div => u / c,
                Monotone::Neg => -u,
                Monotone::Abs | Monotone::Widen => u.abs(),
            });
        }
        match self.operation {
            Monotone::Add => u + c,
            Monotone::Sub => u - c,
            Monotone::SubFrom => c - u,
            Monotone::Mul => u * c,
            Monotone::Div => u / c,
            Monotone::Neg => -u,
            Monotone::Abs | Monotone::Widen => u.abs(),
        }
    }

    /// Approximate inverse.
    fn back(&self, y: f64, c: f64) -> f64 {
        match self.operation {
            Monotone::Add => y - c,
            Monotone::Sub => y + c,
            Monotone::SubFrom => c - y,
            Monotone::Mul => y / c,
            Monotone::Div => y * c,
            Monotone::Neg => -y,
            Monotone::Abs | Monotone::Widen => y,
        }
    }

    /// None if not monotonic.
    fn preimage(&self, of: Interval, c: f64) -> Option<Interval> {
        let uses_number = !matches!(
            self.operation,
            Monotone::Neg | Monotone::Abs | Monotone::Widen
        );
        let scales = matches!(self.operation, Monotone::Mul | Monotone::Div);
        if (uses_number && !c.is_finite()) || (scales && c == 0.0) {
            return None;
        }
        if of.low > of.high {
            // Both ends may convert to the same number of a narrower dtype.
            return Some(of.emptied());
        }
        if self.operation == Monotone::Abs {
            return self.sides(of);
        }
        let falls = match self.operation {
            Monotone::SubFrom | Monotone::Neg => true,
            Monotone::Mul | Monotone::Div => c < 0.0,
            _ => false,
        };
        let (first, last) = limits(self.dtype);
        // Lower and upper target for `u`, ascending; infinite ones are not targets.
        let (reach, pass) = if falls {
            (-of.high, -of.low)
        } else {
            (of.low, of.high)
        };
        let (reach_at, pass_at) = if falls {
            (of.high, of.low)
        } else {
            (of.low, of.high)
        };
        let low = if reach == f64::NEG_INFINITY {
            Some(first)
        } else {
            least(self.dtype, self.back(reach_at, c), |u| {
                let y = self.of(u, c);
                if falls { y <= reach_at } else { y >= reach_at }
            })
        };
        let after = if pass == f64::INFINITY {
            None
        } else {
            least(self.dtype, self.back(pass_at, c), |u| {
                let y = self.of(u, c);
                if falls { y < pass_at } else { y > pass_at }
            })
        };
        let Some(low) = low else {
            return Some(of.emptied());
        };
        let high = match after {
            None => last,
            Some(after) if after == first => {
                return Some(of.emptied());
            }
            Some(after) => before(after, self.dtype),
        };
        Some(Interval {
            low,
            high,
            outside: of.outside,
        })
    }

    /// Both sides of zero with magnitudes in a one-sided interval.
    fn sides(&self, of: Interval) -> Option<Interval> {
        if of.outside {
            return None;
        }
        if of.high < 0.0 {
            return Some(EMPTY_INTERVAL);
        }
        if of.low <= 0.0 {
            return Some(Interval {
                low: -of.high,
                high: of.high,
                outside: false,
            });
        }
        if of.high < f64::INFINITY {
            return None;
        }
        let high = before(of.low, self.dtype);
        Some(Interval {
            low: -high,
            high,
            outside: true,
        })
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Condition(pub(crate) Vec<Predicate>);

impl Condition {
    pub(crate) fn only_widens(&self) -> bool {
        let mut links = self.0.iter().flat_map(|predicate| &predicate.links);
        links.all(|link| link.operation == Monotone::Widen)
    }

    /// Values for which all hold, with this window's numbers; None if a chain is not monotonic.
    pub(crate) fn interval(&self, number: impl Fn(Operand, DType) -> Value) -> Option<Interval> {
        let mut all: Option<Interval> = None;
        for predicate in &self.0 {
            let one = predicate.interval(&number)?;
            all = Some(match all {
                None => one,
                Some(all) if all.outside || one.outside => return None,
                Some(all) => Interval {
                    low: if one.low > all.low { one.low } else { all.low },
                    high: if one.high < all.high {
                        one.high
                    } else {
                        all.high
                    },
                    outside: false,
                },
            });
        }
        all
    }
}

impl Predicate {
    /// Values of the base for which the comparison holds; None if the chain is not monotonic.
    pub(crate) fn interval(&self, number: impl Fn(Operand, DType) -> Value) -> Option<Interval> {
        let c = real(number(self.number, self.dtype), self.dtype);
        let below = Interval {
            low: f64::NEG_INFINITY,
            ..EMPTY_INTERVAL
        };
        let above = Interval {
            high: f64::INFINITY,
            ..EMPTY_INTERVAL
        };
        let (first, last) = limits(self.dtype);
        let mut interval = match self.compare {
            _ if c.is_nan() => EMPTY_INTERVAL,
            Binary::Gt if c == last => EMPTY_INTERVAL,
            Binary::Lt if c == first => EMPTY_INTERVAL,
            Binary::Gt => Interval {
                low: unrank(rank(c, self.dtype) + 1, self.dtype),
                ..above
            },
            Binary::Ge => Interval { low: c, ..above },
            Binary::Lt => Interval {
                high: before(c, self.dtype),
                ..below
            },
            Binary::Le => Interval { high: c, ..below },
            _ => return None,
        };
        for link in &self.links {
            interval =
                link.preimage(interval, real(number(link.number, link.dtype), link.dtype))?;
        }
        Some(interval)
    }
}
