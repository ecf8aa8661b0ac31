//! A graph whose function is called at a certain place.

use isochrony_tune::FunctionPlace;

use crate::plan::Op;
use crate::plan::graph::Graph;

/// Nothing changes for [`FunctionPlace::Auto`]: it is the place without a choice.
pub(super) fn set_place(graph: &mut Graph, node: usize, place: FunctionPlace) {
    let op = &mut graph.nodes[node].op;
    if let Op::Factory(factory) = op
        && place != FunctionPlace::Auto
        && let Some(placed) = factory.0.placed(place)
    {
        *op = Op::Factory(placed);
    }
}

pub(super) fn with_place(graph: &Graph, node: usize, place: FunctionPlace) -> Graph {
    let mut graph = graph.clone();
    set_place(&mut graph, node, place);
    graph
}
