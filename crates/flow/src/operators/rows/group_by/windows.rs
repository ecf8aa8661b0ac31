//! Groups in windows of one length at regular steps: tumbling, or hopping if they overlap.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use super::keys::KeyMap;
use super::open_groups::{FinishedGroup, PlacePool, Run, TimedRow};
use crate::OpError;
use crate::operators::rows::Axis;

/// Window `k` begins at axis position `k * every`.
pub(super) struct Windows {
    every: i64,
    period: i64,
    /// By number. All have rows.
    open: VecDeque<Window>,
}

struct Window {
    number: i64,
    start: i64,
    /// Start of its newest row.
    newest: i64,
    /// Order of appearance, and place in the aggregates.
    groups: KeyMap<(usize, usize)>,
}

impl Windows {
    pub(super) fn new(every: i64, period: i64) -> Self {
        Self {
            every,
            period,
            open: VecDeque::new(),
        }
    }

    fn begin(&self, number: i64) -> i64 {
        number.saturating_mul(self.every)
    }

    fn end(&self, number: i64) -> i64 {
        self.begin(number).saturating_add(self.period)
    }

    /// Windows that contain a position; between windows shorter than their step, an empty range. It begins with the
    /// first window that ends after the position.
    fn numbers(&self, position: i64) -> RangeInclusive<i64> {
        let before = position.saturating_sub(self.period);
        before.div_euclid(self.every) + 1..=position.div_euclid(self.every)
    }

    pub(super) fn add(
        &mut self,
        row: &TimedRow<'_>,
        (axis, run): (&Axis, &Run),
        places: &mut PlacePool,
        pairs: &mut Vec<(usize, usize)>,
    ) -> Result<(), OpError> {
        for number in self.numbers(row.from) {
            let at = self.open.partition_point(|open| open.number < number);
            if self.open.get(at).is_none_or(|open| open.number != number) {
                let window = Window {
                    number,
                    start: run.window_start(axis, row.start, self.begin(number)),
                    newest: row.start,
                    groups: KeyMap::default(),
                };
                self.open.insert(at, window);
            }
            let window = &mut self.open[at];
            window.newest = row.start;
            let place = match window.groups.get(row.key) {
                Some(&(_, place)) => place,
                None => {
                    let place = places.take()?;
                    let order = window.groups.len();
                    window.groups.insert(row.key.clone(), (order, place));
                    place
                }
            };
            pairs.push((row.row, place));
        }
        Ok(())
    }

    /// Closes windows that end at or before a position, at index `limit` at the latest; None: all.
    pub(super) fn close(
        &mut self,
        position: Option<i64>,
        limit: i64,
        axis: &Axis,
        finished: &mut Vec<FinishedGroup>,
    ) {
        let is_over = |number| position.is_none_or(|position| self.end(number) <= position);
        let count = self.open.iter().take_while(|open| is_over(open.number));
        let count = count.count();
        for window in self.open.drain(..count).collect::<Vec<_>>() {
            let end = axis.first_at(window.newest, self.end(window.number));
            // The clock need not know what follows the last row.
            let end = end.unwrap_or(limit).min(limit).max(window.newest + 1);
            let begin = self.begin(window.number);
            let mut groups: Vec<_> = window.groups.into_iter().collect();
            groups.sort_unstable_by_key(|&(_, (order, _))| order);
            finished.extend(groups.into_iter().map(|(key, (_, place))| FinishedGroup {
                start: window.start,
                end,
                begin,
                key,
                place,
            }));
        }
    }

    /// Before this index no unclosed window begins, if nothing begins before `upto`.
    pub(super) fn progress(&self, upto: i64, position: i64, axis: &Axis, run: &Run) -> i64 {
        let next = self.begin(*self.numbers(position).start());
        let next = run.window_start(axis, upto, next);
        self.open.front().map_or(next, |open| open.start.min(next))
    }
}
