//! Powers with a constant exponent, as products and roots.
//!
//! NumPy squares for `** 2`, takes a root for `** 0.5` and divides for `** -1`. Products up to the eighth power differ
//! from its `pow` by a few units in the last place.

use isochrony_segment::DType;

use super::{Action, LoweredNode, Lowering};
use crate::promote::promote;
use crate::{Binary, ExprError, Scalar, Shape, Unary};

const MAX_PRODUCT_POWER: i64 = 8;

impl Lowering<'_> {
    /// None if its exponent has no special form.
    pub(super) fn power(
        &mut self,
        at: usize,
        args: &[LoweredNode],
        weak: bool,
    ) -> Result<Option<LoweredNode>, ExprError> {
        let common = promote(&[self.operand(args[0]), self.operand(args[1])]).dtype;
        if common.is_integer() {
            self.check_exponent(at, args[1])?;
            return Ok(None);
        }
        if !common.is_complex() && !common.is_float() {
            return Ok(None);
        }
        let Some(exponent) = self.real_constant(args[1]) else {
            return Ok(None);
        };
        let whole = (exponent.fract() == 0.0 && exponent.abs() <= MAX_PRODUCT_POWER as f64)
            .then_some(exponent as i64);
        let place = match whole {
            Some(1..=MAX_PRODUCT_POWER) => {
                let base = self.cast(at, args[0], common)?;
                let mut power = base;
                for _ in 1..exponent as i64 {
                    power = self.push(
                        at,
                        Action::Binary(Binary::Mul),
                        &[power, base],
                        common,
                        args,
                    )?;
                }
                power
            }
            Some(-1) => {
                let base = self.cast(at, args[0], common)?;
                let one = self.constant(at, Scalar::Int(1), Some(common))?.place;
                self.push(at, Action::Binary(Binary::Div), &[one, base], common, args)?
            }
            _ if exponent == 0.5 && !common.is_complex() => {
                let base = self.cast(at, args[0], common)?;
                self.push(at, Action::Unary(Unary::Sqrt), &[base], common, args)?
            }
            _ => return Ok(None),
        };
        Ok(Some(LoweredNode { place, weak }))
    }

    /// Integer powers need a non-negative constant exponent.
    fn check_exponent(&self, at: usize, exponent: LoweredNode) -> Result<(), ExprError> {
        let node = &self.nodes[exponent.place];
        let signed = node.dtype.is_integer() && !node.dtype.is_unsigned();
        if !signed {
            return Ok(());
        }
        let parameter = "the exponent of an integer";
        match self.integer_constant(exponent) {
            None => Err(ExprError::NeedsConstant {
                at: self.text(at),
                parameter,
                got: if node.shape == Shape::Constant {
                    Shape::Window
                } else {
                    node.shape
                },
            }),
            Some(value) if value < 0 => Err(ExprError::ParameterRange {
                at: self.text(at),
                parameter,
                expected: "0 or above (convert with .astype(\"float64\") for fractions)",
                got: Scalar::Int(value),
            }),
            Some(_) => Ok(()),
        }
    }

    pub(super) fn integer_constant(&self, done: LoweredNode) -> Option<i64> {
        let value = self.nodes.constant(done.place)?;
        Some(match self.nodes[done.place].dtype {
            DType::I8 => value.get::<i8>().into(),
            DType::I16 => value.get::<i16>().into(),
            DType::I32 => value.get::<i32>().into(),
            DType::I64 => value.get(),
            DType::U8 => value.get::<u8>().into(),
            DType::U16 => value.get::<u16>().into(),
            DType::U32 => value.get::<u32>().into(),
            _ => return None,
        })
    }

    fn real_constant(&self, done: LoweredNode) -> Option<f64> {
        let value = self.nodes.constant(done.place)?;
        match self.nodes[done.place].dtype {
            DType::F32 => Some(value.get::<f32>().into()),
            DType::F64 => Some(value.get()),
            _ => self.integer_constant(done).map(|value| value as f64),
        }
    }
}
