//! Window values: one loop over many windows.

use std::hash::{DefaultHasher, Hash, Hasher};

use isochrony_segment::DType;

use crate::kernels;
use crate::lower::Action;

use super::plan::Planner;
use super::steps::{ColumnOperand, ColumnStep, ColumnWork};

impl Planner<'_> {
    fn fingerprint(&self, place: usize) -> u64 {
        let mut known: Vec<u64> = Vec::with_capacity(place + 1);
        for at in 0..=place {
            let node = self.node(at);
            let mut hasher = DefaultHasher::new();
            (node.action, node.dtype).hash(&mut hasher);
            node.args
                .iter()
                .for_each(|&arg| known[arg].hash(&mut hasher));
            known.push(hasher.finish());
        }
        known[place]
    }

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
        let work = match node.action {
            Action::Memory(memory) => {
                self.plan.memories.push(self.fingerprint(place));
                ColumnWork::Memory(memory, self.plan.memories.len() - 1)
            }
            Action::Input(input) => ColumnWork::Input(input),
            _ => {
                let (run, swapped) = self.run(place)?;
                if swapped {
                    operands.swap(0, 1);
                }
                ColumnWork::Map(run)
            }
        };
        let column = self.new_column(place);
        Some(ColumnStep {
            work,
            operands,
            column,
        })
    }
}
