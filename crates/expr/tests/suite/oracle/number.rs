//! A number of any dtype, in exact wide types, rounded or wrapped after each step.

use isochrony_segment::DType;

/// An integer or bool in `int`, a float or complex number in `re` and `im`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Num {
    pub(crate) dtype: DType,
    pub(crate) int: i128,
    pub(crate) re: f64,
    pub(crate) im: f64,
}

fn bits(dtype: DType) -> (u32, bool) {
    match dtype {
        DType::I8 => (8, true),
        DType::I16 => (16, true),
        DType::I32 => (32, true),
        DType::I64 => (64, true),
        DType::U8 => (8, false),
        DType::U16 => (16, false),
        DType::U32 => (32, false),
        other => panic!("{other} is no integer"),
    }
}

fn wrap(value: i128, dtype: DType) -> i128 {
    if dtype == DType::Bool {
        return i128::from(value != 0);
    }
    let (bits, signed) = bits(dtype);
    let value = value.rem_euclid(1 << bits);
    if signed && value >= 1 << (bits - 1) {
        value - (1 << bits)
    } else {
        value
    }
}

fn single(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::C64)
}

/// An f32 operation computed in f64 and rounded is exact, since f64 has more than twice the digits.
fn round(value: f64, dtype: DType) -> f64 {
    if single(dtype) {
        f64::from(value as f32)
    } else {
        value
    }
}

fn exact(dtype: DType) -> bool {
    dtype == DType::Bool || dtype.is_integer()
}

impl Num {
    pub(crate) fn int(value: i128, dtype: DType) -> Self {
        Self {
            dtype,
            int: wrap(value, dtype),
            re: 0.0,
            im: 0.0,
        }
    }

    pub(crate) fn real(value: f64, dtype: DType) -> Self {
        Self {
            dtype,
            int: 0,
            re: round(value, dtype),
            im: 0.0,
        }
    }

    pub(crate) fn complex(re: f64, im: f64, dtype: DType) -> Self {
        Self {
            dtype,
            int: 0,
            re: round(re, dtype),
            im: round(im, dtype),
        }
    }

    pub(crate) fn bool(value: bool) -> Self {
        Self::int(value.into(), DType::Bool)
    }

    pub(crate) fn truth(self) -> bool {
        self.int != 0 || self.re != 0.0 || self.im != 0.0
    }

    pub(crate) fn is_nan(self) -> bool {
        self.re.is_nan() || self.im.is_nan()
    }

    /// As f64, if real.
    pub(crate) fn value(self) -> f64 {
        if exact(self.dtype) {
            self.int as f64
        } else {
            self.re
        }
    }

