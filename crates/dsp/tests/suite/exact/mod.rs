//! Elementary functions by series in fixed point.

use std::sync::LazyLock;

use num_bigint::{BigInt, Sign};

const PLACES: i64 = 640;

/// `digits * 2^exponent`; exact as an argument, to hundreds of bits as a result.
#[derive(Debug, Clone)]
pub(crate) struct Exact {
    digits: BigInt,
    exponent: i64,
}

/// Fixed point, scaled by 2^[`PLACES`].
type Fixed = BigInt;

fn one() -> Fixed {
    BigInt::from(1) << PLACES
}

fn times(a: &Fixed, b: &Fixed) -> Fixed {
    (a * b) >> PLACES
}

fn over(a: &Fixed, b: &Fixed) -> Fixed {
    (a << PLACES) / b
}

/// Each term is computed from the one before, until they vanish.
fn series(mut term: Fixed, next: impl Fn(&Fixed, u32) -> Fixed) -> Fixed {
    let mut sum = Fixed::from(0);
    let mut k = 0;
    while term.sign() != Sign::NoSign && term.bits() > 1 {
        sum += &term;
        k += 1;
        term = next(&term, k);
    }
    sum
}

fn twice_atanh(s: &Fixed) -> Fixed {
    let square = times(s, s);
    let mut power: Fixed = s * 2;
    let mut sum = Fixed::from(0);
    let mut k = 1;
    while power.bits() > 1 {
        sum += &power / k;
        power = times(&power, &square);
        k += 2;
    }
    sum
}

fn atan_of_inverse(n: i64) -> Fixed {
    let mut power: Fixed = one() / n;
    let mut sum = Fixed::from(0);
    let mut k = 1;
    while power.bits() > 1 {
        if k % 4 == 1 {
            sum += &power / k;
        } else {
            sum -= &power / k;
        }
        power /= n * n;
        k += 2;
    }
    sum
}

static LN_2: LazyLock<Fixed> = LazyLock::new(|| twice_atanh(&(one() / 3)));
static LN_10: LazyLock<Fixed> = LazyLock::new(|| &*LN_2 * 3 + twice_atanh(&(one() / 9)));
/// Machin's formula.
static HALF_PI: LazyLock<Fixed> =
    LazyLock::new(|| (atan_of_inverse(5) * 4 - atan_of_inverse(239)) * 2);

fn rounded(x: &Fixed) -> BigInt {
    (x + (one() >> 1)) >> PLACES
}

/// For a small `r`.
fn exp_series(r: &Fixed) -> Fixed {
    series(one(), |term, k| times(term, r) / k)
}

impl Exact {
    pub(crate) fn of(x: f64) -> Self {
        let bits = x.to_bits();
        let biased = (bits >> 52 & 0x7ff) as i64;
        let fraction = bits & ((1 << 52) - 1);
        let (digits, exponent) = if biased == 0 {
            (fraction, -1074)
        } else {
            (fraction | 1 << 52, biased - 1075)
        };
        let sign = if x.is_sign_negative() { -1 } else { 1 };
        Self {
            digits: BigInt::from(digits) * sign,
            exponent,
        }
    }

    fn fixed(&self) -> Fixed {
        let up = self.exponent + PLACES;
        if up >= 0 {
            &self.digits << up
        } else {
            &self.digits >> -up
        }
    }

    fn from_fixed(digits: Fixed) -> Self {
        Self {
            digits,
            exponent: -PLACES,
        }
    }

    pub(crate) fn plus_one(&self) -> Self {
        Self::from_fixed(self.fixed() + one())
    }

    pub(crate) fn exp(&self) -> Self {
        let x = self.fixed();
        let n = rounded(&over(&x, &LN_2));
        let digits = exp_series(&(x - &n * &*LN_2));
        Self {
            digits,
            exponent: i64::try_from(n).unwrap() - PLACES,
        }
    }

    pub(crate) fn exp_m1(&self) -> Self {
        Self::from_fixed(self.exp().fixed() - one())
    }

    pub(crate) fn tanh(&self) -> Self {
        // By magnitude, to avoid cancellation.
        let sign = if self.digits.sign() == Sign::Minus {
            -1
        } else {
            1
        };
        let twice = Self {
            digits: &self.digits * (2 * sign),
            exponent: self.exponent,
        };
        let grown = twice.exp_m1().fixed();
        Self::from_fixed(over(&grown, &(&grown + one() * 2)) * sign)
    }

    pub(crate) fn ln(&self) -> Self {
        let k = self.digits.bits() as i64 + self.exponent;
        // From a half to one.
        let m = Self {
            digits: self.digits.clone(),
            exponent: self.exponent - k,
        };
        let m = m.fixed();
        let (m, k) = if &m * 3 < one() * 2 {
            (m * 2, k - 1)
        } else {
            (m, k)
        };
        let s = over(&(&m - one()), &(&m + one()));
        Self::from_fixed(twice_atanh(&s) + &*LN_2 * k)
    }

