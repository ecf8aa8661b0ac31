//! Encodes a signal's state as int64 tables, as on disk; decodes and validates them.

use std::collections::HashSet;

use super::corrections::{self, BadRow, CorrectionTable};
use super::rows::{EventTable, FitTable, PointTable, RunTable};
use super::{ChangedTables, GapTable, SignalState};
use crate::error::StoreError;
use crate::meta::SignalMeta;
use crate::op::{EventRow, PieceRow, PointRow, RunReason, RunRow, SignalId};

/// Gaps: start, length.
pub const GAPS: &str = "gaps";
/// Runs: id, start, end, reason.
pub const RUNS: &str = "runs";
/// Stamps: run, index, `civil_ns`, `civil_frac`, `resolution_ns`, `resolution_frac`, use.
pub const POINTS: &str = "timebase/points";
/// Fitted pieces: run, index, end, `civil_ns`, `civil_frac`, num, den, `uncertainty_ps`, `residual_ps`.
pub const FIT: &str = "timebase/fit";
/// Events: id, start, end, `text_offset`, `text_length`.
pub const EVENTS: &str = "events/table";
/// Clock corrections, one row per point: correction, run (-1: all), removed, method, shape (0: chosen by the fit, 1:
/// line, 2: pieces), `wander_ppt`, `from_time` (0: `from` is an index), from, `from_frac`, `civil_ns`, `civil_frac`,
/// `uncertainty_ns` (-1: not given), `uncertainty_frac`, `to_signal` (-1: civil time), to, `to_frac`, outlier. Absent
/// without corrections.
pub const CORRECTIONS: &str = "timebase/corrections";
/// Folders of tables. Positions are their numbers in a log.
pub const TABLES: [&str; 6] = [GAPS, RUNS, POINTS, FIT, EVENTS, CORRECTIONS];

/// One table: `rows.len()` is a multiple of `columns`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Folder in the signal's own.
    pub name: &'static str,
    /// Numbers per row.
    pub columns: usize,
    /// Row after row.
    pub rows: Vec<i64>,
    /// JSON that events refer to, UTF-8.
    pub text: Vec<u8>,
}

impl Table {
    /// Columns of the table `name`.
    #[must_use]
    pub fn columns_of(name: &str) -> Option<usize> {
        Some(match name {
            GAPS => 2,
            RUNS => 4,
            POINTS => 7,
            FIT => 9,
            EVENTS => 5,
            CORRECTIONS => corrections::COLUMNS,
            _ => return None,
        })
    }

    fn new(name: &'static str, rows: Vec<i64>) -> Self {
        Self {
            name,
            columns: Self::columns_of(name).unwrap_or(1),
            rows,
            text: Vec::new(),
        }
    }
}

