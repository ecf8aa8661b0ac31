//! Closes a loop: the feedback must have the delayed input's type.

use super::join::same_grid;
use crate::operator;
use crate::{
    Alignment, Contract, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError,
    Port, PortType,
};

operator! {
    /// Closes a loop: passes its first input on, and feeds the second back to `delayed`, its third; part of
    /// `Plan.feedback`.
    ///
    /// # Inputs
    /// The items that are passed on.
    ///
    /// `fed`: what is fed back: a window, or a sample, for each that came in.
    ///
    /// `back`: the output of `delayed`.
    ///
    /// # Returns
    /// The first input, unchanged. No edges, no delay.
    ///
    /// # Errors
    /// What is fed back is not of the announced type, or may lack windows.
    pub struct Feedback = "feedback" (Inputs::Exactly(3)) {}
    state {}
}

impl Operator for Feedback {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let (back, delayed) = (inputs[1], inputs[2]);
        let grid = |port: &PortType| match *port {
            PortType::Samples { dtype, stream } => Some((dtype, stream, 0, 0, 1)),
            PortType::Frames {
                dtype,
                stream,
                window,
                hop,
                width,
            } => Some((dtype, stream, window, hop, width)),
            _ => None,
        };
        let alike = match (grid(&back), grid(&delayed)) {
            (Some((dtype, a, ..)), Some((other, b, ..))) => {
                let shape = |port| grid(port).map(|(.., window, hop, width)| (window, hop, width));
                dtype == other && shape(&back) == shape(&delayed) && same_grid(a, b)
            }
            _ => false,
        };
        if !alike {
            return Err(PlanError::InputsDiffer {
                operator: "feedback",
                first: delayed.to_string(),
                port: 1,
                other: back.to_string(),
                mend: "feed back the same as initial=: as many values per window, of its dtype (convert with .astype(...))",
            });
        }
        let properties = OperatorProperties::new([inputs[0]]).contract(Contract::Sequential);
        Ok(properties.align(Alignment::Arrival).closes_loop())
    }

    fn process(&mut self, port: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        if port == 0 {
            return Ok(Next::Forward);
        }
        out.feed_back(item.take());
        Ok(Next::Consumed)
    }
}
