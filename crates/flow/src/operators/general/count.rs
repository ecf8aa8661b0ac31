//! The `count` operator: number of samples, windows, rows or ranges.

use crate::operator;
use crate::{
    Contract, Inputs, Item, Next, OpError, OpErrorKind, Operator, OperatorProperties, Out,
    PartialResult, PlanError, PlanOutput, Port, PortType,
};

operator! {
    /// Counts the items of the input: samples, windows, rows or ranges.
    ///
    /// # Inputs
    /// Anything.
    ///
    /// # Returns
    /// One integer; `collect` gives it as an `int`. No edges; known at the end.
    ///
    /// # Errors
    /// None.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> iso.scan(np.arange(10), rate=100).rewindow(4).count().collect()
    /// 2
    /// ```
    pub struct Count = "count" (Inputs::Exactly(1)) {}
    state {
        count: u64,
    }
}

impl Operator for Count {
    fn bind(&mut self, _: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new([PortType::Count])
            .contract(Contract::Reducible)
            .cost_ns(0.0))
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
        let count = std::mem::take(&mut self.count);
        Some(PartialResult::new(count, size_of_val(&count) as u64))
    }

    fn combine(&mut self, next: &PartialResult) -> Result<(), OpError> {
        let count = next.get::<u64>().ok_or(OpErrorKind::WrongItem {
            expected: "a partial result of count",
            got: "another partial result",
        })?;
        self.count += count;
        Ok(())
    }

    fn result(&mut self) -> Option<PlanOutput> {
        Some(PlanOutput::Count(self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_partial_counts_and_refuses_another_partial_result() {
        let mut count = Count::default();
        count.combine(&PartialResult::new(7u64, 8)).unwrap();
        count.combine(&PartialResult::new(7i64, 8)).unwrap_err();
        assert!(matches!(count.result(), Some(PlanOutput::Count(7))));
    }
}