    pub(crate) fn to(self, dtype: DType) -> Self {
        if dtype == DType::Bool {
            return Self::bool(self.truth());
        }
        match (exact(self.dtype), exact(dtype)) {
            (true, true) => Self::int(self.int, dtype),
            (true, false) if single(dtype) => Self::real(f64::from(self.int as f32), dtype),
            (true, false) => Self::real(self.int as f64, dtype),
            (false, true) => {
                let (bits, signed) = bits(dtype);
                let (least, most) = if signed {
                    (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
                } else {
                    (0, (1i128 << bits) - 1)
                };
                // `as` saturates at the limits of i128.
                Self::int((self.re.trunc() as i128).clamp(least, most), dtype)
            }
            (false, false) => Self::complex(self.re, self.im, dtype),
        }
    }

    pub(crate) fn before(self, other: Self, or_equal: bool) -> bool {
        if exact(self.dtype) && exact(other.dtype) {
            return self.int < other.int || (or_equal && self.int == other.int);
        }
        let later = if or_equal {
            self.im <= other.im
        } else {
            self.im < other.im
        };
        if self.dtype.is_complex() {
            (self.re < other.re && !self.im.is_nan() && !other.im.is_nan())
                || (self.re == other.re && later)
        } else {
            self.re < other.re || (or_equal && self.re == other.re)
        }
    }

    pub(crate) fn same(self, other: Self) -> bool {
        self.int == other.int && self.re == other.re && self.im == other.im
    }
}

pub(crate) fn arithmetic(name: &str, a: Num, b: Num) -> Num {
    let d = a.dtype;
    if exact(d) {
        let (x, y) = (a.int, b.int);
        let floor = |x: i128, y: i128| if y == 0 { 0 } else { x.div_euclid(y) };
        // div_euclid rounds down only for positive divisors.
        let quotient = |x: i128, y: i128| if y < 0 { floor(-x, -y) } else { floor(x, y) };
        return Num::int(
            match name {
                "add" => x + y,
                "sub" => x - y,
                "mul" => x * y,
                "floordiv" => quotient(x, y),
                "mod" if y == 0 => 0,
                "mod" => x - y * quotient(x, y),
                "fmod" if y == 0 => 0,
                "fmod" => x % y,
                "pow" => (0..y).fold(1, |power, _| wrap(power * x, d)),
                "and" => x & y,
                "or" => x | y,
                "xor" => x ^ y,
                _ => panic!("{name}"),
            },
            d,
        );
    }
    let r = |value: f64| round(value, d);
    if d.is_complex() {
        let (re, im) = match name {
            "add" => (a.re + b.re, a.im + b.im),
            "sub" => (a.re - b.re, a.im - b.im),
            "mul" => (
                r(a.re * b.re) - r(a.im * b.im),
                r(a.re * b.im) + r(a.im * b.re),
            ),
            "div" => return smith(a, b),
            _ => panic!("{name}"),
        };
        return Num::complex(re, im, d);
    }
    let (x, y) = (a.re, b.re);
    Num::real(
        match name {
            "add" => x + y,
            "sub" => x - y,
            "mul" => x * y,
            "div" => x / y,
            "mod" => remainder(x, y, d),
            "fmod" => x % y,
            "floordiv" if y == 0.0 => x / y,
            "floordiv" => {
                // So that it is nearly a multiple of y.
                let rest = x % y;
                let mut quotient = r(r(x - rest) / y);
                if rest != 0.0 && (y < 0.0) != (rest < 0.0) {
                    quotient = r(quotient - 1.0);
                }
                let down = quotient.floor();
                match quotient {
                    0.0 => 0f64.copysign(x / y),
                    _ if r(quotient - down) > 0.5 => down + 1.0,
                    _ => down,
                }
            }
            _ => panic!("{name}"),
        },
        d,
    )
}

fn remainder(x: f64, y: f64, d: DType) -> f64 {
    let rest = x % y;
    if y == 0.0 || rest.is_nan() {
        f64::NAN
    } else if rest == 0.0 {
        0f64.copysign(y)
    } else if (y < 0.0) == (rest < 0.0) {
        rest
    } else {
        round(rest + y, d)
    }
}

/// NumPy divides complex numbers by Smith's method.
fn smith(a: Num, b: Num) -> Num {
    let d = a.dtype;
    let r = |value: f64| round(value, d);
    let real_is_larger = b.re.abs() >= b.im.abs();
    if real_is_larger && b.re == 0.0 && b.im == 0.0 {
        return Num::complex(a.re / b.re.abs(), a.im / b.re.abs(), d);
    }
    let (large, small) = if real_is_larger {
        (b.re, b.im)
    } else {
        (b.im, b.re)
    };
    let ratio = r(small / large);
    let scale = r(1.0 / r(large + r(small * ratio)));
    let (re, im) = if real_is_larger {
        (r(a.re + r(a.im * ratio)), r(a.im - r(a.re * ratio)))
    } else {
        (r(r(a.re * ratio) + a.im), r(r(a.im * ratio) - a.re))
    };
    Num::complex(re * scale, im * scale, d)
}
