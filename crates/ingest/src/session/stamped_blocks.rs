//! Many stamped blocks at a time.
//!
//! Blocks that follow each other, as most records do, are stored in one change of the store. The result equals
//! [`Session::block`] for each: that method handles every block that may not simply continue the recording.

use isochrony_store::{AppendedRecordings, StampedRecording};
use isochrony_time::{Fixed, Stamp};

use super::target::Target;
use super::{Block, MAX_HELD_BYTES, PlacedBlock, Session, StampedBlocks};
use crate::IngestError;

impl Session {
    /// Stores blocks of one signal, as [`block`](Self::block) does for each.
    ///
    /// # Errors
    /// As there, with earlier blocks stored; [`IngestError::BlockSizes`], with none stored.
    pub fn blocks(&mut self, blocks: &StampedBlocks<'_>) -> Result<(), IngestError> {
        blocks.check()?;
        let mut rest = *blocks;
        while !rest.recordings.is_empty() {
            let (first, after) = rest.split_at(1);
            self.block(&Block {
                signal: rest.signal,
                spec: rest.spec,
                bytes: first.bytes,
                stamp: first.recordings.first().map(|(_, stamp)| *stamp),
                source: rest.source,
            })?;
            let stored = self.put_following(&after)?;
            (_, rest) = after.split_at(stored);
        }
        Ok(())
    }

    /// Keeps the last block for its successor. Returns the number stored; 0 if the first may need other handling.
    fn put_following(&mut self, blocks: &StampedBlocks<'_>) -> Result<usize, IngestError> {
        let [(_, first), (_, second), ..] = blocks.recordings else {
            return Ok(0);
        };
        let Some(source) = self.open.get(blocks.source).copied() else {
            return Ok(0);
        };
        let Some(target) = self.targets.get(blocks.signal) else {
            return Ok(0);
        };
        // An equal stamp may be a copy's.
        let is_later = second.civil > first.civil
            && target
                .held_stamp()
                .is_none_or(|held| first.civil > held.civil);
        if !is_later || !self.is_compared(source, blocks.signal) {
            return Ok(0);
        }
        self.release(blocks.signal, Some(first))?;
        let most = blocks.longest();
        let Some(target) = self.targets.get_mut(blocks.signal) else {
            return Ok(0);
        };
        if self.held_bytes + most > MAX_HELD_BYTES || !target.continues_source(source, first) {
            return Ok(0);
        }
        let stored = target.put_following(blocks.bytes, blocks.recordings)?;
        if stored.recordings > 0 {
            let placed = PlacedBlock::following(stored.index, stored.samples);
            let bytes = stored.samples.unsigned_abs() * blocks.spec.format.size() as u64;
            self.note_placed(
                source,
                blocks.signal,
                &placed,
                bytes,
                Fixed::ZERO..Fixed::ZERO,
            );
        }
        Ok(stored.recordings)
    }
}

impl<'a> StampedBlocks<'a> {
    fn check(&self) -> Result<(), IngestError> {
        let size = self.spec.format.size();
        let whole = self
            .recordings
            .iter()
            .try_fold(0usize, |sum, (samples, _)| {
                let samples = usize::try_from(*samples)
                    .ok()
                    .filter(|samples| *samples > 0)?;
                sum.checked_add(samples.checked_mul(size)?)
            });
        if whole == Some(self.bytes.len()) {
            return Ok(());
        }
        Err(IngestError::BlockSizes {
            signal: self.signal.into(),
            have: self.bytes.len() / size,
            stated: self
                .recordings
                .iter()
                .map(|(samples, _)| i128::from(*samples))
                .sum(),
        })
    }

    fn split_at(&self, count: usize) -> (Self, Self) {
        let (first, rest) = self.recordings.split_at(count.min(self.recordings.len()));
        let samples: i64 = first.iter().map(|(samples, _)| samples).sum();
        let bytes = samples.unsigned_abs() as usize * self.spec.format.size();
        let (own, behind) = self.bytes.split_at(bytes.min(self.bytes.len()));
        let part = |recordings: &'a [(i64, Stamp)], bytes: &'a [u8]| Self {
            recordings,
            bytes,
            ..*self
        };
        (part(first, own), part(rest, behind))
    }

    fn longest(&self) -> usize {
        let longest = self.recordings.iter().map(|(samples, _)| *samples).max();
        longest.unwrap_or(0).unsigned_abs() as usize * self.spec.format.size()
    }
}

impl Target {
    /// Whether a block can only continue its source's last one; not if value jumps are looked for.
    fn continues_source(&self, source: u64, stamp: &Stamp) -> bool {
        self.undecided.is_none()
            && self.fed_by == Some(source)
            && !self.looks_for_jumps()
            && self.is_new(stamp)
    }

    /// Up to the first that does not follow, or whose successor has no later stamp.
    fn put_following(
        &mut self,
        bytes: &[u8],
        blocks: &[(i64, Stamp)],
    ) -> Result<AppendedRecordings, IngestError> {
        let mut recordings = Vec::with_capacity(blocks.len());
        let mut tips = Vec::with_capacity(blocks.len());
        let (mut tip, mut after) = (self.tip, None);
        for pair in blocks.windows(2) {
            let [(samples, stamp), (_, next)] = pair else {
                continue;
            };
            if next.civil <= stamp.civil {
                break;
            }
            recordings.push(StampedRecording {
                samples: *samples,
                stamp: *stamp,
                is_early: !stamp.leap && tip.is_some_and(|tip| stamp.civil < tip),
            });
            let end = stamp.civil.checked_add(self.duration(*samples)?);
            tip = tip.max(Some(end.unwrap_or(stamp.civil)));
            tips.push(tip);
            after = Some(next);
        }
        let Some(next) = after else {
            return Ok(AppendedRecordings::default());
        };
        let stored = self.append_following(bytes, &recordings, next)?;
        if let Some(last) = stored.recordings.checked_sub(1) {
            self.tip = tips[last];
            self.note_stored(&recordings[last].stamp, stored.samples);
        }
        Ok(stored)
    }
}
