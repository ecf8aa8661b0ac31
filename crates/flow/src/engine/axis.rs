//! Where something lies in what is read: as a time, since indices of different rates say nothing of each other.

use isochrony_time::Ratio;

use crate::plan::graph::Graph;
use crate::{PortType, RunError};

/// How indices that a node is given, or gives, lie on those that were read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Axis {
    grid: Ratio,
    /// Of what was read.
    rate: f64,
}

impl Axis {
    /// Of a stream; what has none is counted.
    pub(crate) fn of(port: Option<&PortType>) -> Self {
        let Some(stream) = port.and_then(PortType::stream) else {
            let (grid, rate) = (Ratio::ONE, 1.0);
            return Self { grid, rate };
        };
        let (_, grid) = stream.timebase.origin();
        // In this order, so that of whole numbers nothing is rounded.
        let rate = stream.rate.to_f64() * grid.down() as f64 / grid.up() as f64;
        Self { grid, rate }
    }

    /// Of what a node is given; of a source, of what it gives.
    pub(crate) fn given(graph: &Graph, node: usize) -> Self {
        let first = graph.nodes[node].inputs.first();
        let given =
            first.map(|&(from, output)| graph.nodes[from].bound.outputs.get(usize::from(output)));
        Self::of(given.unwrap_or_else(|| graph.nodes[node].bound.outputs.first()))
    }

    /// The index that was read.
    pub(crate) fn read(&self, index: i64) -> Option<i64> {
        match self.grid.is_one() {
            true => Some(index),
            false => self.grid.place(index).map(|(read, _)| read),
        }
    }

    /// The same as a time: index over rate. Before and behind all where there is none.
    pub(crate) fn time(&self, index: i64) -> f64 {
        match self.read(index) {
            _ if index == i64::MIN => f64::NEG_INFINITY,
            Some(read) => read as f64 / self.rate,
            None => f64::INFINITY.copysign(index as f64),
        }
    }
}

/// Where an error was met, by which it is decided which of several comes first: when in what is read the block begins that
/// somebody failed with, then who.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Place {
    pub(crate) time: f64,
    /// By its number in the whole graph.
    pub(crate) node: usize,
}

impl Place {
    pub(crate) fn is_before(&self, other: &Self) -> bool {
        let time = self.time.total_cmp(&other.time);
        time.then(self.node.cmp(&other.node)).is_lt()
    }

    /// Of an error of a graph's run; None of what was not met at a place.
    fn of(graph: &Graph, error: &RunError) -> Option<Self> {
        let RunError::Operator { node, range, .. } = error else {
            return None;
        };
        let axis = (*node < graph.nodes.len()).then(|| Axis::given(graph, *node))?;
        let time = range.as_ref().map(|range| axis.time(range.start));
        Some(Self {
            time: time.unwrap_or(f64::INFINITY),
            node: *node,
        })
    }
}

/// Of two errors of a graph's run the one that comes first.
pub(crate) fn met_first(graph: &Graph, one: RunError, other: RunError) -> RunError {
    match (Place::of(graph, &one), Place::of(graph, &other)) {
        (Some(first), Some(second)) if second.is_before(&first) => other,
        _ => one,
    }
}

#[cfg(test)]
mod tests {
    use isochrony_segment::{DType, Stream};
    use isochrony_time::{Rate, TimebaseId};

    use super::*;

    fn axis(rate: u64, grid: Ratio) -> Axis {
        let timebase = TimebaseId(0).resampled(grid).unwrap();
        let stream = Stream::new("axis", timebase, Rate::new(rate, 1).unwrap()).intern();
        let dtype = DType::F64;
        Axis::of(Some(&PortType::Samples { dtype, stream }))
    }

    #[test]
    fn what_was_resampled_lies_where_it_was_read() {
        let (all, third) = (axis(300, Ratio::ONE), axis(100, Ratio::new(1, 3).unwrap()));
        assert_eq!((all.time(600), third.time(200)), (2.0, 2.0));
        assert_eq!(third.read(200), Some(600));
        assert_eq!(all.time(i64::MIN), f64::NEG_INFINITY);
        assert_eq!(Axis::of(None).time(7), 7.0);
    }

    #[test]
    fn of_one_time_the_lower_node_comes_first() {
        let place = |time, node| Place { time, node };
        assert!(place(1.0, 7).is_before(&place(2.0, 3)));
        assert!(place(1.0, 3).is_before(&place(1.0, 7)));
        assert!(!place(1.0, 3).is_before(&place(1.0, 3)));
    }
}
