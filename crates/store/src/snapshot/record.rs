//! [`SignalRecord`]: what a snapshot has of one signal.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::consistency;
use crate::error::{SnapshotError, StoreError};
use crate::meta::SignalMeta;
use crate::op::{Op, SignalId, TableRows};
use crate::state::{CORRECTIONS, FIT, GAPS, RUNS, SignalState, TABLES, Table};
use crate::version::DataVersion;

/// All that a handle shows but samples, stamps and events.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SignalRecord {
    pub(super) id: SignalId,
    pub(super) name: String,
    meta: SignalMeta,
    pub(super) end: i64,
    tables: Vec<TableRows>,
    data: DataVersion,
}

impl SignalRecord {
    pub(super) fn of(state: &SignalState) -> Self {
        let tables = state.tables_of_clock().into_iter().map(|table| TableRows {
            table: TABLES
                .iter()
                .position(|name| *name == table.name)
                .unwrap_or(0) as u8,
            rows: table.rows,
            text: Vec::new(),
        });
        Self {
            id: state.id,
            name: state.name.to_string(),
            meta: (*state.meta).clone(),
            end: state.end,
            tables: tables.collect(),
            data: (*state.data).clone(),
        }
    }

    pub(super) fn subject(&self) -> String {
        format!("signal {:?}", self.name)
    }

    pub(super) fn check(&self) -> Result<(), StoreError> {
        let is_sound = self.meta.is_plausible() && self.end >= 0;
        let clock = |table: &TableRows| {
            let name = TABLES.get(usize::from(table.table));
            name.is_some_and(|name| [GAPS, RUNS, FIT, CORRECTIONS].contains(name))
        };
        match is_sound && self.tables.iter().all(clock) {
            true => consistency::check_without_stamps(&self.state()?),
            false => Err(unreadable("it describes no possible signal")),
        }
    }

    fn state(&self) -> Result<SignalState, StoreError> {
        let table = |table: &TableRows| {
            let name = TABLES.get(usize::from(table.table)).copied()?;
            Some(Table {
                name,
                columns: Table::columns_of(name)?,
                rows: table.rows.clone(),
                text: Vec::new(),
            })
        };
        let tables: Vec<Table> = self.tables.iter().filter_map(table).collect();
        SignalState::from_tables(self.id, &self.name, self.meta.clone(), self.end, &tables)
    }

    /// `now`: the store's current state; `sequence`: of the snapshot, for errors.
    pub(super) fn over(&self, now: &SignalState, sequence: u64) -> Result<SignalState, StoreError> {
        let moved = |change: String| SnapshotError::Moved {
            signal: self.name.clone(),
            sequence,
            end: self.end,
            change,
        };
        if now.end < self.end {
            return Err(moved(format!("it ends at index {} now", now.end)).into());
        }
        let length = self.meta.shard_samples();
        if now.meta.shard_samples() != length || now.meta.format != self.meta.format {
            return Err(moved("its samples lie in other files now".into()).into());
        }
        let shards = self.end.unsigned_abs().div_ceil(length.unsigned_abs());
        if let Some(shard) = self.data.first_replaced(&now.data, shards) {
            let start = shard.cast_signed() * length;
            let end = start.saturating_add(length).min(self.end);
            return Err(moved(format!("some of its samples {start}..{end} were replaced")).into());
        }
        let mut state = self.state()?;
        if self.data.has_content_of_first(&now.data, shards) {
            // Perhaps stored differently, as after sealing.
            state.data = now.data.clone();
            Arc::make_mut(&mut state.meta)
                .codec
                .clone_from(&now.meta.codec);
        } else {
            state.data = Arc::new(self.data.clone());
        }
        if now.end == self.end {
            state.points = now.points.clone();
            state.events = now.events.clone();
            return Ok(state);
        }
        let id = self.id;
        for point in now.points.iter().filter(|point| point.index < self.end) {
            state.apply(&Op::Point { id, point });
        }
        for event in now.events.iter().filter(|event| event.start < self.end) {
            let event = (**event).clone();
            state.apply(&Op::Event { id, event });
        }
        Ok(state)
    }
}

pub(super) fn gone(shown: &SignalRecord, sequence: u64) -> StoreError {
    SnapshotError::Moved {
        signal: shown.name.clone(),
        sequence,
        end: shown.end,
        change: "it was deleted, or another signal took its place".into(),
    }
    .into()
}

pub(super) fn unreadable(reason: impl Into<String>) -> StoreError {
    let reason = reason.into();
    SnapshotError::Unreadable { reason }.into()
}