impl SignalState {
    /// All tables.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        let all = ChangedTables {
            gaps: true,
            runs: true,
            points: true,
            fit: true,
            events: true,
            corrections: true,
        };
        self.tables_of(all)
    }

    #[must_use]
    pub(crate) fn tables_but_gaps(&self) -> Vec<Table> {
        self.tables_of(ChangedTables {
            gaps: false,
            runs: true,
            points: true,
            fit: true,
            events: true,
            corrections: true,
        })
    }

    /// Tables that relate samples to time.
    #[must_use]
    pub(crate) fn tables_of_clock(&self) -> Vec<Table> {
        let mut tables = self.tables_of(ChangedTables {
            gaps: true,
            runs: true,
            fit: true,
            corrections: true,
            ..ChangedTables::default()
        });
        // Absent if empty, as in earlier versions.
        tables.retain(|table| table.name != CORRECTIONS || !table.rows.is_empty());
        tables
    }

    /// Tables changed since [`mark_saved`](Self::mark_saved).
    #[must_use]
    pub fn changed_tables(&self) -> Vec<Table> {
        self.tables_of(self.changed)
    }

    /// Marks all tables as saved.
    pub fn mark_saved(&mut self) {
        self.changed = ChangedTables::default();
    }

    /// Marks all tables as changed.
    pub fn mark_unsaved(&mut self) {
        self.changed = ChangedTables {
            gaps: true,
            runs: true,
            points: true,
            fit: true,
            events: true,
            corrections: true,
        };
    }

    fn tables_of(&self, which: ChangedTables) -> Vec<Table> {
        let mut tables = Vec::new();
        if which.gaps {
            tables.push(Table::new(GAPS, self.gaps.rows()));
        }
        if which.runs {
            tables.push(Table::new(RUNS, run_rows(&self.runs)));
        }
        if which.points {
            tables.push(Table::new(POINTS, point_rows(&self.points)));
        }
        if which.fit {
            tables.push(Table::new(FIT, fit_rows(&self.fit)));
        }
        if which.events {
            let (rows, text) = event_rows(&self.events);
            tables.push(Table {
                text,
                ..Table::new(EVENTS, rows)
            });
        }
        if which.corrections {
            tables.push(Table::new(CORRECTIONS, self.corrections.to_rows()));
        }
        tables
    }

    /// The state in tables; missing ones are empty.
    ///
    /// # Errors
    /// [`StoreError::DamagedTable`] with table, row and reason.
    pub fn from_tables(
        id: SignalId,
        name: &str,
        meta: SignalMeta,
        end: i64,
        tables: &[Table],
    ) -> Result<Self, StoreError> {
        let mut state = Self::new(id, name, meta);
        state.end = end;
        for table in tables {
            let damaged = |(row, reason): BadRow| StoreError::DamagedTable {
                signal: name.into(),
                table: table.name,
                row,
                reason,
            };
            if Table::columns_of(table.name) != Some(table.columns)
                || !table.rows.len().is_multiple_of(table.columns.max(1))
            {
                return Err(damaged((
                    0,
                    "the number of columns is not that of this table",
                )));
            }
            let rows = table.rows.as_slice();
            match table.name {
                GAPS => state.gaps = GapTable::from_rows(rows, end).map_err(damaged)?,
                RUNS => state.runs = read_runs(rows).map_err(damaged)?,
                POINTS => state.points = read_points(rows).map_err(damaged)?,
                FIT => state.fit = read_fit(rows).map_err(damaged)?,
                CORRECTIONS => {
                    state.corrections = CorrectionTable::from_rows(rows).map_err(damaged)?;
                }
                _ => state.events = read_events(rows, &table.text).map_err(damaged)?,
            }
        }
        Ok(state)
    }
}

const REASONS: [RunReason; 7] = [
    RunReason::First,
    RunReason::BackwardStep,
    RunReason::Overlap,
    RunReason::Late,
    RunReason::Requested,
    RunReason::LeapSecond,
    RunReason::Resumed,
];

fn run_rows(runs: &RunTable) -> Vec<i64> {
    runs.iter()
        .flat_map(|run| {
            let reason = REASONS.iter().position(|r| *r == run.reason).unwrap_or(0);
            [i64::from(run.id), run.start, run.end, reason as i64]
        })
        .collect()
}

fn read_runs(rows: &[i64]) -> Result<RunTable, BadRow> {
    let mut out: Vec<RunRow> = Vec::with_capacity(rows.len() / 4);
    for (row, x) in rows.chunks_exact(4).enumerate() {
        let run = RunRow {
            id: u32::try_from(x[0]).map_err(|_| (row, "the id is no u32"))?,
            start: x[1],
            end: x[2],
            reason: usize::try_from(x[3])
                .ok()
                .and_then(|reason| REASONS.get(reason).copied())
                .ok_or((row, "the reason is unknown"))?,
        };
        if run.start < 0 || run.end < run.start {
            return Err((row, "the run ends before it starts"));
        }
        let follows = |before: &RunRow| before.id < run.id && before.end <= run.start;
        if !out.last().is_none_or(follows) {
            return Err((row, "runs are out of order or overlap"));
        }
        out.push(run);
    }
    Ok(RunTable::from_sorted(out))
}

fn point_rows(points: &PointTable) -> Vec<i64> {
    points
        .iter()
        .flat_map(|p| {
            [
                i64::from(p.run),
                p.index,
                p.civil_ns,
                i64::from(p.civil_frac),
                p.resolution_ns,
                i64::from(p.resolution_frac),
                i64::from(p.usage),
            ]
        })
        .collect()
}

fn read_points(rows: &[i64]) -> Result<PointTable, BadRow> {
    let mut out: Vec<PointRow> = Vec::with_capacity(rows.len() / 7);
    for (row, x) in rows.chunks_exact(7).enumerate() {
        let point = PointRow {
            run: u32::try_from(x[0]).map_err(|_| (row, "the run is no u32"))?,
            index: x[1],
            civil_ns: x[2],
            civil_frac: u32::try_from(x[3]).map_err(|_| (row, "the fraction is no u32"))?,
            resolution_ns: x[4],
            resolution_frac: u32::try_from(x[5]).map_err(|_| (row, "the fraction is no u32"))?,
            usage: u8::try_from(x[6]).map_err(|_| (row, "the use is no u8"))?,
        };
        if out
            .last()
            .is_some_and(|before| (point.run, point.index) <= (before.run, before.index))
        {
            return Err((row, "stamps are not sorted by run and index"));
        }
        out.push(point);
    }
    Ok(PointTable::from_sorted(out))
}

