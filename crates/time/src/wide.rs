//! Multiplication, then division, in 256 bits.
//!
//! Ten years at 10 MHz with a 2^-32 ns fraction need 52 + 64 + 32 bits.

use ethnum::I256;

/// Rounds to nearest, halves up. `None` on overflow, or if `d` is not positive.
pub(crate) fn mul_div_round(a: i128, b: i128, d: i128) -> Option<i128> {
    if d <= 0 {
        return None;
    }
    if let Some(p) = a.checked_mul(b) {
        let (q, r) = (p.div_euclid(d), p.rem_euclid(d));
        return q.checked_add(i128::from(r >= d - r));
    }
    let (q, r) = wide_div(a, b, d);
    let d = I256::from(d);
    i128::try_from(q + I256::from(u8::from(r >= d - r))).ok()
}

/// Rounds down; the remainder is in `0..d`.
pub(crate) fn mul_div_floor(a: i128, b: i128, d: i128) -> Option<(i128, i128)> {
    if d <= 0 {
        return None;
    }
    if let Some(p) = a.checked_mul(b) {
        return Some((p.div_euclid(d), p.rem_euclid(d)));
    }
    let (q, r) = wide_div(a, b, d);
    Some((i128::try_from(q).ok()?, i128::try_from(r).ok()?))
}

fn wide_div(a: i128, b: i128, d: i128) -> (I256, I256) {
    // |a|, |b| <= 2^127: the product is at most 2^254.
    let p = I256::from(a) * I256::from(b);
    let d = I256::from(d);
    (p.div_euclid(d), p.rem_euclid(d))
}

/// Parts are stored as signed 64-bit columns.
const MAX_PART: u128 = i64::MAX as u128;

pub(crate) fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Exact if the reduced fraction fits 63 bits, else the last continued-fraction convergent that does, within 2^-61
/// relative. `None` outside 2^-63..2^63.
pub(crate) fn best_u64_ratio(num: u128, den: u128) -> Option<(u64, u64)> {
    if num == 0 || den == 0 {
        return None;
    }
    let (mut n, mut d) = (num, den);
    let (mut h0, mut k0, mut h1, mut k1) = (0u128, 1u128, 1u128, 0u128);
    while d != 0 {
        let q = n / d;
        let h = q.checked_mul(h1).and_then(|x| x.checked_add(h0));
        let k = q.checked_mul(k1).and_then(|x| x.checked_add(k0));
        let (Some(h), Some(k)) = (h, k) else { break };
        if h > MAX_PART || k > MAX_PART {
            break;
        }
        (h0, k0, h1, k1) = (h1, k1, h, k);
        (n, d) = (d, n % d);
    }
    if h1 == 0 || k1 == 0 {
        return None;
    }
    Some((u64::try_from(h1).ok()?, u64::try_from(k1).ok()?))
}
