//! Checks that a signal's files hold the samples they must.
//!
//! Writing creates a missing shard and extends a short one. If committed samples should be there, that would hide their
//! loss and show zeros that nobody recorded.

use std::ops::Range;
use std::path::Path;

use serde_json::json;

use super::SlotInner;
use crate::engine::io::IoContext;
use crate::error::StoreError;
use crate::media::{Kind, Media};
use crate::op::{EventRow, Op, RunRow, SAMPLES_LOST, SignalId};
use crate::state::{GapTable, SignalState};

/// Samples that files must have during replay.
#[derive(Debug, Clone)]
pub(crate) struct FileSamples {
    /// Gaps at the log's end, and samples in the log.
    elsewhere: GapTable,
    end: i64,
}

impl FileSamples {
    /// The signal had the durable state `state`, followed by `ops`; of their samples, those in `kept` count at the end.
    pub(crate) fn new<'a>(
        state: &SignalState,
        ops: impl Iterator<Item = &'a Op>,
        kept: impl Iterator<Item = Range<i64>>,
    ) -> Self {
        let mut in_files = Self {
            elsewhere: state.gaps.clone(),
            end: state.end,
        };
        for op in ops {
            match op {
                Op::End { end, .. } => in_files.end = (*end).max(0),
                Op::Gap { start, end, .. } if *start >= 0 => {
                    in_files.elsewhere.set_gap(*start..*end)
                }
                Op::Valid { start, end, .. } => in_files.elsewhere.set_valid(*start..*end),
                _ => {}
            }
        }
        kept.for_each(|range| in_files.elsewhere.set_gap(range));
        in_files
    }

    pub(crate) fn any(&self) -> bool {
        self.elsewhere.missing_within(0..self.end) < self.end
    }

    fn within(&self, range: Range<i64>) -> Vec<Range<i64>> {
        let mut parts = Vec::new();
        let mut at = range.start;
        for other in self.elsewhere.within(range.clone()) {
            parts.extend((at < other.start).then_some(at..other.start));
            at = other.end();
        }
        parts.extend((at < range.end).then_some(at..range.end));
        parts
    }
}

/// Lost samples of one shard, to become gaps and an event.
#[derive(Debug)]
pub(crate) struct LostSamples {
    range: Range<i64>,
    parts: Vec<Range<i64>>,
    file: String,
    reason: &'static str,
}

impl LostSamples {
    pub(crate) fn lost_commit(range: Range<i64>) -> Self {
        Self {
            parts: Vec::from_iter((!range.is_empty()).then(|| range.clone())),
            range,
            file: "log".into(),
            reason: "lost_commit",
        }
    }

    /// Applies it after all other changes, once per log generation: an interrupted recovery may have left the event.
    pub(crate) fn apply(&self, id: SignalId, state: &mut SignalState, generation: u64) {
        let mut samples = 0;
        if self.range.end > state.end {
            let end = self.range.end;
            if let Some(run) = state.runs.last().filter(|run| run.end == state.end) {
                let run = RunRow { end, ..run };
                state.apply(&Op::Run { id, run });
            }
            state.apply(&Op::End { id, end });
        }
        for part in &self.parts {
            samples += part.end - part.start;
            let (start, end) = (part.start, part.end);
            state.apply(&Op::Gap { id, start, end });
        }
        let fields = json!({"reason": self.reason, "samples": samples, "file": self.file,
            "log": generation})
        .to_string();
        let is_told = (state.events.iter()).any(|event| {
            event.kind == SAMPLES_LOST
                && (event.start, event.end) == (self.range.start, self.range.end)
                && event.fields == fields
        });
        if is_told {
            return;
        }
        let event = EventRow {
            id: state.events.next_id(),
            start: self.range.start,
            end: self.range.end,
            kind: SAMPLES_LOST.into(),
            fields,
        };
        state.apply(&Op::Event { id, event });
    }
}

