//! [`Operand`]: where a step of a plan, or a threshold, takes a value from.

use crate::kernels::Value;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Operand {
    Input(usize),
    Register(usize),
    Column(usize),
    Constant(Value),
}
