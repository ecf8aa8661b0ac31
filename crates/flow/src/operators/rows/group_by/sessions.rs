//! Groups in sessions: rows of a key without a pause longer than a gap. Sessions leave in order of start: one that is
//! over waits for those that began before it.

use std::collections::VecDeque;

use super::keys::{GroupKey, KeyMap};
use super::open_groups::{FinishedGroup, PlacePool, TimedRow};
use crate::OpError;

pub(super) struct Sessions {
    gap: i64,
    /// By start, including those over. The first has number `first`.
    open: VecDeque<Session>,
    first: u64,
    /// Newest session by key.
    newest: KeyMap<u64>,
}

struct Session {
    key: GroupKey,
    place: usize,
    start: i64,
    end: i64,
    /// End on the axis.
    to: i64,
}

impl Sessions {
    pub(super) fn new(gap: i64) -> Self {
        Self {
            gap,
            open: VecDeque::new(),
            first: 0,
            newest: KeyMap::default(),
        }
    }

    pub(super) fn add(
        &mut self,
        row: &TimedRow<'_>,
        places: &mut PlacePool,
        pairs: &mut Vec<(usize, usize)>,
    ) -> Result<(), OpError> {
        let newest = self.newest.get(row.key).map(|&number| number - self.first);
        let session = newest.and_then(|at| self.open.get_mut(at as usize));
        let session = session.filter(|last| row.from <= last.to.saturating_add(self.gap));
        if let Some(session) = session {
            session.end = session.end.max(row.end);
            session.to = session.to.max(row.to);
            pairs.push((row.row, session.place));
            return Ok(());
        }
        let place = places.take()?;
        let number = self.first + self.open.len() as u64;
        self.newest.insert(row.key.clone(), number);
        self.open.push_back(Session {
            key: row.key.clone(),
            place,
            start: row.start,
            end: row.end,
            to: row.to,
        });
        pairs.push((row.row, place));
        Ok(())
    }

    /// Closes sessions that no row from a position on continues; None: all.
    pub(super) fn close(&mut self, position: Option<i64>, finished: &mut Vec<FinishedGroup>) {
        let gap = self.gap;
        let is_over = |session: &Session| {
            position.is_none_or(|position| session.to.saturating_add(gap) < position)
        };
        while self.open.front().is_some_and(is_over)
            && let Some(session) = self.open.pop_front()
        {
            if self.newest.get(&session.key) == Some(&self.first) {
                self.newest.remove(&session.key);
            }
            self.first += 1;
            finished.push(FinishedGroup {
                start: session.start,
                end: session.end,
                begin: i64::MIN,
                key: session.key,
                place: session.place,
            });
        }
    }

    /// Before this index no unclosed session begins, if nothing begins before `upto`.
    pub(super) fn progress(&self, upto: i64) -> i64 {
        self.open.front().map_or(upto, |open| open.start.min(upto))
    }
}
