//! Where operators work that hold something of this process.

use crate::Needs;
use crate::exec::RunOptions;
use crate::graph::Graph;
use crate::held::Spread;
use crate::plan::Op;

/// Where each operator works that holds code of this process, and why; workers do the nodes in `spread`.
pub(crate) fn places(graph: &Graph, options: &RunOptions<'_>, spread: &[usize]) -> Vec<String> {
    let place = |at: usize| {
        let node = &graph.nodes[at];
        let Op::Hold(kept) = &node.op else {
            return None;
        };
        let label = kept.0.label();
        match kept.0.spread(options) {
            Spread::Workers(how) if spread.contains(&at) => Some(format!("{label} {how}")),
            Spread::Workers(_) => Some(format!(
                "{label} in the caller's thread: it is in no chain that is done in tasks"
            )),
            Spread::Caller(why) if node.bound.needs == Needs::Interpreter => {
                Some(format!("{label} in the caller's thread: it {why}"))
            }
            Spread::Caller(_) => None,
        }
    };
    (0..graph.nodes.len()).filter_map(place).collect()
}