    pub(crate) fn log2(&self) -> Self {
        Self::from_fixed(over(&self.ln().fixed(), &LN_2))
    }

    pub(crate) fn log10(&self) -> Self {
        Self::from_fixed(over(&self.ln().fixed(), &LN_10))
    }

    pub(crate) fn pow(x: f64, y: f64) -> Self {
        let product = times(&Self::of(x).ln().fixed(), &Self::of(y).fixed());
        Self::from_fixed(product).exp()
    }

    fn sin_and_cos(&self) -> (Fixed, Fixed) {
        let x = self.fixed();
        let n = rounded(&over(&x, &HALF_PI));
        let r = x - &n * &*HALF_PI;
        let square = times(&r, &r);
        let next = |first: u32| {
            let square = square.clone();
            move |term: &Fixed, k: u32| {
                -times(term, &square) / ((2 * k + first) * (2 * k + first - 1))
            }
        };
        let sine = series(r.clone(), next(1));
        let cosine = series(one(), next(0));
        match u32::try_from(&((n % 4) + 4) % BigInt::from(4)).unwrap() {
            0 => (sine, cosine),
            1 => (cosine, -sine),
            2 => (-sine, -cosine),
            _ => (-cosine, sine),
        }
    }

    pub(crate) fn sin(&self) -> Self {
        Self::from_fixed(self.sin_and_cos().0)
    }

    pub(crate) fn cos(&self) -> Self {
        Self::from_fixed(self.sin_and_cos().1)
    }

    pub(crate) fn tan(&self) -> Self {
        let (sine, cosine) = self.sin_and_cos();
        Self::from_fixed(over(&sine, &cosine))
    }

    fn scale(&self) -> i64 {
        self.digits.bits() as i64 - 1 + self.exponent
    }

    pub(crate) fn is_normal(&self) -> bool {
        (-1021..1023).contains(&self.scale())
    }

    pub(crate) fn is_normal_f32(&self) -> bool {
        (-125..127).contains(&self.scale())
    }

    fn distance(&self, x: f64, digits: i64, least: i64) -> f64 {
        let unit = (self.scale() - (digits - 1)).max(least);
        let x = Self::of(x);
        let least = x.exponent.min(self.exponent);
        let a = &x.digits << (x.exponent - least);
        let b = &self.digits << (self.exponent - least);
        let off = a - b;
        // The first 64 bits suffice.
        let drop = (off.bits() as i64 - 64).max(0);
        let first = i128::try_from(off >> drop).unwrap() as f64;
        (first * 2f64.powi((drop + least - unit).clamp(-2000, 2000) as i32)).abs()
    }
}

pub(crate) fn ulps_f64(x: f64, exact: &Exact) -> f64 {
    exact.distance(x, 53, -1074)
}

pub(crate) fn ulps_f32(x: f32, exact: &Exact) -> f64 {
    exact.distance(x.into(), 24, -149)
}

#[test]
fn constants_and_values_are_the_known_ones() {
    let known = [
        (
            Exact::of(1.0).exp(),
            "2.71828182845904523536028747135266249775724709369995",
        ),
        (
            Exact::of(2.0).ln(),
            "0.69314718055994530941723212145817656807550013436025",
        ),
        (
            Exact::of(10.0).ln(),
            "2.30258509299404568401799145468436420760110148862877",
        ),
        (
            Exact::of(2.0).log10(),
            "0.30102999566398119521373889472449302676818988146210",
        ),
        (
            Exact::of(1.0).sin(),
            "0.84147098480789650665250232163029899962256306079837",
        ),
        (
            Exact::of(1.0).cos(),
            "0.54030230586813971740093660744297660373231042061792",
        ),
        (
            Exact::of(1.0).tan(),
            "1.55740772465490223050697480745836017308725077238152",
        ),
        (
            Exact::of(1.0).tanh(),
            "0.76159415595576488811945828260479359041276859725793",
        ),
        (
            Exact::pow(2.0, 0.5),
            "1.41421356237309504880168872420969807856967187537694",
        ),
        (
            Exact::from_fixed(&*HALF_PI * 2),
            "3.14159265358979323846264338327950288419716939937510",
        ),
    ];
    for (value, digits) in known {
        let scale = BigInt::from(10).pow(50);
        let expected: BigInt = digits.replace('.', "").parse().unwrap();
        let off = rounded(&(value.fixed() * scale)) - expected;
        assert!(off.bits() <= 1, "{digits}: {off}");
    }
}
