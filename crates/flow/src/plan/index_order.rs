//! Whether the indices of samples ascend, as far as a plan says: a merge gives those that its inputs have in common more than
//! once.
//!
//! Who cuts windows, filters or lets streams meet by index needs stretches, and would meet one sample of each input in turn.
//! What is known of the inputs is in which range of indices their samples lie; only ranges that do not overlap are known to
//! have nothing in common.

use std::ops::Range;

use isochrony_time::Ratio;

use super::{Op, Plan};
use crate::{Alignment, Contract, Extent, OperatorProperties, PlanError, PortType};

/// What is known of the indices of a node's samples.
#[derive(Debug, Clone)]
pub(crate) struct Indices {
    /// All lie in it.
    within: Range<i64>,
    /// Two inputs of a merge before it that may have the same, and where.
    twice: Option<(usize, usize, Range<i64>)>,
}

impl Indices {
    /// Of a scan; of what may have any indices, as a feed, nothing is known.
    pub(crate) fn read(has: Option<Range<i64>>, range: Option<&Range<i64>>) -> Self {
        let has = has.map(|has| match range {
            Some(wanted) => common(&has, wanted),
            None => has,
        });
        Self {
            within: has.unwrap_or(i64::MIN..i64::MAX),
            twice: None,
        }
    }

    /// Of what an operator gives.
    ///
    /// # Errors
    /// [`PlanError::IndicesRepeat`] where it cannot make anything of what it is given.
    pub(crate) fn given(
        op: &Op,
        bound: &OperatorProperties,
        inputs: &[Plan],
    ) -> Result<Self, PlanError> {
        let samples = |plan: &&Plan| matches!(plan.port(), PortType::Samples { .. });
        let twice = |plan: &Plan| plan.node.indices.twice.clone();
        let repeated = inputs.iter().filter(samples).find_map(twice);
        if let Some((first, second, range)) = repeated.clone().filter(|_| needs_stretches(bound)) {
            let (operator, common) = (op.name(), in_words(&range));
            return Err(PlanError::IndicesRepeat {
                operator,
                first,
                second,
                common,
            });
        }
        let of = |plan: &Plan| plan.node.indices.within.clone();
        let within = match bound.align {
            // What comes out is where all of them are.
            Alignment::Window => inputs
                .iter()
                .map(of)
                .reduce(|one, other| common(&one, &other)),
            _ => inputs.first().map(of),
        };
        let within = within.unwrap_or(i64::MIN..i64::MAX);
        if bound.extent == Extent::AnyInput {
            let within: Vec<Range<i64>> = inputs.iter().map(of).collect();
            let all = within
                .iter()
                .map(|one| one.start)
                .min()
                .zip(within.iter().map(|one| one.end).max());
            return Ok(Self {
                twice: repeated.or_else(|| overlap(&within)),
                within: all.map_or(0..0, |(start, end)| start..end),
            });
        }
        let within = match &bound.extent {
            Extent::Within(wanted) if within.start > i64::MIN => common(&within, wanted),
            _ => resampled(within, bound),
        };
        Ok(Self {
            within,
            twice: repeated,
        })
    }
}

/// What lies in both.
fn common(one: &Range<i64>, other: &Range<i64>) -> Range<i64> {
    one.start.max(other.start)..one.end.min(other.end)
}

fn in_words(range: &Range<i64>) -> String {
    match (range.start, range.end) {
        (start, i64::MAX) => format!("samples with indices from {start} on"),
        (start, end) => format!("samples with indices {start} to {}", end - 1),
    }
}

/// The first two of some ranges that overlap, and where. One of which nothing is known need not.
fn overlap(ranges: &[Range<i64>]) -> Option<(usize, usize, Range<i64>)> {
    // By where they begin, so that of many not every two are compared; of those before, the one that ends last.
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

/// The same range in an operator's own indices.
fn resampled(within: Range<i64>, bound: &OperatorProperties) -> Range<i64> {
    let ratio = bound.ratio.and_then(|(up, down)| Ratio::new(up, down).ok());
    let Some(ratio) = ratio.filter(|ratio| !ratio.is_one()) else {
        return within;
    };
    let of = |index: i64, beyond: i64| match index {
        i64::MIN | i64::MAX => index,
        _ => ratio.first_from(index).unwrap_or(beyond),
    };
    of(within.start, i64::MIN)..of(within.end, i64::MAX)
}

/// Whether an operator makes something of samples that follow one another.
fn needs_stretches(bound: &OperatorProperties) -> bool {
    let around = matches!(
        bound.contract,
        Contract::Overlap { .. } | Contract::Lookahead { .. } | Contract::Settling { .. }
    );
    let meets = !matches!(
        bound.align,
        Alignment::Single | Alignment::Time | Alignment::Begin | Alignment::Arrival
    );
    let elsewhere = bound.ratio.is_some_and(|(up, down)| up != down) || bound.delay != 0;
    around || meets || elsewhere || bound.contiguous
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_ranges_the_first_two_that_overlap_are_found_wherever_they_are() {
        let apart = [10..20, 0..10, 30..40, 5..5];
        assert_eq!(overlap(&apart), None);
        assert_eq!(overlap(&[0..100, 200..300, 50..60]), Some((0, 2, 50..60)));
        assert_eq!(overlap(&[0..100, 1..2, 99..120]), Some((0, 1, 1..2)));
        assert_eq!(overlap(&[40..50, 45..46, 0..10]), Some((0, 1, 45..46)));
        assert_eq!(overlap(&[i64::MIN..i64::MAX, 45..46]), None);
    }
}
