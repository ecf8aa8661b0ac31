//! Groups and their aggregates.

use std::collections::HashMap;

use arrow_array::RecordBatch;
use serde::{Deserialize, Serialize};

use super::keys::{GroupKey, KeyColumns, push_key, row_keys};
use super::timed::TimedGroups;
use crate::operators::rows::{Aggregate, Groups};
use crate::plan::rows::Fields;
use crate::{OpError, OpErrorKind, Out};

const PART_ROWS: usize = 1024;

pub(super) struct BoundState {
    pub(super) output: Fields,
    pub(super) keys: KeyColumns,
    pub(super) aggregates: Vec<(Option<usize>, Aggregate)>,
    pub(super) groups: HashMap<GroupKey, usize>,
    /// Group of each row of a batch.
    pub(super) places: Vec<usize>,
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
    pub(super) fn fits(&self, bound: &BoundState) -> bool {
        let groups = self.keys.len();
        let mut aggregates = bound.aggregates.iter().zip(&self.aggregates);
        let keys = bound.keys.len();
        self.keys.iter().all(|(values, _)| values.len() == keys)
            && self.aggregates.len() == bound.aggregates.len()
            && aggregates.all(|((_, own), one)| one.len() == groups && own.combines(one))
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
                for (place, aggregate) in &mut self.aggregates {
                    timed.add_to(aggregate, place.map(|at| part.column(at).as_ref()));
                }
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
            let aggregates = self.aggregates.iter_mut().map(|(_, one)| one);
            let Some(rows) = timed.take_rows(self.output, &self.keys, aggregates)? else {
                break;
            };
            out.emit(0, &mut rows.into())?;
        }
        let states = self.aggregates.iter().map(|(_, one)| one.bytes());
        out.holds(timed.bytes(self.keys.len(), states.sum()))
    }

    pub(super) fn group(&mut self, batch: &RecordBatch, most: u64) -> Result<(), OpError> {
        self.places.clear();
        for key in row_keys(&self.keys, batch) {
            let place = self.place(&key, most)?;
            self.places.push(place);
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
