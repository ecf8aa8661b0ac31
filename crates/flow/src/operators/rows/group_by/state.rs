//! Groups and their aggregates.

use arrow_array::RecordBatch;
use serde::{Deserialize, Serialize};

use super::aggregates::GroupAggregates;
use super::keys::{GroupKey, KeyColumns, KeyMap, push_key, row_keys};
use super::timed::TimedGroups;
use crate::operators::rows::Groups;
use crate::plan::rows::Fields;
use crate::{OpError, OpErrorKind, Out};

const PART_ROWS: usize = 1024;

pub(super) struct BoundState {
    pub(super) output: Fields,
    pub(super) keys: KeyColumns,
    pub(super) aggregates: GroupAggregates,
    pub(super) groups: KeyMap<usize>,
    /// Rows of a batch, and their groups.
    pub(super) pairs: Vec<(usize, usize)>,
    /// Groups of windows or sessions, instead of `groups`.
    pub(super) timed: Option<TimedGroups>,
}

/// Keys by first row; each aggregate's states by group.
#[derive(Serialize, Deserialize)]
pub(super) struct PartialGroups {
    pub(super) keys: Vec<GroupKey>,
    pub(super) aggregates: Vec<Groups>,
}

impl PartialGroups {
    /// Whether it has these keys and aggregates for each group: another process may have sent it.
    pub(super) fn fits(&self, bound: &mut BoundState) -> bool {
        let groups = self.keys.len();
        let keys = bound.keys.len();
        let have_keys = self.keys.iter().all(|(values, _)| values.len() == keys);
        have_keys
            && bound.aggregates.undivided(|own| {
                let mut both = own.iter().zip(&self.aggregates);
                self.aggregates.len() == own.len()
                    && both.all(|(own, one)| one.len() == groups && own.combines(one))
            })
    }
}

impl BoundState {
    /// Adds rows to windows; emits groups that they close.
    pub(super) fn add_timed(
        &mut self,
        batch: &RecordBatch,
        out: &mut Out<'_>,
    ) -> Result<(), OpError> {
        for from in (0..batch.num_rows()).step_by(PART_ROWS) {
            let part = batch.slice(from, PART_ROWS.min(batch.num_rows() - from));
            let keys = row_keys(&self.keys, &part);
            let mut added = Ok(0);
            while let Ok(from) = added
                && from < part.num_rows()
                && let Some(timed) = &mut self.timed
            {
                added = timed.add(&part, &keys, from);
                timed.add_to(&mut self.aggregates, &part, &out.helpers());
                // Emit complete groups even before an error.
                self.emit(out)?;
            }
            added?;
        }
        Ok(())
    }

    pub(super) fn emit(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        let Some(timed) = &mut self.timed else {
            return Ok(());
        };
        loop {
            let helpers = out.helpers();
            let aggregates = (&mut self.aggregates, &helpers);
            let Some(rows) = timed.take_rows(self.output, &self.keys, aggregates)? else {
                break;
            };
            out.emit(0, &mut rows.into())?;
        }
        out.holds(timed.bytes(self.keys.len(), self.aggregates.bytes()))
    }

    pub(super) fn group(&mut self, batch: &RecordBatch, most: u64) -> Result<(), OpError> {
        self.pairs.clear();
        for (row, key) in row_keys(&self.keys, batch).iter().enumerate() {
            let place = self.place(key, most)?;
            self.pairs.push((row, place));
        }
        Ok(())
    }

    /// Adds the group if it is new.
    pub(super) fn place(&mut self, key: &GroupKey, most: u64) -> Result<usize, OpError> {
        if let Some(&place) = self.groups.get(key) {
            return Ok(place);
        }
        let place = self.groups.len();
        if place as u64 >= most {
            let groups = place as u64 + 1;
            return Err(OpErrorKind::TooManyGroups { groups, most }.into());
        }
        push_key(self.keys.iter_mut().map(|(_, cells)| cells), key);
        self.groups.insert(key.clone(), place);
        Ok(place)
    }
}