fn fit_rows(fit: &FitTable) -> Vec<i64> {
    fit.iter()
        .flat_map(|(run, p)| {
            [
                i64::from(run),
                p.index,
                p.end,
                p.civil_ns,
                i64::from(p.civil_frac),
                // As u64 bits: no real slope needs more than 63.
                p.num.cast_signed(),
                p.den.cast_signed(),
                p.uncertainty_ps.cast_signed(),
                p.residual_ps.cast_signed(),
            ]
        })
        .collect()
}

fn read_fit(rows: &[i64]) -> Result<FitTable, BadRow> {
    let mut out: Vec<(u32, PieceRow)> = Vec::with_capacity(rows.len() / 9);
    for (row, x) in rows.chunks_exact(9).enumerate() {
        let run = u32::try_from(x[0]).map_err(|_| (row, "the run is no u32"))?;
        let piece = PieceRow {
            index: x[1],
            end: x[2],
            civil_ns: x[3],
            civil_frac: u32::try_from(x[4]).map_err(|_| (row, "the fraction is no u32"))?,
            num: x[5].cast_unsigned(),
            den: x[6].cast_unsigned(),
            uncertainty_ps: x[7].cast_unsigned(),
            residual_ps: x[8].cast_unsigned(),
        };
        if piece.num == 0 || piece.den == 0 {
            return Err((row, "the slope is zero or infinite"));
        }
        if out
            .last()
            .is_some_and(|(before, last)| (run, piece.index) <= (*before, last.index))
        {
            return Err((row, "pieces are not sorted by run and index"));
        }
        out.push((run, piece));
    }
    Ok(FitTable::from_sorted(out))
}

/// Start of a row that keeps the highest id after its event's removal.
const TOMBSTONE: i64 = -1;

fn event_rows(events: &EventTable) -> (Vec<i64>, Vec<u8>) {
    let mut rows = Vec::with_capacity(events.len() * 5);
    let mut text = Vec::new();
    for event in events.iter() {
        let json = serde_json::json!({ "kind": event.kind, "fields": parse(&event.fields) });
        let json = json.to_string();
        rows.extend([
            event.id.cast_signed(),
            event.start,
            event.end,
            text.len() as i64,
            json.len() as i64,
        ]);
        text.extend_from_slice(json.as_bytes());
    }
    let last = events.next_id().checked_sub(1);
    if let Some(last) = last.filter(|&last| events.by_id(last).is_none()) {
        rows.extend([last.cast_signed(), TOMBSTONE, TOMBSTONE, 0, 0]);
    }
    (rows, text)
}

/// Invalid text, which was validated before, becomes a string.
fn parse(fields: &str) -> serde_json::Value {
    serde_json::from_str(fields).unwrap_or_else(|_| serde_json::Value::String(fields.into()))
}

fn read_events(rows: &[i64], text: &[u8]) -> Result<EventTable, BadRow> {
    let mut table = EventTable::default();
    let mut ids = HashSet::new();
    for (row, x) in rows.chunks_exact(5).enumerate() {
        let id = x[0].cast_unsigned();
        if !ids.insert(id) {
            return Err((row, "the id is not unique"));
        }
        if x[1] == TOMBSTONE && x[2] == TOMBSTONE {
            table.reserve(id);
            continue;
        }
        if x[1] < 0 || x[2] < x[1] {
            return Err((row, "the event ends before it starts"));
        }
        let slice = usize::try_from(x[3])
            .ok()
            .zip(usize::try_from(x[4]).ok())
            .and_then(|(from, length)| text.get(from..from.checked_add(length)?))
            .ok_or((row, "the text lies outside the stored text"))?;
        let json: serde_json::Value =
            serde_json::from_slice(slice).map_err(|_| (row, "the text is no JSON"))?;
        table.set(EventRow {
            id,
            start: x[1],
            end: x[2],
            kind: json["kind"].as_str().unwrap_or_default().to_owned(),
            fields: match &json["fields"] {
                serde_json::Value::String(raw) => raw.clone(),
                fields => fields.to_string(),
            },
        });
    }
    Ok(table)
}
