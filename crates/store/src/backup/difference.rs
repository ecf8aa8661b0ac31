//! What a backup lacks of a state of its source.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::signal_error::{CopyError, SignalError};
use crate::backend::Backend;
use crate::error::StoreError;
use crate::interrupt;
use crate::layout::flat::Flat;
use crate::op::{Op, SignalId};
use crate::state::SignalState;
use crate::store::Store;
use crate::views::Samples;
use crate::views::stored::StoredSamples;

pub(super) struct Snapshot {
    pub(super) sequence: u64,
    pub(super) signals: Vec<(SignalId, Arc<SignalState>)>,
    pub(super) left_out: Vec<SignalId>,
}

pub(super) struct SignalDifference {
    pub(super) id: SignalId,
    pub(super) state: Arc<SignalState>,
    pub(super) new: bool,
    pub(super) sealed: bool,
    pub(super) unseal: bool,
    pub(super) parts: Vec<Part>,
    pub(super) changed: bool,
    pub(super) ops: Vec<Op>,
    pub(super) bytes: u64,
}

impl SignalDifference {
    pub(super) fn replaces_array(&self) -> bool {
        !self.new && (self.sealed || self.unseal)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Samples(Range<i64>),
    Gap(Range<i64>),
}

impl Part {
    const fn start(&self) -> i64 {
        match self {
            Self::Samples(range) | Self::Gap(range) => range.start,
        }
    }
}

pub(super) struct Difference {
    pub(super) signals: Vec<SignalDifference>,
    pub(super) renamed: Vec<(SignalId, String)>,
    pub(super) removed: Vec<(SignalId, String)>,
    pub(super) failed: Vec<SignalError>,
}

impl Difference {
    /// What `target` lacks. Its signals for whose name `stays` holds are not removed.
    pub(super) fn of(
        source: &Store,
        target: &Store,
        snapshot: &Snapshot,
        stays: &dyn Fn(&str) -> bool,
    ) -> Result<Self, StoreError> {
        let backend = &target.shared().backend;
        let have: BTreeMap<SignalId, String> = backend.catalogue()?.into_iter().collect();
        let mut difference = Self {
            signals: Vec::new(),
            renamed: Vec::new(),
            removed: Vec::new(),
            failed: Vec::new(),
        };
        for (id, state) in &snapshot.signals {
            let old_name = have.get(id);
            if let Some(name) = old_name
                && **name != *state.name
            {
                difference.renamed.push((*id, state.name.to_string()));
            }
            let compared = old_name
                .map(|_| backend.state(*id))
                .transpose()
                .and_then(|old| {
                    let (source, state) = (&source.shared().backend, Arc::clone(state));
                    compare(source, backend, state, old.as_deref())
                });
            match compared {
                Ok(signal) => difference.signals.extend(signal),
                Err(error) => match CopyError::of_signal(source.path(), *id, &state.name, error) {
                    CopyError::Signal(failure) => difference.failed.push(failure),
                    CopyError::Other(error) => return Err(*error),
                },
            }
        }
        let there = snapshot.signals.iter().map(|(id, _)| id);
        let there: BTreeSet<_> = there.chain(&snapshot.left_out).collect();
        let gone = |(id, name): &(SignalId, String)| !there.contains(id) && !stays(name);
        difference.removed = have.clone().into_iter().filter(gone).collect();
        difference.refuse_taken_names(&have);
        Ok(difference)
    }

    /// Fails signals whose name a staying signal of the backup has.
    fn refuse_taken_names(&mut self, have: &BTreeMap<SignalId, String>) {
        let moved: BTreeSet<SignalId> = self
            .removed
            .iter()
            .chain(&self.renamed)
            .map(|(id, _)| *id)
            .collect();
        let taken: BTreeSet<&String> = have
            .iter()
            .filter(|(id, _)| !moved.contains(id))
            .map(|(_, name)| name)
            .collect();
        let refused = |(_, name): &&(SignalId, String)| taken.contains(name);
        for (id, name) in self.renamed.iter().filter(refused) {
            self.failed.push(SignalError {
                id: *id,
                name: name.clone(),
                error: Box::new(StoreError::SignalExists { name: name.clone() }),
            });
        }
    }

    /// Whether sample files are replaced, also by signals that take another's name. `have`: names in the backup.
    pub(super) fn replaces(&self, have: &[String]) -> bool {
        let has = |name: &str| have.iter().any(|have| have == name);
        let replaced = |signal: &SignalDifference| {
            signal.replaces_array() || signal.changed || signal.new && has(&signal.state.name)
        };
        self.signals.iter().any(replaced) || self.renamed.iter().any(|(_, name)| has(name))
    }