/// Samples that are valid by `newer`, not by `older`.
pub(crate) fn filled_since(newer: &GapTable, older: &GapTable) -> Vec<Range<i64>> {
    let mut filled = Vec::new();
    for gap in older.iter() {
        let mut at = gap.start;
        for still in newer.within(gap.range()) {
            filled.extend((at < still.start).then_some(at..still.start));
            at = still.end();
        }
        filled.extend((at < gap.end()).then_some(at..gap.end()));
    }
    filled
}

impl SlotInner {
    /// Fails if a shard of length `have` lacks committed samples.
    ///
    /// # Errors
    /// [`StoreError::MissingSamples`].
    pub(crate) fn check_shard(
        &mut self,
        media: &dyn Media,
        path: &Path,
        shard: u64,
        have: u64,
    ) -> Result<(), StoreError> {
        let need = self.held_bytes(media, shard)?;
        if need <= have {
            return Ok(());
        }
        Err(StoreError::MissingSamples {
            path: path.into(),
            have,
            need,
        })
    }

    fn held_bytes(&mut self, media: &dyn Media, shard: u64) -> Result<u64, StoreError> {
        let (per_shard, size) = (
            self.base.meta.shard_samples(),
            self.base.meta.format.size() as i64,
        );
        let payload_start = self.flat().payload_start;
        let state;
        let (elsewhere, end) = if let Some(in_files) = &self.in_files {
            (&in_files.elsewhere, in_files.end)
        } else {
            state = self.state(media)?.clone();
            (&state.gaps, state.end)
        };
        let start = i64::try_from(shard).map_or(i64::MAX, |shard| shard.saturating_mul(per_shard));
        let end = start.saturating_add(per_shard).min(end);
        if end <= start {
            return Ok(0);
        }
        let last = elsewhere.at(end - 1).map_or(end, |gap| gap.start);
        if last <= start {
            return Ok(0);
        }
        Ok(payload_start + ((last - start) * size).cast_unsigned())
    }

    /// During replay: turns samples of missing or short files into losses.
    pub(crate) fn give_up(
        &mut self,
        media: &dyn Media,
        root: &Path,
    ) -> Result<Vec<LostSamples>, StoreError> {
        let Some(in_files) = self
            .in_files
            .clone()
            .filter(|_| self.base.meta.codec.is_empty())
        else {
            return Ok(Vec::new());
        };
        let (per_shard, size) = (
            self.base.meta.shard_samples(),
            self.base.meta.format.size() as i64,
        );
        let payload_start = self.flat().payload_start;
        let mut given_up = Vec::new();
        let mut at = 0;
        while at < in_files.end {
            // Skip shards without samples in files; there may be millions.
            if let Some(gap) = in_files.elsewhere.at(at)
                && gap.end() / per_shard * per_shard > at
            {
                at = gap.end() / per_shard * per_shard;
                continue;
            }
            let shard = (at / per_shard).cast_unsigned();
            let end = (at + per_shard).min(in_files.end);
            let path = self.data_shard(root, shard);
            let (have, reason) = match media.stat(&path).at("look at", &path)? {
                Some(Kind::File(length)) => (length, "truncated_shard"),
                _ => (0, "missing_shard"),
            };
            let need = self.held_bytes(media, shard)?;
            let whole = (have.saturating_sub(payload_start)).cast_signed() / size;
            let parts = match need > have {
                true => in_files.within((at + whole).min(end)..end),
                false => Vec::new(),
            };
            at = end;
            let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
                continue;
            };
            let range = first.start..last.end;
            if let Some(in_files) = &mut self.in_files {
                parts
                    .iter()
                    .for_each(|part| in_files.elsewhere.set_gap(part.clone()));
            }
            given_up.push(LostSamples {
                range,
                parts,
                file: shard.to_string(),
                reason,
            });
        }
        Ok(given_up)
    }
}
