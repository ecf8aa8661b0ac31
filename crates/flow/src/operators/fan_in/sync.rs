//! The samples of several streams around events.

use super::join::{OTHER_RATE, same_grid, same_timebase};
use crate::operator;
use crate::operators::wrong_input;
use crate::{
    Alignment, Break, Contract, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out,
    PlanError, Port, PortType,
};

operator! {
    /// For every range of the last input, the samples of each of the others in it, on an output each; the rest is dropped.
    ///
    /// Samples wait until it is known that no range will ask for them, by reference: they are not copied. A range
    /// that has a gap in it gives several segments. Windows behind it are counted from each range's first sample; ranges
    /// that touch are one. XStream, section III-D.
    pub struct Sync = "sync" (Inputs::AtLeast(2)) {}
    state {
        /// Where what is given on each output goes on; None before the first samples of a stretch.
        next: Vec<Option<i64>>,
    }
}

impl Operator for Sync {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let Some((control, data)) = inputs.split_last() else {
            return Err(PlanError::Inputs {
                operator: "sync",
                expected: "2 or more".into(),
                got: 0,
            });
        };
        let PortType::Ranges { stream } = control else {
            return Err(wrong_input(
                "sync",
                "ranges as its last input",
                control,
                "connect a detector's output last",
            ));
        };
        for port in data {
            let PortType::Samples { stream: own, .. } = port else {
                return Err(wrong_input(
                    "sync",
                    "samples before its last input",
                    port,
                    "connect the samples themselves",
                ));
            };
            if !same_grid(*own, *stream) {
                return Err(PlanError::InputsDiffer {
                    operator: "sync",
                    first: port.to_string(),
                    port: data.len(),
                    other: control.to_string(),
                    mend: if same_timebase(*own, *stream) {
                        OTHER_RATE
                    } else {
                        "convert the ranges to the samples' timebase first"
                    },
                });
            }
        }
        self.next = vec![None; inputs.len()];
        let bound = OperatorProperties::new(inputs.iter().copied()).contract(Contract::Sequential);
        Ok(bound.align(Alignment::Control).data_dependent())
    }

    fn process(&mut self, port: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        if let (Some((start, end)), Some(next)) =
            (item.extent(), self.next.get_mut(usize::from(port)))
        {
            let own = next.replace(end) != Some(start) && start != out.anchor();
            if own {
                out.begin(port, start)?;
            }
        }
        out.emit(port, item)?;
        Ok(Next::Consumed)
    }

    fn on_break(&mut self, _: Port, _: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        self.next.fill(None);
        Ok(())
    }
}
