//! Counts and splits items by units: samples, windows, rows or ranges.

use crate::{Item, OpError, Ranges};

pub(super) fn unit_count(item: &Item) -> u64 {
    match item {
        Item::Samples(samples) => samples.len(),
        Item::Frames(frames) => frames.count(),
        Item::Rows(rows) => rows.count(),
        Item::Ranges(ranges) => ranges.ranges.len() as u64,
        // Not splittable, but not empty: items without units are dropped.
        Item::Partial(_) | Item::Taken => 1,
    }
}

/// Units that start before an index; of samples and frames perhaps more than there are.
pub(super) fn units_starting_before(item: &Item, limit: i64) -> u64 {
    let distance_to_limit =
        |start: i64| u64::try_from(i128::from(limit) - i128::from(start)).unwrap_or(0);
    match item {
        Item::Samples(samples) => distance_to_limit(samples.start()),
        Item::Frames(frames) => distance_to_limit(frames.start()).div_ceil(frames.hop()),
        Item::Rows(rows) => rows.begin_before(limit),
        Item::Ranges(ranges) => {
            let starts = ranges.ranges.iter().map(|range| range.start);
            starts.take_while(|&start| start < limit).count() as u64
        }
        Item::Partial(_) | Item::Taken => 1,
    }
}

/// Splits off the first `count` units; None for a part without units.
pub(super) fn split_item(item: Item, count: u64) -> Result<(Option<Item>, Option<Item>), OpError> {
    if count == 0 {
        return Ok((None, Some(item)));
    }
    if count >= unit_count(&item) {
        return Ok((Some(item), None));
    }
    Ok(match item {
        Item::Samples(samples) => {
            let cut = samples.start().saturating_add_unsigned(count);
            let first = samples.subseg(samples.start()..cut)?;
            (
                Some(first.into()),
                Some(samples.subseg(cut..samples.end())?.into()),
            )
        }
        Item::Frames(frames) => {
            let first = frames.sub(0..count).map(Item::from);
            (first, frames.sub(count..frames.count()).map(Item::from))
        }
        Item::Rows(rows) => {
            let (first, rest) = rows.split(count);
            (Some(first.into()), Some(rest.into()))
        }
        Item::Ranges(mut ranges) => {
            let rest = Ranges {
                stream: ranges.stream,
                ranges: ranges.ranges.drain(count as usize..).collect(),
            };
            (Some(Item::Ranges(ranges)), Some(Item::Ranges(rest)))
        }
        Item::Partial(_) | Item::Taken => (Some(item), None),
    })
}
