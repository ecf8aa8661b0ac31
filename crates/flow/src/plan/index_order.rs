//! Rejects operators that need contiguous samples after a merge of overlapping inputs.
//!
//! Such a merge emits an index once for each input that has it. Windows, filters and alignment by index need ascending
//! indices. A merge of disjoint index ranges is accepted.

use std::ops::Range;

use isochrony_time::Ratio;

use crate::{Alignment, Contract, Extent, OperatorProperties, PlanError, PortType};

/// Indices that an edge of a plan can carry.
#[derive(Debug, Clone)]
pub(crate) struct EdgeIndices {
    range: Range<i64>,
    overlap: Option<InputOverlap>,
}

/// Two inputs of an upstream merge that can share indices.
#[derive(Debug, Clone, PartialEq, Eq)]
struct InputOverlap {
    first: usize,
    second: usize,
    common: Range<i64>,
}

impl EdgeIndices {
    /// `recorded`: indices of the recording; None if unknown, as for a feed. `range`: the part that the scan reads.
    pub(crate) fn of_scan(recorded: Option<Range<i64>>, range: Option<&Range<i64>>) -> Self {
        let read = recorded.map(|recorded| match range {
            Some(range) => common(&recorded, range),
            None => recorded,
        });
        Self {
            range: read.unwrap_or(i64::MIN..i64::MAX),
            overlap: None,
        }
    }

    /// Indices at the operator's outputs.
    ///
    /// # Errors
    /// [`PlanError::IndicesRepeat`] if the operator needs contiguous samples and indices can repeat.
    pub(crate) fn of_operator(
        operator: &'static str,
        properties: &OperatorProperties,
        inputs: &[(PortType, &Self)],
    ) -> Result<Self, PlanError> {
        let samples = inputs
            .iter()
            .filter(|(port, _)| matches!(port, PortType::Samples { .. }));
        let overlap = samples
            .filter_map(|(_, indices)| indices.overlap.clone())
            .next();
        if let Some(overlap) = overlap.as_ref().filter(|_| needs_contiguous(properties)) {
            return Err(PlanError::IndicesRepeat {
                operator,
                first: overlap.first,
                second: overlap.second,
                common: describe(&overlap.common),
            });
        }
        let range_of = |(_, indices): &(PortType, &Self)| indices.range.clone();
        let range = match properties.align {
            Alignment::Window => inputs
                .iter()
                .map(range_of)
                .reduce(|one, other| common(&one, &other)),
            _ => inputs.first().map(range_of),
        };
        let range = range.unwrap_or(i64::MIN..i64::MAX);
        if properties.extent == Extent::AnyInput {
            let ranges: Vec<Range<i64>> = inputs.iter().map(range_of).collect();
            let all = ranges
                .iter()
                .map(|one| one.start)
                .min()
                .zip(ranges.iter().map(|one| one.end).max());
            return Ok(Self {
                overlap: overlap.or_else(|| first_overlap(&ranges)),
                range: all.map_or(0..0, |(start, end)| start..end),
            });
        }
        let range = match &properties.extent {
            Extent::Within(wanted) if range.start > i64::MIN => common(&range, wanted),
            _ => resampled(range, properties),
        };
        Ok(Self { range, overlap })
    }
}

fn common(one: &Range<i64>, other: &Range<i64>) -> Range<i64> {
    one.start.max(other.start)..one.end.min(other.end)
}

fn describe(range: &Range<i64>) -> String {
    match (range.start, range.end) {
        (start, i64::MAX) => format!("samples with indices from {start} on"),
        (start, end) => format!("samples with indices {start} to {}", end - 1),
    }
}

/// Unknown ranges are assumed not to overlap.
fn first_overlap(ranges: &[Range<i64>]) -> Option<InputOverlap> {
    // Sorted by start, a range overlaps an earlier one if and only if it overlaps the one that ends last.
    let mut order: Vec<usize> = (0..ranges.len())
        .filter(|&at| !ranges[at].is_empty() && ranges[at].start > i64::MIN)
        .collect();
    order.sort_by_key(|&at| ranges[at].start);
    let mut last: Option<usize> = None;
    for at in order {
        if let Some(before) = last {
            let both = common(&ranges[before], &ranges[at]);
            if !both.is_empty() {
                return Some(InputOverlap {
                    first: before.min(at),
                    second: before.max(at),
                    common: both,
                });
            }
        }
        if last.is_none_or(|last| ranges[last].end < ranges[at].end) {
            last = Some(at);
        }
    }
    None
}

fn resampled(range: Range<i64>, properties: &OperatorProperties) -> Range<i64> {
    let ratio = properties
        .ratio
        .and_then(|(up, down)| Ratio::new(up, down).ok());
    let Some(ratio) = ratio.filter(|ratio| !ratio.is_one()) else {
        return range;
    };
    let map_index = |index: i64, if_outside: i64| match index {
        i64::MIN | i64::MAX => index,
        _ => ratio.first_from(index).unwrap_or(if_outside),
    };
    map_index(range.start, i64::MIN)..map_index(range.end, i64::MAX)
}

fn needs_contiguous(properties: &OperatorProperties) -> bool {
    let needs_context = matches!(
        properties.contract,
        Contract::Overlap { .. } | Contract::Lookahead { .. } | Contract::Settling { .. }
    );
    let aligns_by_index = !matches!(
        properties.align,
        Alignment::Single | Alignment::Time | Alignment::Begin | Alignment::Arrival
    );
    let moves_indices =
        properties.ratio.is_some_and(|(up, down)| up != down) || properties.delay != 0;
    needs_context || aligns_by_index || moves_indices || properties.contiguous
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_first_two_ranges_that_overlap() {
        let overlap = |first, second, common| {
            Some(InputOverlap {
                first,
                second,
                common,
            })
        };
        let apart = [10..20, 0..10, 30..40, 5..5];
        assert_eq!(first_overlap(&apart), None);
        let ranges = [0..100, 200..300, 50..60];
        assert_eq!(first_overlap(&ranges), overlap(0, 2, 50..60));
        assert_eq!(first_overlap(&[0..100, 1..2, 99..120]), overlap(0, 1, 1..2));
        let ranges = [40..50, 45..46, 0..10];
        assert_eq!(first_overlap(&ranges), overlap(0, 1, 45..46));
        assert_eq!(first_overlap(&[i64::MIN..i64::MAX, 45..46]), None);
    }
}
