//! Merges several streams into one.

use crate::operator;
use crate::operators::wrong_input;
use crate::{
    Alignment, Contract, Extent, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out,
    PlanError, Port, PortType,
};

operator! {
    /// Merges items of several plans in the order of their indices.
    ///
    /// # Inputs
    /// Samples, windows, ranges, or rows other than those of groups, which have no indices.
    ///
    /// `others`: plans of the same type and timebase.
    ///
    /// # Returns
    /// All items of all inputs, of the same type, ordered by their first index; where two begin together, the first
    /// plan's comes first. No edges; an item waits until no earlier one can follow.
    ///
    /// # Conventions
    /// Where inputs overlap, single windows or samples alternate, however they arrived in blocks. Where indices decrease,
    /// as after a rewind of a selection by time, the first ascending part of all inputs comes first, then what follows.
    ///
    /// # Errors
    /// The plans have different types of items; rows of groups.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> windows = iso.scan(np.arange(9), rate=100).rewindow(3)
    /// >>> low, high = windows.filter(lambda s: s.max() < 3), windows.filter(lambda s: s.min() > 5)
    /// >>> high.merge(low).collect()
    /// array([[0, 1, 2],
    ///        [6, 7, 8]])
    /// ```
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
                mend: "give inputs of one kind and dtype, with the same window or columns, that come from one signal at one rate",
            });
        }
        if let PortType::Rows { stream: None, .. } = first {
            return Err(wrong_input(
                "merge",
                "items that begin somewhere",
                first,
                "rows of groups and of an outer join have no indices: merge before group_by(...) or join(...)",
            ));
        }
        Ok(OperatorProperties::new([*first])
            .contract(Contract::Stateless)
            .align(Alignment::Time)
            .extent(Extent::AnyInput)
            .cost_ns(0.0)
            .data_dependent())
    }

    fn process(&mut self, _: Port, _: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        Ok(Next::Forward)
    }
}
