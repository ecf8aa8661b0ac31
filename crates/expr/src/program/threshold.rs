//! Comparisons of a monotone chain as a comparison of what the chain begins with.
//!
//! `(s - mean) / std > 3` is true exactly for the samples from some sample value on, because
//! rounded sums, products and quotients with a number are monotone, too. That value is found
//! once a window, by going back through the chain and trying neighbours with the very operations that the
//! loops would use; the loop then compares samples as they are stored. Results are the same to the
//! bit, NaN included, which no comparison holds for. Where a number in the chain would make it not
//! monotone (a deviation of zero, infinity, NaN) the window takes the ordinary steps.

use isochrony_segment::DType;

use crate::Binary;
use crate::kernels::Value;

use super::search::{before, least, limits, rank, unrank};
use super::steps::Operand;

/// Shortest window for which finding thresholds pays.
pub(crate) const SHORTEST: usize = 128;

/// One operation on a value `u` that is being looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Monotone {
    /// `u + c`
    Add,
    /// `u - c`
    Sub,
    /// `c - u`
    SubFrom,
    /// `u * c`
    Mul,
    /// `u / c`
    Div,
    /// `-u`
    Neg,
    /// `|u|`: monotone on either side of zero.
    Abs,
    /// `u` in a float dtype that has all its values.
    Widen,
}

/// An operation of a chain: the dtype of `u`, and `c`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    pub(crate) operation: Monotone,
    /// Dtype of `u`; the operation is computed in it.
    pub(crate) dtype: DType,
    pub(crate) number: Operand,
}

/// A comparison with a number of a chain of operations, the last one first.
#[derive(Debug, Clone)]
pub(crate) struct Predicate {
    pub(crate) compare: Binary,
    /// Dtype of both sides.
    pub(crate) dtype: DType,
    pub(crate) number: Operand,
    pub(crate) links: Vec<Link>,
}

/// The samples for which a predicate holds; NaN is in none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Interval {
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// What lies outside is meant.
    pub(crate) outside: bool,
}

impl Interval {
    fn emptied(self) -> Self {
        Self {
            outside: self.outside,
            ..NOWHERE
        }
    }
}

const NOWHERE: Interval = Interval {
    low: f64::INFINITY,
    high: f64::NEG_INFINITY,
    outside: false,
};

/// Reads a real number of a dtype.
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
    /// The operation as the loops compute it.
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

    /// About where the operation gives `y`.
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

    /// The numbers that the operation takes into an interval; None if it is not monotone.
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
            // Its ends may be neighbours that a narrower dtype takes for one.
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
        // What has to be reached from below, and what must not be passed; infinity is neither.
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

    /// Both sides of zero whose magnitudes lie in an interval without one of its ends.
    fn sides(&self, of: Interval) -> Option<Interval> {
        if of.outside {
            return None;
        }
        if of.high < 0.0 {
            return Some(NOWHERE);
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

/// Predicates on the same base that must all hold.
#[derive(Debug, Clone)]
pub(crate) struct Condition(pub(crate) Vec<Predicate>);

impl Condition {
    /// Whether it compares samples as they are, but for their dtype.
    pub(crate) fn only_widens(&self) -> bool {
        let mut links = self.0.iter().flat_map(|predicate| &predicate.links);
        links.all(|link| link.operation == Monotone::Widen)
    }

    /// The values of the base for which all hold, given the numbers of this window; None where a
    /// chain is not monotone.
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
    /// The values of the base for which the comparison holds, given the numbers of this window;
    /// None where the chain is not monotone.
    pub(crate) fn interval(&self, number: impl Fn(Operand, DType) -> Value) -> Option<Interval> {
        let c = real(number(self.number, self.dtype), self.dtype);
        let below = Interval {
            low: f64::NEG_INFINITY,
            ..NOWHERE
        };
        let above = Interval {
            high: f64::INFINITY,
            ..NOWHERE
        };
        let (first, last) = limits(self.dtype);
        let mut interval = match self.compare {
            _ if c.is_nan() => NOWHERE,
            Binary::Gt if c == last => NOWHERE,
            Binary::Lt if c == first => NOWHERE,
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
