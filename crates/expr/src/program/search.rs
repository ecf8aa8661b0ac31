//! Binary search over all numbers of a dtype.

use isochrony_segment::DType;

/// Every real dtype of a chain fits f64.
pub(super) fn rank(value: f64, dtype: DType) -> i64 {
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

pub(super) fn unrank(rank: i64, dtype: DType) -> f64 {
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

pub(super) fn limits(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DType::I16 => (i16::MIN.into(), i16::MAX.into()),
        DType::I32 => (i32::MIN.into(), i32::MAX.into()),
        DType::U8 => (0.0, u8::MAX.into()),
        DType::U16 => (0.0, u16::MAX.into()),
        DType::U32 => (0.0, u32::MAX.into()),
        _ => (f64::NEG_INFINITY, f64::INFINITY),
    }
}

/// The least number of a dtype for which the monotonic `holds` is true, if any. Searches outwards from a guess.
pub(super) fn least(dtype: DType, guess: f64, holds: impl Fn(f64) -> bool) -> Option<f64> {
    let (first, last) = limits(dtype);
    let (first, last) = (rank(first, dtype), rank(last, dtype));
    let holds = |rank: i64| holds(unrank(rank, dtype));
    let start = rank(if guess.is_nan() { 0.0 } else { guess }, dtype).clamp(first, last);
    // Invariant: false below `no`, or at it if it is a number; true at `yes`.
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

pub(super) fn before(value: f64, dtype: DType) -> f64 {
    unrank(rank(value, dtype) - 1, dtype)
}