    /// Whether signals are added, removed or renamed.
    pub(super) fn is_structural(&self) -> bool {
        let is_new = self.signals.iter().any(|signal| signal.new);
        is_new || !self.removed.is_empty() || !self.renamed.is_empty()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.signals.iter().map(|signal| signal.bytes).sum()
    }

    /// Whether existing samples differ.
    pub(super) fn changes_samples(&self) -> bool {
        self.signals.iter().any(|signal| signal.changed)
    }
}

fn compare(
    source: &Backend,
    target: &Backend,
    state: Arc<SignalState>,
    old: Option<&SignalState>,
) -> Result<Option<SignalDifference>, StoreError> {
    let empty;
    let new = old.is_none();
    let old = match old {
        Some(old) => old,
        None => {
            let mut meta = (*state.meta).clone();
            meta.codec = String::new();
            empty = SignalState::new(state.id, &state.name, meta);
            &empty
        }
    };
    let size = state.meta.format.size() as u64;
    let mut difference = SignalDifference {
        id: state.id,
        new,
        sealed: !state.meta.codec.is_empty(),
        unseal: !old.meta.codec.is_empty() && state.meta.codec.is_empty(),
        parts: Vec::new(),
        changed: false,
        ops: rows(&state, old),
        bytes: 0,
        state: Arc::clone(&state),
    };
    let mut parts = missing(&state, old);
    if !new {
        let changed = changed(source, target, &state, old)?;
        difference.changed = !changed.is_empty();
        parts.extend(changed.into_iter().map(Part::Samples));
        parts.sort_by_key(Part::start);
    }
    if difference.sealed {
        let same = state.meta.codec == old.meta.codec && !difference.changed;
        difference.sealed = !same || parts.iter().any(|part| matches!(part, Part::Samples(_)));
        if difference.sealed {
            difference.bytes = state.sample_count().unsigned_abs() * size;
        }
    } else {
        let samples = parts.iter().map(|part| match part {
            Part::Samples(range) => (range.end - range.start).unsigned_abs(),
            Part::Gap(_) => 0,
        });
        difference.bytes = samples.sum::<u64>() * size;
    }
    difference.parts = parts;
    let nothing = !new
        && !difference.sealed
        && !difference.unseal
        && difference.parts.is_empty()
        && difference.ops.is_empty();
    Ok((!nothing).then_some(difference))
}

fn missing(state: &SignalState, old: &SignalState) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut at = 0;
    while at < state.end {
        let (gap, stop) = stretch(state, at, state.end);
        // Leave out what the backup has.
        let mut within = at;
        while within < stop {
            let (old_gap, old_stop) = match within < old.end {
                true => stretch(old, within, old.end),
                false => (!gap, stop),
            };
            let end = old_stop.min(stop);
            if gap != old_gap {
                let range = within..end;
                parts.push(match gap {
                    true => Part::Gap(range),
                    false => Part::Samples(range),
                });
            }
            within = end;
        }
        at = stop;
    }
    parts
}

/// Whether `at` is in a gap, and the end of the gap or valid range, at most `end`.
fn stretch(state: &SignalState, at: i64, end: i64) -> (bool, i64) {
    match state.gaps.first_within(at..end) {
        Some(gap) if gap.start <= at => (true, gap.end().min(end)),
        Some(gap) => (false, gap.start),
        None => (false, end),
    }
}

/// Samples of both that differ, by whole chunks.
fn changed(
    source: &Backend,
    target: &Backend,
    state: &SignalState,
    old: &SignalState,
) -> Result<Vec<Range<i64>>, StoreError> {
    let length = state.meta.chunk_samples.max(1).cast_signed();
    let end = state.end.min(old.end);
    let mut found = Vec::new();
    let mut at = 0;
    while at < end {
        if let Some(gap) = state.gaps.at(at) {
            let skip = gap.end() / length * length;
            if skip > at {
                at = skip;
                continue;
            }
        }
        let chunk = at..at.saturating_add(length);
        at = chunk.end;
        interrupt::check("back up")?;
        let both = chunk.start..chunk.end.min(end);
        let differ = if chunk.end <= end && same_gaps(state, old, &chunk) {
            let number = (chunk.start / length).cast_unsigned();
            let (theirs, ours) = (
                source.chunk_crc(state.id, number)?,
                target.chunk_crc(state.id, number)?,
            );
            match (theirs.filter(|crc| *crc != 0), ours.filter(|crc| *crc != 0)) {
                (Some(theirs), Some(ours)) => theirs != ours,
                _ => !same_samples(source, target, state, old, &both)?,
            }
        } else if chunk.end <= end {
            // A new or filled gap: compare after copying.
            false
        } else {
            !same_samples(source, target, state, old, &both)?
        };
        if differ {
            found.extend(valid_in_both(state, old, &both));
        }
    }
    Ok(found)
}

