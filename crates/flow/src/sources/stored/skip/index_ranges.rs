//! Index sets as range lists: ascending, none empty, none touching the next.

use std::ops::Range;

pub(super) type IndexRanges = Vec<Range<i64>>;

/// Adds a range that begins no earlier than the last.
pub(super) fn push(ranges: &mut IndexRanges, range: Range<i64>) {
    match ranges.last_mut() {
        _ if range.is_empty() => {}
        Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
        _ => ranges.push(range),
    }
}

pub(super) fn union(mut ranges: Vec<Range<i64>>) -> IndexRanges {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined = Vec::new();
    ranges
        .into_iter()
        .for_each(|range| push(&mut joined, range));
    joined
}

pub(super) fn intersection(a: &[Range<i64>], b: &[Range<i64>]) -> IndexRanges {
    let (mut both, mut i, mut j) = (Vec::new(), 0, 0);
    while let (Some(one), Some(other)) = (a.get(i), b.get(j)) {
        push(
            &mut both,
            one.start.max(other.start)..one.end.min(other.end),
        );
        match one.end < other.end {
            true => i += 1,
            false => j += 1,
        }
    }
    both
}

pub(super) fn without(range: Range<i64>, others: &[Range<i64>]) -> IndexRanges {
    let (mut left, mut from) = (Vec::new(), range.start);
    let first = others.partition_point(|other| other.end <= range.start);
    for other in others[first..]
        .iter()
        .take_while(|other| other.start < range.end)
    {
        push(&mut left, from..other.start);
        from = other.end;
    }
    push(&mut left, from..range.end);
    left
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn some() -> impl Strategy<Value = Vec<Range<i64>>> {
        let range = (0i64..60, 0i64..12).prop_map(|(start, length)| start..start + length);
        prop::collection::vec(range, 0..8)
    }

    proptest! {
        #[test]
        fn sets_hold_what_their_operations_say(a in some(), b in some(), from in 0i64..60, length in 0i64..40) {
            let has = |ranges: &[Range<i64>], index: i64| ranges.iter().any(|range| range.contains(&index));
            let range = from..from + length;
            let (left, right) = (union(a.clone()), union(b.clone()));
            let both = intersection(&left, &right);
            let rest = without(range.clone(), &left);
            for set in [&left, &both, &rest] {
                prop_assert!(set.iter().all(|range| !range.is_empty()));
                prop_assert!(set.windows(2).all(|pair| pair[0].end < pair[1].start));
            }
            for index in 0..120 {
                prop_assert_eq!(has(&left, index), has(&a, index));
                prop_assert_eq!(has(&both, index), has(&a, index) && has(&b, index));
                prop_assert_eq!(has(&rest, index), range.contains(&index) && !has(&a, index));
            }
        }
    }
}
