//! Stores a block in its signal.

use std::ops::Range;

use isochrony_store::op::RunReason;
use isochrony_store::{AppendedRecordings, Backfilled, StampedRecording};
use isochrony_time::{RunId, Stamp};
use serde_json::{Map, Value};

use super::Target;
use crate::IngestError;
use crate::session::edge_values::edges;
use crate::session::placement::{Event, NextStamp, PlacedBlock, Sequence};

impl Target {
    pub(in crate::session) fn is_copy(
        &self,
        bytes: &[u8],
        stamp: &Stamp,
    ) -> Result<bool, IngestError> {
        Ok(self.copy_of(bytes, stamp)?.is_some())
    }

    fn copy_of(&self, bytes: &[u8], stamp: &Stamp) -> Result<Option<Range<i64>>, IngestError> {
        if self.latest.is_none_or(|latest| stamp.civil > latest) {
            return Ok(None);
        }
        Ok(self.writer.matches(bytes, stamp)?)
    }

    /// Returns how the stamp was interpreted. The source is a number and a name.
    pub(crate) fn put(
        &mut self,
        number: u64,
        source: &str,
        bytes: &[u8],
        stamp: Option<&Stamp>,
        next: Option<NextStamp<'_>>,
        sequence: Sequence,
    ) -> Result<PlacedBlock, IngestError> {
        let placed = match stamp {
            None => PlacedBlock::appended(&self.writer.append_bytes(bytes)?),
            Some(stamp) => self.put_stamped(bytes, stamp, next, sequence)?,
        };
        if let Some(event) = placed.event {
            self.add_event_of(event, source, stamp, &placed)?;
        }
        if placed.stored {
            self.added += placed.samples;
            if !placed.late {
                self.fed_by = Some(number);
            }
            self.check_for_jump(source, bytes, &placed)?;
        }
        Ok(placed)
    }

    fn put_stamped(
        &mut self,
        bytes: &[u8],
        stamp: &Stamp,
        next: Option<NextStamp<'_>>,
        sequence: Sequence,
    ) -> Result<PlacedBlock, IngestError> {
        if sequence != Sequence::LateCertain
            && let Some(range) = self.copy_of(bytes, stamp)?
        {
            return Ok(PlacedBlock::duplicate(range.start, range.end - range.start));
        }
        let late = match sequence {
            Sequence::Newest => false,
            Sequence::Late | Sequence::LateCertain => true,
            Sequence::Unknown => self.is_before_end(bytes, stamp)?,
        };
        let placed = if late {
            let backfilled = self.writer.backfill(bytes, stamp)?;
            let mut placed = PlacedBlock::backfilled(&backfilled);
            // Also if it only continues a run begun for such samples.
            placed.overlaps |= match backfilled {
                Backfilled::Appended(appended) => self.is_overlap(appended.run)?,
                _ => false,
            };
            placed
        } else {
            let (after, samples) = match next {
                Some(next) => (Some(next.stamp), next.samples),
                None => (None, None),
            };
            let samples = samples.unwrap_or((bytes.len() / self.format.size()) as i64);
            let appended = self
                .writer
                .append_beginning_at(bytes, stamp, after, samples)?;
            PlacedBlock::appended(&appended)
        };
        self.latest = self.latest.max(Some(stamp.civil));
        if !late {
            self.tip = self.tip.max(Some(self.civil_range(bytes, stamp)?.end));
        }
        Ok(placed)
    }

    /// As [`SignalWriter::append_following`](isochrony_store::SignalWriter::append_following).
    pub(in crate::session) fn append_following(
        &self,
        bytes: &[u8],
        recordings: &[StampedRecording],
        next: &Stamp,
    ) -> Result<AppendedRecordings, IngestError> {
        Ok(self.writer.append_following(bytes, recordings, next)?)
    }

    pub(in crate::session) fn note_stored(&mut self, latest: &Stamp, samples: i64) {
        self.latest = self.latest.max(Some(latest.civil));
        self.added += samples;
    }

    /// Later than all stored stamps, and not before the end at the session's start.
    pub(in crate::session) fn is_new(&self, stamp: &Stamp) -> bool {
        self.latest.is_none_or(|latest| stamp.civil > latest)
            && self.ended.is_none_or(|ended| stamp.civil >= ended)
    }

    pub(in crate::session) fn looks_for_jumps(&self) -> bool {
        self.value_jump.is_some()
    }

    fn is_overlap(&self, run: RunId) -> Result<bool, IngestError> {
        let signal = self.writer.signal()?;
        let run = signal.state().runs.by_id(run.0);
        Ok(run.is_some_and(|run| run.reason == RunReason::Overlap))
    }

    /// Whether most of it lies before the end at the session's start.
    pub(in crate::session) fn is_before_end(
        &self,
        bytes: &[u8],
        stamp: &Stamp,
    ) -> Result<bool, IngestError> {
        let Some(ended) = self.ended else {
            return Ok(false);
        };
        let half = self.duration((bytes.len() / self.format.size() / 2) as i64)?;
        let middle = stamp.civil.checked_add(half);
        Ok(middle.is_some_and(|middle| middle < ended))
    }

    fn add_event_of(
        &self,
        event: Event,
        source: &str,
        stamp: Option<&Stamp>,
        placed: &PlacedBlock,
    ) -> Result<(), IngestError> {
        let range = placed.index..placed.index + placed.samples;
        self.writer
            .add_event(event.kind, range, &event.fields(source, stamp))?;
        Ok(())
    }

    fn check_for_jump(
        &mut self,
        source: &str,
        bytes: &[u8],
        placed: &PlacedBlock,
    ) -> Result<(), IngestError> {
        let Some(threshold) = self.value_jump else {
            return Ok(());
        };
        let Some((first, last)) = edges(self.format, bytes) else {
            return Ok(());
        };
        let (scale, offset) = self.scale;
        let physical = |count: f64| count * scale + offset;
        let before = self.edge.replace(physical(last)).filter(|_| placed.follows);
        let Some(before) = before.filter(|before| (physical(first) - before).abs() > threshold)
        else {
            return Ok(());
        };
        let fields: [(&str, Value); 3] = [
            ("source", source.into()),
            ("before", before.into()),
            ("after", physical(first).into()),
        ];
        let fields: Map<String, Value> = fields
            .into_iter()
            .map(|(name, value)| (name.into(), value))
            .collect();
        self.writer
            .add_event("value_jump", placed.index..placed.index, &fields)?;
        Ok(())
    }
}
