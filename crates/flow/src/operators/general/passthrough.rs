//! Nothing, at the cost of an operator.

use crate::operator;
use crate::{
    Bound, Columns, Inputs, Item, Next, OpError, Operator, Out, PlanError, Port, PortType,
};

operator! {
    /// Passes every item on unchanged. The optimiser leaves it where it is, so that it shows what the engine itself costs.
    pub struct Passthrough = "passthrough" (Inputs::Exactly(1)) {}
    state {}
}

impl Operator for Passthrough {
    fn bind(&mut self, inputs: &[PortType]) -> Result<Bound, PlanError> {
        Ok(Bound::new(inputs.iter().copied())
            .columns(Columns::Kept)
            .light()
            .in_step())
    }

    fn process(&mut self, _: Port, _: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        Ok(Next::Tail)
    }
}
