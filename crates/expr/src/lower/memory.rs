//! Types stateful operations: running means, hysteresis, previous values, counters.

use isochrony_segment::DType;

use super::{Action, LoweredNode, Lowering};
use crate::promote::{self, Operand, PromotionError};
use crate::{ExprError, Memory, Scalar, Shape, Type};

impl Lowering<'_> {
    pub(super) fn memory(
        &mut self,
        at: usize,
        op: Memory,
        args: &[LoweredNode],
    ) -> Result<LoweredNode, ExprError> {
        let Type { dtype, shape } = self.type_of(args[0]);
        if shape != Shape::Window {
            return Err(ExprError::NeedsWindows {
                at: self.text(at),
                op: op.name(),
                got: shape,
            });
        }
        let operands: Vec<Operand> = args.iter().map(|&arg| self.operand(arg)).collect();
        let complex = operands.iter().any(|operand| operand.dtype.is_complex());
        if complex && matches!(op, Memory::Ewm | Memory::Hysteresis) {
            let mend = "take .real(), .imag() or .abs() of it first";
            return Err(self.refused(at, op.name(), args, PromotionError::Unsupported { mend }));
        }
        let (places, result) = match op {
            Memory::Ewm => {
                let float = if dtype == DType::F32 {
                    DType::F32
                } else {
                    DType::F64
                };
                self.must_be_constant(at, args[1], "alpha")?;
                let alpha = self.cast(at, args[1], DType::F64)?;
                let value: f64 = self.nodes.constant(alpha).unwrap_or_default().get();
                if !(value > 0.0 && value <= 1.0) {
                    return Err(ExprError::ParameterRange {
                        at: self.text(at),
                        parameter: "alpha",
                        expected: "above 0 and at most 1",
                        got: Scalar::Float(value),
                    });
                }
                (vec![self.cast(at, args[0], float)?, alpha], float)
            }
            Memory::Hysteresis => {
                let common = promote::promote(&operands).dtype;
                for (&limit, parameter) in args[1..].iter().zip(["low", "high"]) {
                    let got = self.type_of(limit).shape;
                    if got == Shape::Sample {
                        return Err(ExprError::NeedsConstant {
                            at: self.text(at),
                            parameter,
                            got,
                        });
                    }
                }
                let casts = args.iter().map(|&arg| self.cast(at, arg, common));
                (casts.collect::<Result<_, _>>()?, DType::Bool)
            }
            Memory::Previous => {
                self.must_be_constant(at, args[1], "the first value")?;
                let common = promote::promote(&operands).dtype;
                let casts = args.iter().map(|&arg| self.cast(at, arg, common));
                (casts.collect::<Result<_, _>>()?, common)
            }
            Memory::Counter => (vec![self.cast(at, args[0], DType::Bool)?], DType::I64),
        };
        let place = self.push(at, Action::Memory(op), &places, result, args)?;
        Ok(LoweredNode { place, weak: false })
    }

    fn must_be_constant(
        &self,
        at: usize,
        done: LoweredNode,
        parameter: &'static str,
    ) -> Result<(), ExprError> {
        match self.type_of(done).shape {
            Shape::Constant => Ok(()),
            got => Err(ExprError::NeedsConstant {
                at: self.text(at),
                parameter,
                got,
            }),
        }
    }
}