fn same_gaps(state: &SignalState, old: &SignalState, range: &Range<i64>) -> bool {
    let within = |state: &SignalState| -> Vec<_> {
        let gaps = state.gaps.within(range.clone());
        gaps.map(|gap| gap.range()).collect()
    };
    within(state) == within(old)
}

fn valid_in_both(state: &SignalState, old: &SignalState, range: &Range<i64>) -> Vec<Range<i64>> {
    let mut valid = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let (gap, stop) = stretch(state, at, range.end);
        let (old_gap, old_stop) = stretch(old, at, range.end);
        let stop = stop.min(old_stop);
        valid.extend((!gap && !old_gap).then_some(at..stop));
        at = stop;
    }
    valid
}

fn same_samples(
    source: &Backend,
    target: &Backend,
    state: &SignalState,
    old: &SignalState,
    range: &Range<i64>,
) -> Result<bool, StoreError> {
    let size = state.meta.format.size();
    let read = |backend: &Backend, state: &SignalState, range: &Range<i64>| {
        let mut bytes = vec![0; (range.end - range.start).unsigned_abs() as usize * size];
        StoredSamples::new(backend, state)?.visit(range.clone(), &mut |index, part| {
            let from = (index - range.start).unsigned_abs() as usize * size;
            bytes[from..from + part.len()].copy_from_slice(part);
            Ok(())
        })?;
        Ok::<_, StoreError>(bytes)
    };
    for range in valid_in_both(state, old, range) {
        if read(source, state, &range)? != read(target, old, &range)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn rows(state: &SignalState, old: &SignalState) -> Vec<Op> {
    let id = state.id;
    let mut ops = Vec::new();
    let mut meta = (*state.meta).clone();
    // The codec comes with the samples.
    meta.codec.clone_from(&old.meta.codec);
    if meta != *old.meta {
        let meta = Box::new(meta);
        ops.push(Op::Meta { id, meta });
    }
    for run in state.runs.iter() {
        if old.runs.by_id(run.id) != Some(run) {
            ops.push(Op::Run { id, run });
        }
        let pieces: Vec<_> = state.fit.of_run(run.id).collect();
        let have: Vec<_> = old.fit.of_run(run.id).collect();
        let same = pieces.iter().zip(&have).take_while(|(a, b)| a == b).count();
        let (new, stale) = (pieces.get(same), have.get(same));
        let from = new.into_iter().chain(stale).map(|piece| piece.index).min();
        if let Some(from) = from {
            ops.push(Op::Fit {
                id,
                run: run.id,
                from,
                pieces: pieces[same..].to_vec(),
            });
        }
    }
    for point in state.points.iter() {
        if old.points.at(point.run, point.index) != Some(point) {
            ops.push(Op::Point { id, point });
        }
    }
    for correction in state.corrections.iter() {
        if old.corrections.by_id(correction.id) != Some(correction) {
            let correction = Box::new((**correction).clone());
            ops.push(Op::Correction { id, correction });
        }
    }
    for event in state.events.iter() {
        if old.events.by_id(event.id) != Some(event) {
            let event = (**event).clone();
            ops.push(Op::Event { id, event });
        }
    }
    for event in old.events.iter() {
        if state.events.by_id(event.id).is_none() {
            let event = event.id;
            ops.push(Op::EventRemove { id, event });
        }
    }
    let last = state.events.next_id().checked_sub(1);
    if let Some(event) = last.filter(|_| old.events.next_id() < state.events.next_id())
        && state.events.by_id(event).is_none()
    {
        ops.push(Op::EventRemove { id, event });
    }
    ops
}

pub(super) fn shard_samples(state: &SignalState) -> i64 {
    let flat = Flat::data(&state.meta);
    (flat.shard_bytes() / state.meta.format.size() as u64).cast_signed()
}
