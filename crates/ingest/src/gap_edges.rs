//! [`gap_edges`]: which files and stamps lie on both sides of a gap.

use isochrony_store::{Gap, Signal};
use isochrony_time::{Fixed, Stamp};

use crate::session::provenance::file_of_sample;

/// The recording on one side of a gap.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GapEdge {
    /// Path of the file below the folder that was imported; `None` if an importer told none.
    pub source: Option<String>,
    /// Index and stamp, as the source gave it: before a gap the last one of the run, after it that of the first sample.
    pub stamp: Option<(i64, Stamp)>,
}

/// Both sides of a gap. One where the signal begins or ends is empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GapEdges {
    /// What was recorded last before it.
    pub before: GapEdge,
    /// What was recorded first after it.
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
