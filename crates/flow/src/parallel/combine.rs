//! Partial results of tasks, combined in the order of reading.

use crate::exec::RunOptions;
use crate::plan::Op;
use crate::{
    Bound, Held, Item, Live, Next, OpError, OpErrorKind, Operator, Out, PlanError, Port, PortType,
};

/// Stands among the rest for an operator that gathers in tasks.
pub(super) struct Combine(pub(super) Op);

impl Held for Combine {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn make(&self, reads: Option<&Live>) -> Result<Box<dyn Operator>, PlanError> {
        self.make_for(reads, &RunOptions::default())
    }

    fn make_for(
        &self,
        reads: Option<&Live>,
        run: &RunOptions<'_>,
    ) -> Result<Box<dyn Operator>, PlanError> {
        match self.0.make(reads, run) {
            Some(made) => Ok(Box::new(Combining(made?))),
            // A scan gathers nothing.
            None => Err(PlanError::Inputs {
                operator: self.0.name(),
                expected: "1".into(),
                got: 0,
            }),
        }
    }
}

struct Combining(Box<dyn Operator>);

impl Operator for Combining {
    fn bind(&mut self, inputs: &[PortType]) -> Result<Bound, PlanError> {
        self.0.bind(inputs)
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let Item::Partial(partial) = item else {
            return Err(OpErrorKind::WrongItem {
                expected: "a partial result",
                got: item.kind(),
            }
            .into());
        };
        self.0.combine(partial)?;
        Ok(Next::Taken)
    }

    fn finish(&mut self, port: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        self.0.finish(port, out)
    }

    fn result(&mut self) -> Option<crate::Gathered> {
        self.0.result()
    }
}
