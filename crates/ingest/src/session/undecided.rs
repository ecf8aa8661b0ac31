//! Blocks whose stamps lie before the end of what is stored: either the recorder's clock stepped back, or they are from
//! elsewhere and overlap a recording that continues.
//!
//! Later blocks decide, by the rule of `raw::order`: after a step back, a clock continues past the point of the step.
//! So such a block and those that continue it are set *aside* until
//! - they reach past the end of the recording: a clock step;
//! - a block continues the recording where it ended, or begins anew before that: an overlap, backfilled;
//! - the input ends: a clock step if they come from the source that fed the recording, since its blocks are in
//!   recording order; else an overlap.
//!
//! Either way, a run of their own keeps all samples. An overlap is a problem of the source, as is a step between two
//! sources, which may be of different recorders; a step within a source is an event.

use isochrony_time::{Fixed, Placement, Stamp};

use super::held::{HeldBlock, UndecidedBlocks, distance, middle, plus};
use super::target::Target;
use super::{Sequence, Session};
use crate::IngestError;

/// Tolerance in periods, in addition to a stamp's resolution.
const NEAR_PERIODS: i64 = 3;

enum BlockPosition {
    Stored,
    Undecided,
    /// To neither: it lies before this end of the recording.
    Before(Fixed),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Step,
    Overlap,
}

impl Session {
    pub(super) fn judge(
        &mut self,
        signal: &str,
        held: HeldBlock,
        next: Option<&Stamp>,
    ) -> Result<(), IngestError> {
        let Some(target) = self.targets.get_mut(signal) else {
            return Ok(());
        };
        let mut position = target.position_of(&held, next)?;
        if matches!(position, BlockPosition::Stored | BlockPosition::Before(_))
            && target.undecided.is_some()
        {
            self.decide(signal, Verdict::Overlap, None)?;
            let target = self.targets.get(signal);
            position = target.map_or(Ok(BlockPosition::Stored), |target| {
                target.position_of(&held, next)
            })?;
        }
        let Some(target) = self.targets.get_mut(signal) else {
            return Ok(());
        };
        match position {
            BlockPosition::Stored => {
                let stamp = held.stamp.as_ref();
                self.put_held(signal, &held, stamp, next, Sequence::Unknown)?;
                self.settle(held.source);
                Ok(())
            }
            BlockPosition::Before(recorded) => {
                target.begin_undecided(held, recorded)?;
                self.check_undecided(signal, next)
            }
            BlockPosition::Undecided => {
                target.add_undecided(held)?;
                self.check_undecided(signal, next)
            }
        }
    }

    /// Samples without a stamp join the blocks that they follow.
    pub(super) fn join_undecided(
        &mut self,
        signal: &str,
        held: HeldBlock,
    ) -> Result<(), IngestError> {
        if let Some(source) = self.sources.get_mut(&held.source) {
            source.waiting += 1;
        }
        self.held_bytes += held.bytes.len();
        if let Some(target) = self.targets.get_mut(signal) {
            target.add_undecided(held)?;
        }
        self.check_undecided(signal, None)
    }

    fn check_undecided(&mut self, signal: &str, next: Option<&Stamp>) -> Result<(), IngestError> {
        let undecided = self
            .targets
            .get(signal)
            .and_then(|target| target.undecided.as_ref());
        if undecided.is_some_and(UndecidedBlocks::is_past_recording) {
            self.decide(signal, Verdict::Step, next)?;
        }
        Ok(())
    }

    pub(super) fn is_undecided(&self) -> bool {
        self.targets
            .values()
            .any(|target| target.undecided.is_some())
    }

    pub(super) fn decide_remaining(&mut self, signal: &str) -> Result<(), IngestError> {
        let undecided = self
            .targets
            .get(signal)
            .and_then(|target| target.undecided.as_ref());
        match undecided.map(|undecided| undecided.own) {
            Some(true) => self.decide(signal, Verdict::Step, None),
            Some(false) => self.decide(signal, Verdict::Overlap, None),
            None => Ok(()),
        }
    }

    /// What lasted so long is the recording itself.
    pub(super) fn decide_to_free_memory(&mut self, signal: &str) -> Result<(), IngestError> {
        self.decide(signal, Verdict::Step, None)
    }

