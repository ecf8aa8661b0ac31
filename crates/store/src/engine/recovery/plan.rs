//! Recovery plan from the log: names, signals created and removed, and the last replacement of each file.

use std::collections::{BTreeSet, HashMap};

use super::kept::kept_samples;
use crate::engine::log::ParsedLog;
use crate::engine::slot::file_samples::FileSamples;
use crate::op::{Op, SignalId};
use crate::state::SignalState;

#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) names: HashMap<SignalId, Vec<String>>,
    pub(super) created: BTreeSet<SignalId>,
    pub(super) removed: BTreeSet<SignalId>,
    /// Signals whose folders may have to move.
    pub(super) moved: BTreeSet<SignalId>,
    pub(super) touched: BTreeSet<SignalId>,
    pub(super) replaced: HashMap<(SignalId, u64), usize>,
    pub(super) replaced_data: HashMap<SignalId, usize>,
    pub(super) longest: HashMap<SignalId, i64>,
    pub(super) base_sequence: u64,
}

impl Plan {
    pub(super) fn new(opening: &ParsedLog, ops: &[Op]) -> Self {
        let mut plan = Self {
            base_sequence: opening.sequence,
            ..Self::default()
        };
        for op in &opening.base {
            match op {
                Op::Create { id, name, .. } => {
                    plan.names.entry(*id).or_default().push(name.clone());
                }
                Op::End { id, end } => _ = plan.longest.insert(*id, *end),
                _ => {}
            }
        }
        for (position, op) in ops.iter().enumerate() {
            let id = op.signal();
            plan.touched.insert(id);
            match op {
                Op::Create { name, .. } => {
                    if !plan.names.contains_key(&id) {
                        plan.created.insert(id);
                    }
                    plan.moved.insert(id);
                    plan.names.entry(id).or_default().push(name.clone());
                }
                Op::Rename { to, .. } => {
                    plan.moved.insert(id);
                    plan.names.entry(id).or_default().push(to.clone());
                }
                Op::Remove { .. } => {
                    plan.moved.insert(id);
                    plan.removed.insert(id);
                }
                Op::End { end, .. } => {
                    let longest = plan.longest.entry(id).or_default();
                    *longest = (*longest).max(*end);
                }
                Op::ReplaceShard { shard, .. } => {
                    plan.replaced.insert((id, *shard), position);
                }
                Op::ReplaceData { .. } => _ = plan.replaced_data.insert(id, position),
                _ => {}
            }
        }
        plan
    }

    /// Whether a later replacement of the shard contains the operation at `position`, perhaps with newer samples.
    pub(super) fn superseded(&self, id: SignalId, shard: u64, position: usize) -> bool {
        let by_shard = self.replaced.get(&(id, shard));
        let by_data = self.replaced_data.get(&id);
        by_shard.into_iter().chain(by_data).any(|at| *at > position)
    }

    pub(super) fn longest(&self, id: SignalId) -> i64 {
        self.longest.get(&id).copied().unwrap_or(0)
    }

    /// Whether files hold data of a signal created since the base: samples missing from the log, or a replacement.
    pub(super) fn in_files(&self, id: SignalId, ops: &[Op]) -> bool {
        if self.replaced_data.contains_key(&id) || self.replaced.keys().any(|(of, _)| *of == id) {
            return true;
        }
        let own: Vec<usize> = (0..ops.len())
            .filter(|position| ops[*position].signal() == id)
            .collect();
        let Some((name, meta)) = own.iter().find_map(|position| match &ops[*position] {
            Op::Create { name, meta, .. } => Some((name, meta)),
            _ => None,
        }) else {
            return true;
        };
        let kept = kept_samples(ops, &own, meta.format.size());
        let state = SignalState::new(id, name, (**meta).clone());
        let own = own.iter().map(|position| &ops[*position]);
        FileSamples::new(&state, own, kept.into_values().flatten()).any()
    }
}
