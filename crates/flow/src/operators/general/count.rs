//! How many.

use crate::operator;
use crate::{
    Contract, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PartialResult,
    PlanError, PlanOutput, Port, PortType,
};

operator! {
    /// Counts windows, where the input is windows, else samples, ranges or rows.
    pub struct Count = "count" (Inputs::Exactly(1)) {}
    state {
        count: u64,
    }
}

impl Operator for Count {
    fn bind(&mut self, _: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new([PortType::Count])
            .contract(Contract::Reducible { exact: true })
            .light())
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        self.count += match item {
            Item::Frames(frames) => frames.count(),
            Item::Samples(samples) => samples.len(),
            Item::Rows(rows) => rows.count(),
            Item::Ranges(ranges) => ranges.ranges.len() as u64,
            Item::Partial(_) | Item::Taken => 0,
        };
        Ok(Next::Consumed)
    }

    fn partial(&mut self) -> Option<PartialResult> {
        Some(PartialResult::new(std::mem::take(&mut self.count), 8))
    }

    fn combine(&mut self, next: &PartialResult) -> Result<(), OpError> {
        self.count += next.get::<u64>().copied().unwrap_or(0);
        Ok(())
    }

    fn result(&mut self) -> Option<PlanOutput> {
        Some(PlanOutput::Count(self.count))
    }
}
