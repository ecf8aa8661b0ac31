//! Types unary and binary operations, and converts their operands.

use isochrony_segment::DType;

use super::{Action, LoweredNode, Lowering, fits};
use crate::promote::{self, Signature};
use crate::{Binary, ExprError, Unary, widen};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IntegerOverflow {
    Widen,
    Wrap,
}

impl IntegerOverflow {
    fn widened(self, dtype: impl FnOnce() -> Option<DType>) -> Option<Signature> {
        let dtype = (self == Self::Widen).then(dtype)??;
        Some(Signature {
            operands: dtype,
            result: dtype,
        })
    }
}

impl Lowering<'_> {
    pub(super) fn unary(
        &mut self,
        at: usize,
        op: Unary,
        args: &[LoweredNode],
        weak: bool,
        integers: IntegerOverflow,
    ) -> Result<LoweredNode, ExprError> {
        let dtype = self.operand(args[0]).dtype;
        let found = match integers.widened(|| widen::unary(op, dtype)) {
            Some(signature) => Ok(signature),
            None => promote::unary(op, dtype),
        };
        let Signature { operands, result } =
            found.map_err(|why| self.refused(at, op.name(), args, why))?;
        let place = self.cast(at, args[0], operands)?;
        let place = self.push(at, Action::Unary(op), &[place], result, args)?;
        let weak = weak && result != DType::Bool;
        Ok(LoweredNode { place, weak })
    }

    pub(super) fn binary(
        &mut self,
        at: usize,
        op: Binary,
        args: &[LoweredNode],
        weak: bool,
        integers: IntegerOverflow,
    ) -> Result<LoweredNode, ExprError> {
        if op == Binary::Pow
            && let Some(done) = self.power(at, args, weak)?
        {
            return Ok(done);
        }
        let (a, b) = (self.operand(args[0]), self.operand(args[1]));
        let found = match integers.widened(|| self.widened(op, args)) {
            Some(signature) => Ok(signature),
            None => promote::binary(op, a, b),
        };
        let Signature {
            mut operands,
            result,
        } = found.map_err(|why| self.refused(at, op.name(), args, why))?;
        let compares = result == DType::Bool && operands.is_integer();
        let fit = |done: &LoweredNode| {
            self.weak_integer(*done)
                .is_none_or(|value| fits(value, operands))
        };
        if compares && !args.iter().all(fit) {
            // Every integer can be compared with any number.
            operands = DType::I64;
        }
        let left = self.cast(at, args[0], operands)?;
        let right = self.cast(at, args[1], operands)?;
        let place = self.push(at, Action::Binary(op), &[left, right], result, args)?;
        let weak = weak && result != DType::Bool;
        Ok(LoweredNode { place, weak })
    }

    /// Dtype of integer arithmetic without wrapping.
    fn widened(&self, op: Binary, args: &[LoweredNode]) -> Option<DType> {
        let [a, b] = [args[0], args[1]];
        let strong = if a.weak { b } else { a };
        let beside = self.operand(strong).dtype;
        let dtype = |done: LoweredNode| match self.weak_integer(done) {
            Some(value) if !strong.weak && beside.is_integer() => widen::constant(value, beside),
            _ => self.operand(done).dtype,
        };
        widen::binary(op, dtype(a), dtype(b), self.integer_constant(b))
    }
}
