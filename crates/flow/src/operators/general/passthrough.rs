//! Forwards items, to measure an operator's cost.

use crate::operator;
use crate::{
    Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError, Port, PortType,
    RowAxis,
};

operator! {
    /// Passes everything unchanged; the optimiser moves no operator across it.
    ///
    /// # Inputs
    /// Anything.
    ///
    /// # Returns
    /// The input, unchanged. No edges, no delay.
    ///
    /// # Errors
    /// None.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> iso.scan(np.arange(3), rate=100).passthrough().collect()
    /// array([0, 1, 2])
    /// ```
    pub struct Passthrough = "passthrough" (Inputs::Exactly(1)) {}
    state {}
}

impl Operator for Passthrough {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied())
            .row_axis(RowAxis::FromInput)
            .cost_ns(0.0)
            .in_step())
    }

    fn process(&mut self, _: Port, _: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        Ok(Next::Forward)
    }
}
