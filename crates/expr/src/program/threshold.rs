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

/// Reads a real float of a dtype.
fn real(value: Value, dtype: DType) -> f64 {
    match dtype {
        DType::F32 => value.get::<f32>().into(),
        _ => value.get(),
    }
}

/// Place of a number among all of its dtype, and back. Every real dtype of a chain fits f64.
fn rank(value: f64, dtype: DType) -> i64 {
    fn ordered(bits: i64) -> i64 {
        if bits < 0 { i64::MIN - bits } else { bits }
    }
    match dtype {
        DType::F32 => {
            let bits = (value as f32).to_bits() as i32;
            i64::from(if bits < 0 {
                i32::MIN.wrapping_sub(bits)
            } else {
                bits
            })
        }
        DType::F64 => ordered(value.to_bits() as i64),
        _ => value as i64,
    }
}

fn unrank(rank: i64, dtype: DType) -> f64 {
    match dtype {
        DType::F32 => {
            let rank = rank as i32;
            let bits = if rank < 0 {
                i32::MIN.wrapping_sub(rank)
            } else {
                rank
            };
            f32::from_bits(bits as u32).into()
        }
        DType::F64 => f64::from_bits((if rank < 0 { i64::MIN - rank } else { rank }) as u64),
        _ => rank as f64,
    }
}

/// Least and greatest number of a dtype.
fn limits(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DType::I16 => (i16::MIN.into(), i16::MAX.into()),
        DType::I32 => (i32::MIN.into(), i32::MAX.into()),
        DType::U8 => (0.0, u8::MAX.into()),
        DType::U16 => (0.0, u16::MAX.into()),
        _ => (f64::NEG_INFINITY, f64::INFINITY),
    }
}

/// The least number of a dtype for which `holds` is true, given that it is then true for all
/// greater ones; None if it is for none. Searches outwards from a guess.
fn least(dtype: DType, guess: f64, holds: impl Fn(f64) -> bool) -> Option<f64> {
    let (first, last) = limits(dtype);
    let (first, last) = (rank(first, dtype), rank(last, dtype));
    let holds = |rank: i64| holds(unrank(rank, dtype));
    let start = rank(if guess.is_nan() { 0.0 } else { guess }, dtype).clamp(first, last);
    // Invariant: does not hold below `no`, or at it where it is a number; holds at `yes`.
    let (mut no, mut yes);
    let mut step = 1i64;
    if holds(start) {
        yes = start;
        loop {
            no = yes.saturating_sub(step);
            if no < first {
                if holds(first) {
                    return Some(unrank(first, dtype));
                }
                no = first;
                break;
            }
            if !holds(no) {
                break;
            }
            yes = no;
            step = step.saturating_mul(4);
        }
    } else {
        no = start;
        loop {
            yes = no.saturating_add(step);
            if yes > last {
                if !holds(last) {
                    return None;
                }
                yes = last;
                break;
            }
            if holds(yes) {
                break;
            }
            no = yes;
            step = step.saturating_mul(4);
        }
    }
    while i128::from(yes) - i128::from(no) > 1 {
        let middle = ((i128::from(no) + i128::from(yes)) >> 1) as i64;
        if holds(middle) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    Some(unrank(yes, dtype))
}

fn before(value: f64, dtype: DType) -> f64 {
    unrank(rank(value, dtype) - 1, dtype)
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
        let mut interval = match self.compare {
            _ if c.is_nan() => NOWHERE,
            Binary::Gt if c == f64::INFINITY => NOWHERE,
            Binary::Lt if c == f64::NEG_INFINITY => NOWHERE,
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
