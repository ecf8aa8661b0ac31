//! Several streams into one.

use crate::operator;
use crate::operators::wrong_input;
use crate::{
    Alignment, Contract, Extent, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out,
    PlanError, Port, PortType,
};

operator! {
    /// All samples, windows, rows or ranges of all inputs, those that begin first first; the lower input first where two begin together.
    ///
    /// Where inputs overlap they are taken in turn, one window or sample at a time, however they came.
    /// Where they go back, as ranges of a selection may, first what ascends of all of them, then what follows.
    pub struct Merge = "merge" (Inputs::AtLeast(1)) {}
    state {}
}

impl Operator for Merge {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let Some((first, others)) = inputs.split_first() else {
            return Err(PlanError::Inputs {
                operator: "merge",
                expected: "1 or more".into(),
                got: 0,
            });
        };
        if let Some(at) = others.iter().position(|other| other != first) {
            return Err(PlanError::InputsDiffer {
                operator: "merge",
                first: first.to_string(),
                port: at + 1,
                other: others[at].to_string(),
                mend: "bring them to one kind, dtype and stream first",
            });
        }
        if let PortType::Rows { stream: None, .. } = first {
            return Err(wrong_input(
                "merge",
                "items that begin somewhere",
                first,
                "groups have no indices: merge the rows before they are grouped",
            ));
        }
        Ok(OperatorProperties::new([*first])
            .contract(Contract::Stateless)
            .align(Alignment::Time)
            .extent(Extent::AnyInput)
            .light()
            .data_dependent())
    }

    fn process(&mut self, _: Port, _: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        Ok(Next::Forward)
    }
}
