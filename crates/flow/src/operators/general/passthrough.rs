//! Nothing, at the cost of an operator.

use crate::operator;
use crate::{
    Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError, Port, PortType,
    RowAxis,
};

operator! {
    /// Passes every item on unchanged. The optimiser leaves it where it is, so that it shows what the engine itself costs.
    pub struct Passthrough = "passthrough" (Inputs::Exactly(1)) {}
    state {}
}

impl Operator for Passthrough {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied())
            .row_axis(RowAxis::FromInput)
            .light()
            .in_step())
    }

    fn process(&mut self, _: Port, _: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        Ok(Next::Forward)
    }
}
