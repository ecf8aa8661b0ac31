//! Which samples of the log still count at its end.

use std::collections::HashMap;
use std::ops::Range;

use crate::op::Op;
use crate::state::GapTable;

/// Per operation with samples, ranges that no later one makes a gap.
pub(super) fn kept_samples(
    ops: &[Op],
    positions: &[usize],
    sample_bytes: usize,
) -> HashMap<usize, Vec<Range<i64>>> {
    let mut later = GapTable::default();
    let mut kept = HashMap::new();
    for &position in positions.iter().rev() {
        match &ops[position] {
            Op::Gap { start, end, .. } => later.set_gap((*start).max(0)..*end),
            Op::Samples { index, bytes, .. } => {
                let end = index.saturating_add((bytes.len() / sample_bytes) as i64);
                if *index >= 0 && end <= i64::MAX / (2 * sample_bytes as i64) {
                    kept.insert(position, without(*index..end, &later));
                }
            }
            _ => {}
        }
    }
    kept
}

fn without(range: Range<i64>, gaps: &GapTable) -> Vec<Range<i64>> {
    let mut kept = Vec::new();
    let mut at = range.start;
    for gap in gaps.within(range.clone()) {
        if gap.start > at {
            kept.push(at..gap.start);
        }
        at = gap.end();
    }
    if at < range.end {
        kept.push(at..range.end);
    }
    kept
}
