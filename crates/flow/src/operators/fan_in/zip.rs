//! Zips streams.

use super::join::{RATE_HINT, same_grid, same_timebase};
use crate::operator;
use crate::{
    Alignment, Contract, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError,
    Port, PortType, RowAxis,
};

operator! {
    /// Keeps what all plans have at the same indices, each on its own output.
    ///
    /// # Inputs
    /// Samples or windows.
    ///
    /// `others`: samples or windows of the same timebase, windows of the same length and hop.
    ///
    /// # Returns
    /// One output per input, with its own dtype and shape: the items at indices that all inputs have. No edges, no
    /// delay.
    ///
    /// # Conventions
    /// Where indices decrease, as after a rewind of a selection by time, ascending parts are matched: the first part of
    /// one with the first of the other, and so on.
    ///
    /// # Errors
    /// The plans differ in their types of items, or in their timebase.
    pub struct Zip = "zip" (Inputs::AtLeast(2)) {}
    state {}
}

const TIMEBASE_HINT: &str = "equal indices are equal times only of one timebase: align() one of them to the other, or give \
                             scans of arrays the same start= and rate=";

/// Requires samples, or equal windows, of one timebase and rate.
pub fn one_grid(operator: &'static str, inputs: &[PortType]) -> Result<(), PlanError> {
    let grid = |port: &PortType| match *port {
        PortType::Samples { stream, .. } => Some((stream, 0, 0)),
        PortType::Frames {
            stream,
            window,
            hop,
            ..
        } => Some((stream, window, hop)),
        PortType::Ranges { .. } | PortType::Rows { .. } | PortType::Count => None,
    };
    let first = inputs.first().and_then(grid);
    // How a port differs from the first, and the remedy.
    let differs = |port: &PortType| match (first, grid(port)) {
        (Some((a, window, hop)), Some((b, other_window, other_hop))) => {
            if (window, hop) != (other_window, other_hop) {
                Some("zip samples with samples, or windows with equal windows")
            } else if !same_timebase(a, b) {
                Some(TIMEBASE_HINT)
            } else {
                (!same_grid(a, b)).then_some(RATE_HINT)
            }
        }
        _ => Some("zip samples with samples, or windows with equal windows"),
    };
    for (at, port) in inputs.iter().enumerate() {
        if let Some(mend) = differs(port) {
            return Err(PlanError::InputsDiffer {
                operator,
                first: inputs[0].to_string(),
                port: at,
                other: port.to_string(),
                mend,
            });
        }
    }
    Ok(())
}

impl Operator for Zip {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        one_grid("zip", inputs)?;
        let properties = OperatorProperties::new(inputs.iter().copied())
            .contract(Contract::Stateless)
            .row_axis(RowAxis::FromInput)
            .cost_ns(0.0);
        Ok(properties.align(Alignment::Window).data_dependent())
    }

    fn process(&mut self, port: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        out.emit(port, item)?;
        Ok(Next::Consumed)
    }
}
