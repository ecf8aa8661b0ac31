//! State of a signal besides samples. Pure, no I/O.
//!
//! A [`SignalState`] changes only by [`SignalState::apply`], which has set semantics and is total: it never panics and
//! ignores invalid operations. Cloning copies a few pointers, so a snapshot costs nothing even with 1,000,000 gaps; the
//! writer pays only for later changes.

mod corrections;
mod gaps;
mod rows;
mod seq;
mod tables;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use corrections::CorrectionTable;
pub use gaps::{Gap, GapTable};
pub use rows::{EventTable, FitTable, PointTable, RunTable};
pub use tables::{CORRECTIONS, EVENTS, FIT, GAPS, POINTS, RUNS, TABLES, Table};

use crate::meta::SignalMeta;
use crate::op::{Op, SignalId};
use crate::version::DataVersion;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct ChangedTables {
    gaps: bool,
    runs: bool,
    points: bool,
    fit: bool,
    events: bool,
    corrections: bool,
}

/// A signal without its samples.
#[derive(Debug, Clone)]
pub struct SignalState {
    /// Never reused in the store.
    pub id: SignalId,
    /// Current name.
    pub name: Arc<str>,
    /// Type, rate, calibration, geometry, attributes.
    pub meta: Arc<SignalMeta>,
    /// One past the last index, gaps included.
    pub end: i64,
    /// Indices without samples.
    pub gaps: GapTable,
    /// Clocks, one per run.
    pub runs: RunTable,
    /// Stamps as given.
    pub points: PointTable,
    /// Fit from index to civil time.
    pub fit: FitTable,
    /// Provenance, discontinuities, annotations.
    pub events: EventTable,
    /// Clock corrections.
    pub corrections: CorrectionTable,
    /// Version of the sample data.
    pub data: Arc<DataVersion>,
    /// States of one signal with equal numbers are equal.
    pub seq: u64,
    changed: ChangedTables,
}

impl SignalState {
    /// A signal without samples.
    #[must_use]
    pub fn new(id: SignalId, name: &str, meta: SignalMeta) -> Self {
        Self {
            id,
            name: name.into(),
            meta: Arc::new(meta),
            end: 0,
            gaps: GapTable::default(),
            runs: RunTable::default(),
            points: PointTable::default(),
            fit: FitTable::default(),
            events: EventTable::default(),
            corrections: CorrectionTable::default(),
            data: Arc::default(),
            seq: 0,
            changed: ChangedTables::default(),
        }
    }

    /// Ignores operations on other signals, on samples only, and invalid ones.
    pub fn apply(&mut self, op: &Op) {
        if op.signal() != self.id {
            return;
        }
        self.seq = self.seq.wrapping_add(1);
        match op {
            Op::Create { name, meta, .. } => {
                self.name = name.as_str().into();
                self.meta = Arc::new((**meta).clone());
            }
            Op::Rename { to, .. } => self.name = to.as_str().into(),
            Op::Meta { meta, .. } => self.meta = Arc::new((**meta).clone()),
            Op::End { end, .. } => self.end = (*end).max(0),
            Op::Valid { start, end, .. } => {
                if !self.gaps.overlapping(*start..*end).is_empty() {
                    self.gaps.set_valid(*start..*end);
                    self.changed.gaps = true;
                }
            }
            Op::Gap { start, end, .. } => {
                if 0 <= *start && start < end {
                    // A gap past the end removes nothing.
                    if *start < self.end {
                        let (length, taken) =
                            (self.meta.shard_samples(), *start..*end.min(&self.end));
                        Arc::make_mut(&mut self.data).take_away(taken, length);
                    }
                    self.gaps.set_gap(*start..*end);
                    self.changed.gaps = true;
                }
            }
            Op::Run { run, .. } => {
                self.runs.set(*run);
                self.changed.runs = true;
            }
            Op::Point { point, .. } => {
                self.points.set(*point);
                self.changed.points = true;
            }
            Op::Fit {
                run, from, pieces, ..
            } => {
                self.fit.set(*run, *from, pieces);
                self.changed.fit = true;
            }
            Op::Event { event, .. } => {
                self.events.set(event.clone());
                self.changed.events = true;
            }
            Op::EventRemove { event, .. } => {
                self.events.remove(*event);
                self.events.reserve(*event);
                self.changed.events = true;
            }
            Op::Correction { correction, .. } => {
                self.corrections.set((**correction).clone());
                self.changed.corrections = true;
            }
            Op::ReplaceData { tmp, codec, .. } => {
                Arc::make_mut(&mut self.data).replace_array(tmp);
                if *codec != self.meta.codec {
                    Arc::make_mut(&mut self.meta).codec.clone_from(codec);
                }
            }
            Op::ReplaceShard { shard, tmp, .. } => {
                Arc::make_mut(&mut self.data).replace_shard(*shard, tmp);
            }
            Op::Data { data, .. } => self.data = Arc::new((**data).clone()),
            Op::WriteMark {
                shard,
                mark,
                synced,
                ..
            } => Arc::make_mut(&mut self.data).set_mark(*shard, *mark, *synced),
            // These concern the catalogue, or samples and files.
            Op::Remove { .. }
            | Op::Samples { .. }
            | Op::Crc { .. }
            | Op::Tables { .. }
            | Op::SmallTables { .. } => {}
        }
    }

    /// Samples, without gaps.
    #[must_use]
    pub fn sample_count(&self) -> i64 {
        self.end - self.gaps.missing_within(0..self.end)
    }
}
