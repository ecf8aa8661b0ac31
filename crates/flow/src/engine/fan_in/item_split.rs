//! Counts and splits items by units: samples, windows, rows or ranges.

use crate::{Item, OpError, Ranges};

pub(super) fn unit_count(item: &Item) -> u64 {
    match item {
        Item::Samples(samples) => samples.len(),
        Item::Frames(frames) => frames.count(),
        Item::Rows(rows) => rows.count(),
        Item::Ranges(ranges) => ranges.ranges.len() as u64,
        Item::Partial(_) | Item::Taken => 1,
    }
}

/// Units that begin before an index.
pub(super) fn begin_before(item: &Item, limit: i64) -> u64 {
    let ahead = |start: i64| u64::try_from(i128::from(limit) - i128::from(start)).unwrap_or(0);
    match item {
        Item::Samples(samples) => ahead(samples.start()),
        Item::Frames(frames) => ahead(frames.start()).div_ceil(frames.hop()),
        Item::Rows(rows) => rows.begin_before(limit),
        Item::Ranges(ranges) => {
            let starts = ranges.ranges.iter().map(|range| range.start);
            starts.take_while(|&start| start < limit).count() as u64
        }
        Item::Partial(_) | Item::Taken => 1,
    }
}

/// The first `at` units, and the rest.
pub(super) fn split_item(item: Item, at: u64) -> Result<(Option<Item>, Option<Item>), OpError> {
    if at == 0 {
        return Ok((None, Some(item)));
    }
    if at >= unit_count(&item) {
        return Ok((Some(item), None));
    }
    Ok(match item {
        Item::Samples(samples) => {
            let cut = samples.start().saturating_add_unsigned(at);
            let first = samples.subseg(samples.start()..cut)?;
            (
                Some(first.into()),
                Some(samples.subseg(cut..samples.end())?.into()),
            )
        }
        Item::Frames(frames) => {
            let first = frames.sub(0..at).map(Item::from);
            (first, frames.sub(at..frames.count()).map(Item::from))
        }
        Item::Rows(rows) => {
            let (first, rest) = rows.split(at);
            (Some(first.into()), Some(rest.into()))
        }
        Item::Ranges(mut ranges) => {
            let rest = Ranges {
                stream: ranges.stream,
                ranges: ranges.ranges.drain(at as usize..).collect(),
            };
            (Some(Item::Ranges(ranges)), Some(Item::Ranges(rest)))
        }
        Item::Partial(_) | Item::Taken => (Some(item), None),
    })
}
