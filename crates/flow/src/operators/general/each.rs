//! Calls a function with every item.

use std::sync::Arc;

use crate::{
    Cause, Contract, Item, Next, OpError, OpErrorKind, Operator, OperatorFactory,
    OperatorProperties, Out, Plan, PlanError, Port, PortType, RowAxis, SharedFactory,
    SharedRecording,
};

type ItemFunction = Arc<dyn Fn(&Item) -> Result<(), Cause> + Send + Sync>;

/// Calls a function with every item, in order and from one thread, and forwards it. An error of the function ends the
/// execution.
#[derive(Clone)]
pub struct ForEach(ItemFunction);

impl ForEach {
    /// Wraps a function of items.
    pub fn new(function: impl Fn(&Item) -> Result<(), Cause> + Send + Sync + 'static) -> Self {
        Self(Arc::new(function))
    }
}

impl OperatorFactory for ForEach {
    fn name(&self) -> &'static str {
        "each"
    }

    fn make(&self, _: Option<&SharedRecording>) -> Result<Box<dyn Operator>, PlanError> {
        Ok(Box::new(self.clone()))
    }
}

impl Operator for ForEach {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied())
            .contract(Contract::Sequential)
            .row_axis(RowAxis::FromInput))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        (self.0)(item).map_err(OpErrorKind::Failed)?;
        Ok(Next::Forward)
    }
}

impl Plan {
    /// [`ForEach`].
    pub fn each(
        &self,
        function: impl Fn(&Item) -> Result<(), Cause> + Send + Sync + 'static,
    ) -> Result<Self, PlanError> {
        self.apply_factory(SharedFactory::new(ForEach::new(function)), &[])
    }
}
