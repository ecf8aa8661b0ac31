//! Rejects operators that need contiguous samples after a merge of overlapping inputs.
//!
//! Such a merge repeats indices, alternating between inputs; windows, filters and alignment by index cannot work on
//! that. Only inputs with disjoint index ranges share none.

use std::ops::Range;

use isochrony_time::Ratio;

use crate::{Alignment, Contract, Extent, OperatorProperties, PlanError, PortType};

#[derive(Debug, Clone)]
pub(crate) struct IndexRange {
    within: Range<i64>,
    /// Inputs of an upstream merge that can share indices, and the common range.
    shared: Option<(usize, usize, Range<i64>)>,
}

impl IndexRange {
    /// `has`: None if any index is possible, as for a feed.
    pub(crate) fn of_scan(has: Option<Range<i64>>, range: Option<&Range<i64>>) -> Self {
        let has = has.map(|has| match range {
            Some(wanted) => common(&has, wanted),
            None => has,
        });
        Self {
            within: has.unwrap_or(i64::MIN..i64::MAX),
            shared: None,
        }
    }

    /// The operator needs contiguous samples, and indices can repeat.
    pub(crate) fn of_operator(
        operator: &'static str,
        properties: &OperatorProperties,
        inputs: &[(PortType, &Self)],
    ) -> Result<Self, PlanError> {
        let samples = inputs
            .iter()
            .filter(|(port, _)| matches!(port, PortType::Samples { .. }));
        let shared = samples
            .filter_map(|(_, indices)| indices.shared.clone())
            .next();
        if let Some((first, second, range)) =
            shared.clone().filter(|_| needs_contiguous(properties))
        {
            return Err(PlanError::IndicesRepeat {
                operator,
                first,
                second,
                common: describe(&range),
            });
        }
        let of = |(_, indices): &(PortType, &Self)| indices.within.clone();
        let within = match properties.align {
            Alignment::Window => inputs
                .iter()
                .map(of)
                .reduce(|one, other| common(&one, &other)),
            _ => inputs.first().map(of),
        };
        let within = within.unwrap_or(i64::MIN..i64::MAX);
        if properties.extent == Extent::AnyInput {
            let within: Vec<Range<i64>> = inputs.iter().map(of).collect();
            let all = within
                .iter()
                .map(|one| one.start)
                .min()
                .zip(within.iter().map(|one| one.end).max());
            return Ok(Self {
                shared: shared.or_else(|| overlap(&within)),
                within: all.map_or(0..0, |(start, end)| start..end),
            });
        }
        let within = match &properties.extent {
            Extent::Within(wanted) if within.start > i64::MIN => common(&within, wanted),
            _ => resampled(within, properties),
        };
        Ok(Self { within, shared })
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
fn overlap(ranges: &[Range<i64>]) -> Option<(usize, usize, Range<i64>)> {
    // By start: each is compared only with the earlier one that ends last.
    let mut order: Vec<usize> = (0..ranges.len())
        .filter(|&at| !ranges[at].is_empty() && ranges[at].start > i64::MIN)
        .collect();
    order.sort_by_key(|&at| ranges[at].start);
    let mut last: Option<usize> = None;
    for at in order {
        if let Some(before) = last {
            let both = common(&ranges[before], &ranges[at]);
            if !both.is_empty() {
                return Some((before.min(at), before.max(at), both));
            }
        }
        if last.is_none_or(|last| ranges[last].end < ranges[at].end) {
            last = Some(at);
        }
    }
    None
}

fn resampled(within: Range<i64>, properties: &OperatorProperties) -> Range<i64> {
    let ratio = properties
        .ratio
        .and_then(|(up, down)| Ratio::new(up, down).ok());
    let Some(ratio) = ratio.filter(|ratio| !ratio.is_one()) else {
        return within;
    };
    let of = |index: i64, beyond: i64| match index {
        i64::MIN | i64::MAX => index,
        _ => ratio.first_from(index).unwrap_or(beyond),
    };
    of(within.start, i64::MIN)..of(within.end, i64::MAX)
}

fn needs_contiguous(properties: &OperatorProperties) -> bool {
    let around = matches!(
        properties.contract,
        Contract::Overlap { .. } | Contract::Lookahead { .. } | Contract::Settling { .. }
    );
    let meets = !matches!(
        properties.align,
        Alignment::Single | Alignment::Time | Alignment::Begin | Alignment::Arrival
    );
    let elsewhere = properties.ratio.is_some_and(|(up, down)| up != down) || properties.delay != 0;
    around || meets || elsewhere || properties.contiguous
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_first_two_ranges_that_overlap() {
        let apart = [10..20, 0..10, 30..40, 5..5];
        assert_eq!(overlap(&apart), None);
        assert_eq!(overlap(&[0..100, 200..300, 50..60]), Some((0, 2, 50..60)));
        assert_eq!(overlap(&[0..100, 1..2, 99..120]), Some((0, 1, 1..2)));
        assert_eq!(overlap(&[40..50, 45..46, 0..10]), Some((0, 1, 45..46)));
        assert_eq!(overlap(&[i64::MIN..i64::MAX, 45..46]), None);
    }
}
