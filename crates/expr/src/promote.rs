//! Type promotion: NumPy 2's rules (NEP 50) for the dtypes of signals. Other integer arithmetic: [`crate::widen`].

use isochrony_segment::DType;

use crate::{Binary, Reduction, Unary};

/// A dtype, and whether it is weak, as a Python number's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operand {
    pub(crate) dtype: DType,
    pub(crate) weak: bool,
}

impl Operand {
    pub(crate) const fn strong(dtype: DType) -> Self {
        Self { dtype, weak: false }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PromotionError {
    /// Unsupported in NumPy, or deliberately here.
    Unsupported { mend: &'static str },
    /// NumPy's result has a dtype that signals cannot have.
    Missing {
        numpy: &'static str,
        mend: &'static str,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signature {
    pub(crate) operands: DType,
    pub(crate) result: DType,
}

const fn same(dtype: DType) -> Signature {
    Signature {
        operands: dtype,
        result: dtype,
    }
}

const fn to(operands: DType, result: DType) -> Signature {
    Signature { operands, result }
}

const COMPLEX_MEND: &str = "take .real(), .imag(), .abs() or .angle() of it first";
const BOOL_MEND: &str =
    "for bools use ^ (exclusive or) or ~ (not), or convert with .astype(\"int8\")";
const BITS_MEND: &str = "convert with .astype(\"int64\"), or compare first to get bools";
const HALF: PromotionError = PromotionError::Missing {
    numpy: "float16",
    mend: "convert with .astype(\"float32\") first",
};

fn refuse(mend: &'static str) -> PromotionError {
    PromotionError::Unsupported { mend }
}

/// Component dtype of complex numbers; others unchanged.
pub(crate) const fn component(dtype: DType) -> DType {
    match dtype {
        DType::C64 => DType::F32,
        DType::C128 => DType::F64,
        _ => dtype,
    }
}

pub(crate) fn promote_types(a: DType, b: DType) -> DType {
    if a == b {
        return a;
    }
    match (a, b) {
        (DType::Bool, other) | (other, DType::Bool) => other,
        _ if a.is_integer() && b.is_integer() => {
            if a.is_unsigned() == b.is_unsigned() {
                return if a.size() > b.size() { a } else { b };
            }
            let (unsigned, signed) = if a.is_unsigned() { (a, b) } else { (b, a) };
            let least = match unsigned {
                DType::U8 => DType::I16,
                DType::U16 => DType::I32,
                _ => DType::I64,
            };
            if signed.size() > least.size() {
                signed
            } else {
                least
            }
        }
        _ => {
            let part = |dtype: DType| match dtype {
                DType::I32 | DType::U32 | DType::I64 | DType::F64 | DType::C128 => DType::F64,
                _ => DType::F32,
            };
            let wide = part(a) == DType::F64 || part(b) == DType::F64;
            match (a.is_complex() || b.is_complex(), wide) {
                (false, false) => DType::F32,
                (false, true) => DType::F64,
                (true, false) => DType::C64,
                (true, true) => DType::C128,
            }
        }
    }
}

pub(crate) fn promote(operands: &[Operand]) -> Operand {
    let of = |weak| {
        let dtypes = operands
            .iter()
            .filter(move |o| o.weak == weak)
            .map(|o| o.dtype);
        dtypes.reduce(promote_types)
    };
    match (of(false), of(true)) {
        (Some(strong), None) => Operand::strong(strong),
        (Some(strong), Some(weak)) => Operand::strong(yield_to(strong, weak)),
        (None, Some(weak)) => Operand {
            dtype: weak,
            weak: true,
        },
        (None, None) => Operand::strong(DType::Bool),
    }
}

/// Dtype of a weak number beside a strong one: the higher kind, at the strong one's width.
fn yield_to(strong: DType, weak: DType) -> DType {
    let exact = strong == DType::Bool || strong.is_integer();
    match weak {
        DType::I64 if strong == DType::Bool => DType::I64,
        DType::F64 if exact => DType::F64,
        DType::C128 if exact => DType::C128,
        DType::C128 if strong == DType::F32 => DType::C64,
        DType::C128 if strong == DType::F64 => DType::C128,
        _ => strong,
    }
}

/// Dtype in which NumPy's float functions compute.
fn float_of(dtype: DType) -> Result<DType, PromotionError> {
    match dtype {
        DType::Bool | DType::I8 | DType::U8 => Err(HALF),
        DType::I16 | DType::U16 | DType::F32 => Ok(DType::F32),
        DType::I32 | DType::U32 | DType::I64 | DType::F64 => Ok(DType::F64),
        DType::C64 | DType::C128 => Err(refuse(COMPLEX_MEND)),
    }
}

pub(crate) fn unary(op: Unary, dtype: DType) -> Result<Signature, PromotionError> {
    let exact = dtype == DType::Bool || dtype.is_integer();
    Ok(match op {
        Unary::Neg if dtype == DType::Bool => return Err(refuse(BOOL_MEND)),
        Unary::Neg => same(dtype),
        Unary::Abs | Unary::Real | Unary::Imag => to(dtype, component(dtype)),
        Unary::Invert if exact => same(dtype),
        Unary::Invert => return Err(refuse(BITS_MEND)),
        Unary::IsNan | Unary::IsFinite => to(dtype, DType::Bool),
        Unary::Conj if dtype == DType::Bool => same(DType::I8),
        Unary::Conj => same(dtype),
        Unary::Round if dtype == DType::Bool => return Err(HALF),
        Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round | Unary::Rint
            if dtype.is_complex() =>
        {
            return Err(refuse(COMPLEX_MEND));
        }
        Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round => same(dtype),
        Unary::Angle if dtype.is_complex() => to(dtype, component(dtype)),
        Unary::Angle if dtype == DType::Bool => same(DType::F64),
        Unary::Angle
        | Unary::Sqrt
        | Unary::Exp
        | Unary::Expm1
        | Unary::Log
        | Unary::Log1p
        | Unary::Log2
        | Unary::Log10
        | Unary::Sin
        | Unary::Cos
        | Unary::Tan
        | Unary::Tanh
        | Unary::Rint => same(float_of(dtype)?),
    })
}

/// Both operands are converted to `operands`.
pub(crate) fn binary(op: Binary, a: Operand, b: Operand) -> Result<Signature, PromotionError> {
    let common = promote(&[a, b]).dtype;
    let exact = common == DType::Bool || common.is_integer();
    Ok(match op {
        Binary::Add | Binary::Mul | Binary::Minimum | Binary::Maximum => same(common),
        Binary::Sub if common == DType::Bool => return Err(refuse(BOOL_MEND)),
        Binary::Sub => same(common),
        Binary::Div if exact => same(DType::F64),
        Binary::Div => same(common),
        Binary::FloorDiv | Binary::Mod | Binary::Fmod if common.is_complex() => {
            return Err(refuse(COMPLEX_MEND));
        }
        Binary::Pow if common.is_complex() => {
            return Err(refuse(
                "multiply it with itself instead; only ** 2 is known for complex",
            ));
        }
        // NumPy's result depends on the exponent's value.
        Binary::Pow if a.dtype == DType::Bool && !a.weak && b.weak && b.dtype == DType::I64 => {
            return Err(refuse("convert with .astype(\"int8\") first"));
        }
        Binary::FloorDiv | Binary::Mod | Binary::Fmod | Binary::Pow if common == DType::Bool => {
            same(DType::I8)
        }
        Binary::FloorDiv | Binary::Mod | Binary::Fmod | Binary::Pow => same(common),
        Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge | Binary::Eq | Binary::Ne => {
            to(common, DType::Bool)
        }
        Binary::And | Binary::Or | Binary::Xor if exact => same(common),
        Binary::And | Binary::Or | Binary::Xor => return Err(refuse(BITS_MEND)),
        Binary::Arctan2 | Binary::Hypot => {
            // int8 and uint8 give float16, although their common dtype is int16.
            let of = |o: Operand| float_of(if o.weak { common } else { o.dtype });
            match (of(a), of(b)) {
                (Err(PromotionError::Unsupported { mend }), _)
                | (_, Err(PromotionError::Unsupported { mend })) => {
                    return Err(refuse(mend));
                }
                // float16 yields to a wider float.
                (Err(half), Err(_)) => return Err(half),
                (Ok(one), Err(_)) | (Err(_), Ok(one)) => same(one),
                (Ok(a), Ok(b)) => same(promote_types(a, b)),
            }
        }
    })
}

pub(crate) fn reduction(op: Reduction, dtype: DType) -> Result<DType, PromotionError> {
    let exact = dtype == DType::Bool || dtype.is_integer();
    Ok(match op {
        Reduction::Mean if exact => DType::F64,
        Reduction::Mean => dtype,
        Reduction::Std | Reduction::Var | Reduction::Rms if exact => DType::F64,
        Reduction::Std | Reduction::Var | Reduction::Rms => component(dtype),
        Reduction::Min | Reduction::Max => dtype,
        // NumPy gives uint64 for unsigned integers.
        Reduction::Sum if exact => DType::I64,
        Reduction::Sum => dtype,
        Reduction::Count => DType::I64,
        Reduction::Any | Reduction::All => DType::Bool,
    })
}