    fn decide(
        &mut self,
        signal: &str,
        verdict: Verdict,
        next: Option<&Stamp>,
    ) -> Result<(), IngestError> {
        let Some(undecided) = self
            .targets
            .get_mut(signal)
            .and_then(|target| target.undecided.take())
        else {
            return Ok(());
        };
        // Where samples without a stamp continue, and the precision of the stamp that they follow.
        let mut follows: Option<(i64, Fixed)> = None;
        for (number, held) in undecided.blocks.iter().enumerate() {
            let after = undecided.blocks.get(number + 1);
            let next = after.map_or(next, |after| after.stamp.as_ref());
            let put = match (verdict, &held.stamp, follows) {
                (Verdict::Step, stamp, _) => {
                    self.put_held(signal, held, stamp.as_ref(), next, Sequence::Newest)?
                }
                (Verdict::Overlap, Some(stamp), _) => {
                    self.put_held(signal, held, Some(stamp), None, Sequence::Late)?
                }
                (Verdict::Overlap, None, Some((end, resolution))) => {
                    let stamp = self
                        .targets
                        .get(signal)
                        .map(|target| target.stamp_at(end, resolution))
                        .transpose()?;
                    self.put_held(signal, held, stamp.as_ref(), None, Sequence::LateCertain)?
                }
                (Verdict::Overlap, None, None) => {
                    self.put_held(signal, held, None, None, Sequence::Unknown)?
                }
            };
            let Some(placed) = put else { continue };
            let resolution = held.stamp.map_or(
                follows.map_or(Fixed::ZERO, |(_, resolution)| resolution),
                |stamp| stamp.resolution,
            );
            follows = Some((placed.index + placed.samples, resolution));
            let steps = placed.event.is_some_and(|event| event.kind == "clock_step");
            if let (true, false, Some(stamp)) = (steps, undecided.own, held.stamp) {
                let shared = stamp.civil..undecided.recorded.max(stamp.civil);
                self.note_overlap(held.source, signal, placed.index, shared);
            }
        }
        for held in &undecided.blocks {
            self.settle(held.source);
        }
        Ok(())
    }
}

impl Target {
    fn position_of(
        &self,
        held: &HeldBlock,
        next: Option<&Stamp>,
    ) -> Result<BlockPosition, IngestError> {
        let Some(stamp) = &held.stamp else {
            return Ok(match self.undecided {
                Some(_) => BlockPosition::Undecided,
                None => BlockPosition::Stored,
            });
        };
        if self
            .undecided
            .as_ref()
            .is_some_and(|undecided| undecided.is_continued_by(stamp))
        {
            return Ok(BlockPosition::Undecided);
        }
        // Fast path: the stamp is usually later than all stored ones.
        if stamp.leap || self.tip.is_none_or(|tip| stamp.civil >= tip) {
            return Ok(BlockPosition::Stored);
        }
        if self.is_before_end(&held.bytes, stamp)? || self.is_copy(&held.bytes, stamp)? {
            return Ok(BlockPosition::Stored);
        }
        let samples = (held.bytes.len() / self.format().size()) as i64;
        let Placement::Backward { by_ns } = self.placement(samples, stamp, None)? else {
            return Ok(BlockPosition::Stored);
        };
        let recorded = plus(middle(stamp), by_ns);
        if let Some(next) = next {
            // A wrong stamp's samples count for the next stamp; those of a block from elsewhere do not.
            let (duration, slack) = self.reach(samples, stamp)?;
            let without = distance(middle(next), recorded);
            let with = distance(middle(next), plus(recorded, duration));
            let goes_on = without <= plus(slack, next.resolution) && without < with;
            let backward = matches!(
                self.placement(samples, stamp, Some(next))?,
                Placement::Backward { .. }
            );
            if !goes_on && !backward {
                return Ok(BlockPosition::Stored);
            }
        }
        Ok(BlockPosition::Before(recorded))
    }

    fn begin_undecided(&mut self, held: HeldBlock, recorded: Fixed) -> Result<(), IngestError> {
        let own = self.fed_by == Some(held.source);
        self.undecided = Some(UndecidedBlocks::new(recorded, own));
        self.add_undecided(held)
    }

    fn add_undecided(&mut self, held: HeldBlock) -> Result<(), IngestError> {
        let samples = (held.bytes.len() / self.format().size()) as i64;
        let stamp = held.stamp.unwrap_or(Stamp::new(Fixed::ZERO, Fixed::ZERO));
        let (duration, slack) = self.reach(samples, &stamp)?;
        if let Some(undecided) = &mut self.undecided {
            undecided.add(held, duration, slack);
        }
        Ok(())
    }

    /// Duration, and tolerance of the stamp at its end: drift is far below a hundredth.
    fn reach(&self, samples: i64, stamp: &Stamp) -> Result<(Fixed, Fixed), IngestError> {
        let duration = self.duration(samples)?;
        let drift = Fixed::from_bits(duration.to_bits() / 100);
        let near = plus(self.duration(NEAR_PERIODS)?, stamp.resolution);
        Ok((duration, plus(drift, near)))
    }
}
