//! Table of clock corrections, and its rows of int64.

use std::sync::Arc;

use crate::op::{CorrectionPointRow, CorrectionRow};

pub(super) type BadRow = (usize, &'static str);

/// One row per point repeats its correction's properties.
pub(super) const COLUMNS: usize = 17;

/// A signal's clock corrections, including removed ones, by id.
#[derive(Debug, Clone, Default)]
pub struct CorrectionTable {
    rows: Arc<Vec<Arc<CorrectionRow>>>,
}

impl CorrectionTable {
    /// Number, including removed ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether none was ever made.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All, including removed ones, in order of creation.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<CorrectionRow>> + '_ {
        self.rows.iter()
    }

    /// The correction `id`.
    #[must_use]
    pub fn by_id(&self, id: u32) -> Option<&Arc<CorrectionRow>> {
        let at = self.rows.binary_search_by_key(&id, |row| row.id).ok()?;
        self.rows.get(at)
    }

    /// Corrections in force.
    pub fn active(&self) -> impl DoubleEndedIterator<Item = &Arc<CorrectionRow>> + '_ {
        self.iter().filter(|row| !row.is_removed)
    }

    /// Id of the next correction.
    #[must_use]
    pub fn next_id(&self) -> u32 {
        self.rows.last().map_or(0, |last| last.id.saturating_add(1))
    }

    /// Points of all corrections.
    #[must_use]
    pub fn point_count(&self) -> usize {
        self.iter().map(|row| row.points.len()).sum()
    }

    pub(super) fn set(&mut self, row: CorrectionRow) {
        let rows = Arc::make_mut(&mut self.rows);
        let row = Arc::new(row);
        match rows.binary_search_by_key(&row.id, |have| have.id) {
            Ok(at) => rows[at] = row,
            Err(at) => rows.insert(at, row),
        }
    }

    pub(super) fn to_rows(&self) -> Vec<i64> {
        let mut out = Vec::with_capacity(self.point_count() * COLUMNS);
        for row in self.iter() {
            for point in &row.points {
                let (uncertainty, fraction) = match point.uncertainty {
                    Some((whole, frac)) => (whole, frac),
                    None => (-1, 0),
                };
                out.extend([
                    i64::from(row.id),
                    row.run.map_or(-1, i64::from),
                    i64::from(row.is_removed),
                    i64::from(row.method),
                    i64::from(row.shape),
                    row.wander_ppt.cast_signed(),
                    i64::from(point.from_time),
                    point.from.0,
                    i64::from(point.from.1),
                    point.civil.0,
                    i64::from(point.civil.1),
                    uncertainty,
                    i64::from(fraction),
                    row.to.map_or(-1, u64::cast_signed),
                    point.to.0,
                    i64::from(point.to.1),
                    i64::from(point.is_outlier),
                ]);
            }
        }
        out
    }

    pub(super) fn from_rows(rows: &[i64]) -> Result<Self, BadRow> {
        let mut out: Vec<CorrectionRow> = Vec::new();
        for (row, x) in rows.chunks_exact(COLUMNS).enumerate() {
            let flag = |column: usize| match x[column] {
                0 => Ok(false),
                1 => Ok(true),
                _ => Err((row, "a flag is neither 0 nor 1")),
            };
            let fraction = |column: usize| {
                u32::try_from(x[column]).map_err(|_| (row, "the fraction is no u32"))
            };
            let optional = |column: usize| Some(x[column]).filter(|number| *number != -1);
            let run = optional(1).map(u32::try_from).transpose();
            let to = optional(13).map(u64::try_from).transpose();
            let head = CorrectionRow {
                id: u32::try_from(x[0]).map_err(|_| (row, "the id is no u32"))?,
                run: run.map_err(|_| (row, "the run is no u32"))?,
                is_removed: flag(2)?,
                method: u8::try_from(x[3]).map_err(|_| (row, "the method is no u8"))?,
                shape: u8::try_from(x[4]).map_err(|_| (row, "the shape is no u8"))?,
                wander_ppt: u64::try_from(x[5]).map_err(|_| (row, "the wander is negative"))?,
                to: to.map_err(|_| (row, "the other signal is no id"))?,
                points: Vec::new(),
            };
            let uncertainty = match x[11] {
                -1 => None,
                whole if whole < 0 => return Err((row, "the uncertainty is negative")),
                whole => Some((whole, fraction(12)?)),
            };
            let point = CorrectionPointRow {
                from_time: flag(6)?,
                from: (x[7], fraction(8)?),
                civil: (x[9], fraction(10)?),
                uncertainty,
                to: (x[14], fraction(15)?),
                is_outlier: flag(16)?,
            };
            match out.last_mut() {
                Some(last) if last.id == head.id => {
                    let points = std::mem::take(&mut last.points);
                    let is_same = *last == head;
                    last.points = points;
                    if !is_same {
                        return Err((row, "points of one correction disagree on what it is"));
                    }
                    last.points.push(point);
                }
                Some(last) if last.id > head.id => {
                    return Err((row, "corrections are not sorted by id"));
                }
                _ => out.push(CorrectionRow {
                    points: vec![point],
                    ..head
                }),
            }
        }
        let rows = out.into_iter().map(Arc::new).collect();
        Ok(Self {
            rows: Arc::new(rows),
        })
    }
}
