//! Values of windows: one loop over many windows each.

use isochrony_segment::DType;

use crate::kernels;
use crate::lower::Action;

use super::plan::Planner;
use super::steps::{ColumnOperand, ColumnStep, ColumnWork};

impl Planner<'_> {
    /// The loop of a node and the column that it fills.
    pub(super) fn column_step(&mut self, place: usize) -> Option<ColumnStep> {
        let node = self.node(place);
        let unused = ColumnOperand::Constant(kernels::Value::default());
        let mut operands = [(unused, DType::Bool); 3];
        for (operand, &arg) in operands.iter_mut().zip(&node.args) {
            let found = match self.lowered.nodes.constant(arg) {
                Some(value) => ColumnOperand::Constant(value),
                None => ColumnOperand::Column(*self.columns.get(&arg)?),
            };
            *operand = (found, self.node(arg).dtype);
        }
        let work = if let Action::Memory(memory) = node.action {
            self.plan.memories += 1;
            ColumnWork::Memory(memory, self.plan.memories - 1)
        } else {
            let (run, swapped) = self.run(place)?;
            if swapped {
                operands.swap(0, 1);
            }
            ColumnWork::Map(run)
        };
        let column = self.new_column(place);
        Some(ColumnStep {
            work,
            operands,
            column,
        })
    }
}
