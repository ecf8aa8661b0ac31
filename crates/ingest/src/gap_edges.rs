//! [`gap_edges`]: files and stamps on both sides of a gap.

use isochrony_store::{Gap, Signal};
use isochrony_time::{Fixed, Stamp};

use crate::session::provenance::file_of_sample;

/// The recording on one side of a gap.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GapEdge {
    /// File below the imported folder, if the importer gave one.
    pub source: Option<String>,
    /// Index and stamp: the run's last one before the gap, or that of the first sample after it.
    pub stamp: Option<(i64, Stamp)>,
}

/// Both sides; empty where the signal begins or ends.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GapEdges {
    /// The recording before the gap.
    pub before: GapEdge,
    /// The recording after the gap.
    pub after: GapEdge,
}

/// The files and stamps on both sides of a gap.
#[must_use]
pub fn gap_edges(signal: &Signal, gap: Gap) -> GapEdges {
    let state = signal.state();
    let stamp_until = |index: i64| {
        let run = state.runs.at(index)?;
        let row = state.points.last_until(run.id, index)?;
        let civil = Fixed::from_parts(row.civil_ns, row.civil_frac);
        let resolution = Fixed::from_parts(row.resolution_ns, row.resolution_frac);
        Some((row.index, Stamp::new(civil, resolution)))
    };
    let mut edges = GapEdges::default();
    if gap.start > 0 {
        let last = gap.start - 1;
        edges.before = GapEdge {
            source: file_of_sample(signal, last),
            stamp: stamp_until(last),
        };
    }
    if gap.end() < signal.end_index() {
        let first = gap.end();
        edges.after = GapEdge {
            source: file_of_sample(signal, first),
            stamp: stamp_until(first).filter(|(index, _)| *index == first),
        };
    }
    edges
}
