//! Bulk conversion without a search per sample.
//!
//! Within an index range, civil times of a grid follow by adding quotients and remainders (Bresenham), so every value
//! equals [`Empirical::time_of`].

use serde::{Deserialize, Serialize};

use crate::empirical::IndexSpan;
use crate::lookup::CivilSpan;
use crate::wide::{mul_div_floor, mul_div_round};
use crate::{Empirical, Fixed, IndexAt, Lookup, Prefer, RunId, TimeError};

/// Points of a civil grid on one line.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct GridSpan {
    /// First grid point.
    pub first: u64,
    /// Number of grid points.
    pub count: u64,
    /// Fractional index of the first point.
    pub position: Fixed,
    /// Samples per grid point, as a float: point `first + k` is at `position + k * step`.
    pub step: f64,
    /// The run.
    pub run: RunId,
    /// Whether it lies in a gap, without samples. Not set beyond the signal's ends.
    pub in_gap: bool,
}

impl Empirical {
    /// Civil times of indices in any order; fastest if ascending. Converts as many as both slices hold.
    ///
    /// # Errors
    /// As [`Empirical::time_of`].
    pub fn civil_many(&self, indices: &[i64], out: &mut [Fixed]) -> Result<(), TimeError> {
        let mut span: Option<IndexSpan> = None;
        for (&index, civil) in indices.iter().zip(out) {
            let at = match span {
                Some(s) if s.from <= index && index < s.to => s,
                _ => self.span_at(index.into())?,
            };
            *civil = at.line.civil_at(index.into())?;
            span = Some(at);
        }
        Ok(())
    }

    /// Civil times of `start, start + step, ...`, as many as `out` holds.
    ///
    /// # Errors
    /// As [`Empirical::time_of`]; [`TimeError::ZeroSlope`] for a step below one.
    pub fn civil_grid(&self, start: i64, step: i64, out: &mut [Fixed]) -> Result<(), TimeError> {
        self.walk(start, step, out.len(), |k, civil| {
            out[k] = civil;
            Ok(())
        })
    }

    /// As [`Empirical::civil_grid`], rounded to nanoseconds (NumPy's `datetime64[ns]`).
    ///
    /// # Errors
    /// Also [`TimeError::Overflow`] outside the years 1677 to 2262.
    pub fn civil_ns_grid(&self, start: i64, step: i64, out: &mut [i64]) -> Result<(), TimeError> {
        self.walk(start, step, out.len(), |k, civil| {
            let ns = civil.round_i64();
            out[k] = ns.ok_or(TimeError::Overflow {
                what: "civil time in 64-bit nanoseconds",
            })?;
            Ok(())
        })
    }

    fn walk(
        &self,
        start: i64,
        step: i64,
        count: usize,
        mut put: impl FnMut(usize, Fixed) -> Result<(), TimeError>,
    ) -> Result<(), TimeError> {
        if step < 1 {
            return Err(TimeError::ZeroSlope {
                what: "index grid".into(),
                num: step.into(),
                den: 1,
            });
        }
        let overflow = TimeError::Overflow {
            what: "civil time of an index",
        };
        let mut k = 0;
        while k < count {
            let index = i128::from(start) + k as i128 * i128::from(step);
            let index = i64::try_from(index).map_err(|_| overflow.clone())?;
            let s = self.span_at(index.into())?;
            let left = (i128::from(s.to) - i128::from(index) - 1) / i128::from(step) + 1;
            let points = usize::try_from(left).unwrap_or(usize::MAX).min(count - k);
            let d = (i128::from(index) - i128::from(s.line.index)) << 32;
            // Half a denominator ahead: rounds to nearest.
            let walk = mul_div_floor(d, s.line.num, s.line.den).zip(mul_div_floor(
                i128::from(step) << 32,
                s.line.num,
                s.line.den,
            ));
            let ((mut whole, mut rest), (whole_step, rest_step)) =
                walk.ok_or_else(|| overflow.clone())?;
            let carry = |whole: &mut i128, rest: &mut i128| {
                if *rest >= s.line.den {
                    *rest -= s.line.den;
                    *whole += 1;
                }
            };
            rest += s.line.den / 2;
            carry(&mut whole, &mut rest);
            // Sums between the ends need no checks.
            let last = i128::from(index) + (points as i128 - 1) * i128::from(step);
            s.line.civil_at(Fixed::from_bits(last << 32))?;
            s.line.civil_at(index.into())?;
            for n in 0..points {
                if n > 0 {
                    whole += whole_step;
                    rest += rest_step;
                    carry(&mut whole, &mut rest);
                }
                put(k + n, Fixed::from_bits(s.line.civil.to_bits() + whole))?;
            }
            k += points;
        }
        Ok(())
    }

    /// Indices of civil times in any order. Clears `out` first.
    ///
    /// # Errors
    /// As [`Empirical::index_of`].
    pub fn index_many(
        &self,
        civil: &[Fixed],
        lookup: Lookup,
        out: &mut Vec<IndexAt>,
    ) -> Result<(), TimeError> {
        out.clear();
        out.reserve(civil.len());
        let mut span: Option<(Fixed, CivilSpan)> = None;
        for &time in civil {
            let (from, at) = match span {
                Some((from, s)) if from <= time && time < s.until => (from, s),
                _ => (time, self.civil_span(time, lookup.prefer)?),
            };
            out.push(self.index_in(&at, time, lookup.round)?);
            span = Some((from, at));
        }
        Ok(())
    }

    /// Maps the civil grid `start + k * num / den` ns, `k < count`, to indices: one span per line.
    ///
    /// # Errors
    /// [`TimeError::ZeroSlope`] for a zero step; [`TimeError::Ambiguous`] if two runs cover a point and none is
    /// preferred; [`TimeError::Overflow`].
    pub fn index_spans(
        &self,
        start: Fixed,
        (num, den): (u64, u64),
        count: u64,
        prefer: Option<Prefer>,
    ) -> Result<Vec<GridSpan>, TimeError> {
        if num == 0 || den == 0 {
            let what = "civil grid".into();
            return Err(TimeError::ZeroSlope {
                what,
                num: num.into(),
                den: den.into(),
            });
        }
        let overflow = || TimeError::Overflow { what: "civil grid" };
        let mut spans = Vec::new();
        let mut first = 0;
        while first < count {
            let offset = mul_div_round(i128::from(first) << 32, num.into(), den.into());
            let civil = offset.and_then(|o| start.checked_add(Fixed::from_bits(o)));
            let civil = civil.ok_or_else(overflow)?;
            let s = self.civil_span(civil, prefer)?;
            let mut points = count - first;
            if s.until < Fixed::MAX {
                // Points before `until`: k * num / den < until - civil, rounded up.
                let left = s.until.checked_sub(civil).ok_or_else(overflow)?;
                let (q, r) =
                    mul_div_floor(left.to_bits(), den.into(), num.into()).ok_or_else(overflow)?;
                let whole = (q >> 32) + i128::from(q & 0xFFFF_FFFF != 0 || r != 0);
                points = points.min(u64::try_from(whole.max(1)).unwrap_or(u64::MAX));
            }
            spans.push(GridSpan {
                first,
                count: points,
                position: s.line.position(civil)?,
                step: s.line.samples_per_ns() * (num as f64 / den as f64),
                run: s.run,
                in_gap: s.in_gap,
            });
            first += points;
        }
        Ok(spans)
    }
}
