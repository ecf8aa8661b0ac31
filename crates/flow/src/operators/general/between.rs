//! Restricts a stream to a range of indices.

use crate::operator;
use crate::{
    Extent, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError, Port,
    PortType, RowAxis,
};

operator! {
    /// Passes samples in a range of indices, or windows that lie wholly inside.
    ///
    /// # Inputs
    /// Samples, shape (n,), or windows, shape (n, N).
    ///
    /// # Returns
    /// The same items inside the range, of the same dtype. No edges, no delay.
    ///
    /// # Conventions
    /// Where it can, the optimiser makes this the range of the scan, so that nothing else is read; see `explain`.
    /// Windows are still counted from the first sample after a break.
    ///
    /// # Errors
    /// The input is neither samples nor windows.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> iso.scan(np.arange(12), rate=100).rewindow(4).between(3, 12).collect()
    /// array([[ 4,  5,  6,  7],
    ///        [ 8,  9, 10, 11]])
    /// ```
    pub struct Between = "between" (Inputs::Exactly(1)) {
        /// First index.
        start: i64 = "integer" { unit: Of("samples"), range: (-9.2e18, 9.2e18) },
        /// Index after the last.
        end: i64 = "integer" { unit: Of("samples"), range: (-9.2e18, 9.2e18) },
    }
    state {}
}

impl Operator for Between {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        match inputs {
            [port @ (PortType::Samples { .. } | PortType::Frames { .. })] => {
                Ok(OperatorProperties::new([*port])
                    .extent(Extent::Within(self.start..self.end))
                    .row_axis(RowAxis::FromInput)
                    .cost_ns(0.0)
                    .data_dependent())
            }
            _ => Err(crate::operators::wrong_input(
                "between",
                "samples or windows",
                &inputs[0],
                "put it before operators that count or collect",
            )),
        }
    }

    fn first_output(&self, first: i64) -> i64 {
        first.max(self.start)
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let part = match &*item {
            Item::Samples(samples) => {
                let range = samples.start().max(self.start)..samples.end().min(self.end);
                if range.is_empty() {
                    return Ok(Next::Consumed);
                }
                Item::from(samples.subseg(range)?)
            }
            Item::Frames(frames) => {
                let hop = frames.hop();
                let first = match self.start.checked_sub(frames.start()) {
                    Some(ahead) if ahead > 0 => ahead.unsigned_abs().div_ceil(hop),
                    _ => 0,
                };
                // Windows must end inside.
                let room =
                    i128::from(self.end) - i128::from(frames.start()) - i128::from(frames.window());
                let count = match u64::try_from(room) {
                    Ok(room) => (room / hop + 1).min(frames.count()),
                    Err(_) => 0,
                };
                match frames.sub(first..count) {
                    Some(part) => part.into(),
                    None => return Ok(Next::Consumed),
                }
            }
            _ => return Ok(Next::Forward),
        };
        *item = part;
        Ok(Next::Forward)
    }
}
