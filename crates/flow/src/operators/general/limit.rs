//! Keeps the first items.

use crate::operator;
use crate::operators::wrong_input;
use crate::{
    Contract, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError, Port,
    PortType, RowAxis,
};

operator! {
    /// Passes the first windows or rows, or samples if there are neither, and then ends the run of its input.
    ///
    /// # Inputs
    /// Anything.
    ///
    /// # Returns
    /// The first items, unchanged. No edges, no delay.
    ///
    /// # Errors
    /// A count that is not a whole number from 0; `Plan.limit` also refuses 0.
    pub struct Limit = "limit" (Inputs::Exactly(1)) {
        /// Number of items that pass; 0 only in saved plans.
        count: u64 = "integer" { unit: Of("windows, rows or samples"), at_least: 0.0 },
    }
    state {
        passed: u64,
    }
}

impl Operator for Limit {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        if let [port @ PortType::Count] = inputs {
            return Err(wrong_input(
                "limit",
                "windows, rows, ranges or samples",
                port,
                "count() gives one number: put limit(...) before count()",
            ));
        }
        Ok(OperatorProperties::new(inputs.iter().copied())
            .contract(Contract::Sequential)
            .row_axis(RowAxis::FromInput)
            .ends_early()
            .cost_ns(0.0)
            .data_dependent())
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let left = self.count - self.passed;
        if left == 0 {
            return Ok(Next::Done);
        }
        let first = match item {
            Item::Frames(frames) if frames.count() > left => frames.sub(0..left).map(Item::from),
            Item::Frames(frames) => {
                self.passed += frames.count();
                None
            }
            Item::Samples(samples) if samples.len() > left => {
                let end = samples.start().saturating_add_unsigned(left);
                Some(samples.subseg(samples.start()..end)?.into())
            }
            Item::Samples(samples) => {
                self.passed += samples.len();
                None
            }
            Item::Rows(rows) if rows.count() > left => Some(rows.first(left).into()),
            Item::Rows(rows) => {
                self.passed += rows.count();
                None
            }
            Item::Ranges(_) | Item::Partial(_) | Item::Taken => {
                self.passed += 1;
                None
            }
        };
        if first.is_none() && self.passed < self.count {
            return Ok(Next::Forward);
        }
        if let Some(mut first) = first {
            self.passed = self.count;
            out.emit(0, &mut first)?;
        } else {
            out.emit(0, item)?;
        }
        Ok(Next::Done)
    }
}
