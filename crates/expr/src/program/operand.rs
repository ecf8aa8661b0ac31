//! [`Operand`]: where a step of a plan, or a threshold, takes a value from.

use crate::kernels::Value;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Operand {
    Input(usize),
    /// A block from an earlier step.
    Register(usize),
    Column(usize),
    Constant(Value),
}
