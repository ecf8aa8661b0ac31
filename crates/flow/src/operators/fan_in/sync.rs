//! Cuts the samples of several streams around events.

use super::join::{RATE_HINT, same_grid, same_timebase};
use crate::operator;
use crate::operators::wrong_input;
use crate::{
    Alignment, Break, Contract, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out,
    PlanError, Port, PortType,
};

operator! {
    /// Cuts samples of several plans to the ranges of another plan.
    ///
    /// # Inputs
    /// Samples, shape (n,).
    ///
    /// `others`: samples of the same timebase; the last input, `on` in Python, gives the ranges.
    ///
    /// # Returns
    /// One output per plan of samples: its samples within each range, of the same dtype; a range with a gap in it gives
    /// several segments. No edges, no delay; samples wait, without a copy, until no range can ask for them.
    ///
    /// # Conventions
    /// Windows cut afterwards are counted from the first sample of each range; ranges that touch are one.
    ///
    /// # Errors
    /// An input is not samples; the last input has no ranges.
    ///
    /// # Source
    /// L. Girod et al., "XStream: a signal-oriented data stream management system" (2008), section III-D.
    pub struct Sync = "sync" (Inputs::AtLeast(2)) {}
    state {
        /// Next index of each output; None before the first samples of a contiguous range.
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
                        RATE_HINT
                    } else {
                        "convert the ranges to the samples' timebase first"
                    },
                });
            }
        }
        self.next = vec![None; inputs.len()];
        let properties =
            OperatorProperties::new(inputs.iter().copied()).contract(Contract::Sequential);
        Ok(properties.align(Alignment::Control).data_dependent())
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
