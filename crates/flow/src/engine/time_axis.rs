//! Places indices of any node on one time axis, to compare positions and rank errors.

use isochrony_time::Ratio;

use crate::plan::graph::Graph;
use crate::{PortType, RunError};

/// Maps indices of an edge to read indices, and to time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeAxis {
    grid: Ratio,
    rate: f64,
}

impl TimeAxis {
    /// Without a stream one index is one second.
    pub(crate) fn of_port(port: Option<&PortType>) -> Self {
        let Some(stream) = port.and_then(PortType::stream) else {
            let (grid, rate) = (Ratio::ONE, 1.0);
            return Self { grid, rate };
        };
        let (_, grid) = stream.timebase.origin();
        // In this order whole numbers are not rounded.
        let rate = stream.rate.to_f64() * grid.down() as f64 / grid.up() as f64;
        Self { grid, rate }
    }

    /// The axis of a node's first input; of a source, of its output.
    pub(crate) fn of_node_input(graph: &Graph, node: usize) -> Self {
        let first = graph.nodes[node].inputs.first();
        let given = first.map(|&(from, output)| {
            graph.nodes[from]
                .properties
                .outputs
                .get(usize::from(output))
        });
        Self::of_port(given.unwrap_or_else(|| graph.nodes[node].properties.outputs.first()))
    }

    pub(crate) fn source_index(&self, index: i64) -> Option<i64> {
        match self.grid.is_one() {
            true => Some(index),
            false => self.grid.place(index).map(|(read, _)| read),
        }
    }

    /// Infinite without a read index.
    pub(crate) fn time(&self, index: i64) -> f64 {
        match self.source_index(index) {
            _ if index == i64::MIN => f64::NEG_INFINITY,
            Some(read) => read as f64 / self.rate,
            None => f64::INFINITY.copysign(index as f64),
        }
    }
}

/// Orders errors: by start time of the failed item, then by node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ErrorRank {
    pub(crate) time: f64,
    /// Number in the whole plan.
    pub(crate) node: usize,
}

impl ErrorRank {
    pub(crate) fn is_before(&self, other: &Self) -> bool {
        let time = self.time.total_cmp(&other.time);
        time.then(self.node.cmp(&other.node)).is_lt()
    }

    /// None if the error has no position.
    pub(crate) fn of_error(graph: &Graph, error: &RunError) -> Option<Self> {
        let (node, range) = match error {
            RunError::Operator { node, range, .. } => (node, range.as_ref()),
            RunError::Task { scan, range, .. } => (scan, Some(range)),
            _ => return None,
        };
        let axis = (*node < graph.nodes.len()).then(|| TimeAxis::of_node_input(graph, *node))?;
        let time = range.map(|range| axis.time(range.start));
        Some(Self {
            time: time.unwrap_or(f64::INFINITY),
            node: *node,
        })
    }
}

pub(crate) fn first_error(graph: &Graph, one: RunError, other: RunError) -> RunError {
    match (
        ErrorRank::of_error(graph, &one),
        ErrorRank::of_error(graph, &other),
    ) {
        (Some(first), Some(second)) if second.is_before(&first) => other,
        _ => one,
    }
}

#[cfg(test)]
mod tests {
    use isochrony_segment::{DType, Stream};
    use isochrony_time::{Rate, TimebaseId};

    use super::*;

    fn axis(rate: u64, grid: Ratio) -> TimeAxis {
        let timebase = TimebaseId(0).resampled(grid).unwrap();
        let stream = Stream::new("axis", timebase, Rate::new(rate, 1).unwrap()).intern();
        let dtype = DType::F64;
        TimeAxis::of_port(Some(&PortType::Samples { dtype, stream }))
    }

    #[test]
    fn resampled_indices_map_to_the_time_they_were_read_at() {
        let (all, third) = (axis(300, Ratio::ONE), axis(100, Ratio::new(1, 3).unwrap()));
        assert_eq!((all.time(600), third.time(200)), (2.0, 2.0));
        assert_eq!(third.source_index(200), Some(600));
        assert_eq!(all.time(i64::MIN), f64::NEG_INFINITY);
        assert_eq!(TimeAxis::of_port(None).time(7), 7.0);
    }

    #[test]
    fn at_equal_times_the_lower_node_comes_first() {
        let rank = |time, node| ErrorRank { time, node };
        assert!(rank(1.0, 7).is_before(&rank(2.0, 3)));
        assert!(rank(1.0, 3).is_before(&rank(1.0, 7)));
        assert!(!rank(1.0, 3).is_before(&rank(1.0, 3)));
    }
}
