//! Constants of expressions.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use isochrony_segment::{Complex64, DType};

use crate::ExprError;

/// A number that takes the dtype of its operand, like Python's.
///
/// Equality is bitwise: NaN equals itself and -0.0 differs from 0.0. The text form is Python's (`True`, `3`, `2.5`,
/// `nan`, `-inf`, `1.0+2.0j`) and reads back exactly.
#[derive(Debug, Clone, Copy)]
pub enum Scalar {
    /// A bool.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A complex number.
    Complex(Complex64),
}

impl Scalar {
    /// Its dtype without a stronger operand.
    #[must_use]
    pub fn default_dtype(self) -> DType {
        match self {
            Self::Bool(_) => DType::Bool,
            Self::Int(_) => DType::I64,
            Self::Float(_) => DType::F64,
            Self::Complex(_) => DType::C128,
        }
    }

    fn bits(self) -> (u8, u64, u64) {
        match self {
            Self::Bool(value) => (0, u64::from(value), 0),
            Self::Int(value) => (1, value as u64, 0),
            Self::Float(value) => (2, value.to_bits(), 0),
            Self::Complex(value) => (3, value.re.to_bits(), value.im.to_bits()),
        }
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.bits() == other.bits()
    }
}

impl Eq for Scalar {}

impl Hash for Scalar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bits().hash(state);
    }
}

fn write_float(f: &mut fmt::Formatter<'_>, value: f64) -> fmt::Result {
    if value.is_nan() {
        f.write_str("nan")
    } else {
        write!(f, "{value:?}")
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bool(true) => f.write_str("True"),
            Self::Bool(false) => f.write_str("False"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write_float(f, value),
            Self::Complex(value) => {
                write_float(f, value.re)?;
                if !value.im.is_sign_negative() || value.im.is_nan() {
                    f.write_str("+")?;
                }
                write_float(f, value.im)?;
                f.write_str("j")
            }
        }
    }
}

impl FromStr for Scalar {
    type Err = ExprError;

    fn from_str(text: &str) -> Result<Self, ExprError> {
        let unknown = || ExprError::UnknownConstant { text: text.into() };
        match text {
            "True" => return Ok(Self::Bool(true)),
            "False" => return Ok(Self::Bool(false)),
            _ => {}
        }
        if let Ok(value) = text.parse() {
            return Ok(Self::Int(value));
        }
        if let Some(parts) = text.strip_suffix('j') {
            // The sign between the parts is the last one outside an exponent.
            let bytes = parts.as_bytes();
            let split = (1..bytes.len())
                .rev()
                .find(|&at| {
                    matches!(bytes[at], b'+' | b'-') && !matches!(bytes[at - 1], b'e' | b'E')
                })
                .ok_or_else(unknown)?;
            let (re, im) = parts.split_at(split);
            let im = im.strip_prefix('+').unwrap_or(im);
            let (Ok(re), Ok(im)) = (re.parse(), im.parse()) else {
                return Err(unknown());
            };
            return Ok(Self::Complex(Complex64::new(re, im)));
        }
        text.parse().map(Self::Float).map_err(|_| unknown())
    }
}

macro_rules! from {
    ($($type:ty => $variant:ident;)*) => {$(
        impl From<$type> for Scalar {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}

from! {
    bool => Bool;
    i8 => Int;
    i16 => Int;
    i32 => Int;
    i64 => Int;
    u8 => Int;
    u16 => Int;
    u32 => Int;
    f32 => Float;
    f64 => Float;
    Complex64 => Complex;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_reads_back_to_the_same_bits() {
        let floats = [
            0.0,
            -0.0,
            0.1,
            -1e300,
            5e-324,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
        ];
        let mut all = vec![Scalar::Bool(true), Scalar::Bool(false)];
        all.extend([0, -1, i64::MIN, i64::MAX].map(Scalar::Int));
        all.extend(floats.map(Scalar::Float));
        for re in floats {
            all.extend(floats.map(|im| Scalar::Complex(Complex64::new(re, im))));
        }
        for value in all {
            let text = value.to_string();
            assert_eq!(text.parse(), Ok(value), "{text}");
        }
    }

    #[test]
    fn rejects_invalid_constants() {
        for text in ["", "j", "true", "1+", "0x10", "1.0+j2", "s"] {
            let error = text.parse::<Scalar>().unwrap_err();
            assert_eq!(error.code(), "unknown_constant", "{text}");
        }
    }

    #[test]
    fn dtypes_are_pythons() {
        assert_eq!(Scalar::from(true).default_dtype(), DType::Bool);
        assert_eq!(Scalar::from(3i8).default_dtype(), DType::I64);
        assert_eq!(Scalar::from(0.5f32).default_dtype(), DType::F64);
        assert_eq!(
            Scalar::from(Complex64::new(0.0, 1.0)).default_dtype(),
            DType::C128
        );
    }
}
