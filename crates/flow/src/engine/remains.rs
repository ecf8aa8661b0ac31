//! What goes from a run to the next of the same graph.

use super::Run;
use super::pool::Pool;
use crate::plan::Op;
use crate::plan::graph::Graph;
use crate::{Alignment, Contract, Operator};

/// Most memory that a run leaves for the next of the same graph.
const WARM: u64 = 16 << 20;

/// What a run that has ended leaves for the next of the same graph.
pub(crate) struct Remains {
    /// Of each node the operator, if it makes what it gives of each item alone.
    pub(crate) operators: Vec<Option<Box<dyn Operator>>>,
    /// Its memory, which is warm.
    pub(super) pool: Pool,
}

impl Run {
    /// What it leaves for the next run of the same graph with the same options.
    pub(crate) fn remains(self, graph: &Graph) -> Remains {
        let nodes = self.slots.into_iter().zip(&graph.nodes);
        let operators = nodes.map(|(slot, node)| {
            let bound = &node.bound;
            let alone = bound.contract == Contract::Stateless && bound.delay == 0;
            // What holds something of this process is made for one run.
            let made_of_parameters = matches!(node.op, Op::Apply { .. });
            let in_place = matches!(bound.ratio, None | Some((1, 1)));
            let remembers_nothing = alone && in_place && bound.align == Alignment::Single;
            (made_of_parameters && remembers_nothing).then_some(slot.op)
        });
        Remains {
            operators: operators.collect(),
            pool: self.shared.pool.rest(WARM),
        }
    }
}
