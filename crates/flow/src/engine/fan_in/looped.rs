//! A loop's items, which go on as others come round.

use super::parts::{split, units};
use super::{FanIn, Matched};
use crate::{Item, OpError, OpErrorKind, Port};

/// The input of what is fed back; it has no edge.
pub(crate) const BACK: Port = 1;

/// How far a loop is.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Index up to which all was fed back.
    fed: i64,
    /// Index up to which all went on.
    upto: Option<i64>,
}

impl FanIn {
    /// What was fed back goes to the operator at once; as much of what came in as has values that were fed back, or
    /// initial ones.
    pub(super) fn pop_looped(&mut self, delay: u64) -> Result<Option<Matched>, OpError> {
        while let Some(back) = self.take_front(usize::from(BACK)) {
            let Some((start, next)) = back.extent() else {
                continue;
            };
            // Older ones belong to a stretch that is over.
            if start > self.round.fed {
                let expected = self.round.fed;
                return Err(OpErrorKind::LoopSkipped {
                    expected,
                    got: start,
                }
                .into());
            }
            if start == self.round.fed {
                self.round.fed = next;
                return Ok(Some(Matched::from_iter([(BACK, back)])));
            }
        }
        let Some(front) = self.queues[0].items.front() else {
            return Ok(None);
        };
        let Some((start, next)) = front.extent() else {
            return Ok(self
                .take_front(0)
                .map(|item| Matched::from_iter([(0, item)])));
        };
        let begins = self.stretches.begins_by(start);
        if begins || self.round.upto != Some(start) {
            self.round.fed = start;
        }
        // Indices from one window to the next.
        let step = start.abs_diff(next) / units(front).max(1);
        let round = start.abs_diff(self.round.fed) / step.max(1);
        let room = delay.saturating_sub(round);
        if room == 0 {
            return Ok(None);
        }
        let Some(front) = self.take_front(0) else {
            return Ok(None);
        };
        let (first, rest) = split(front, room)?;
        if let Some(rest) = rest {
            self.put_back(0, rest);
        }
        self.round.upto = first.as_ref().and_then(Item::extent).map(|(_, next)| next);
        Ok(first.map(|first| Matched::from_iter([(0, first)])))
    }

    /// Indices of what waits for what is fed back.
    pub(crate) fn waits(&self) -> Option<std::ops::Range<i64>> {
        let first = self.queues[0].items.front()?.range()?;
        let last = self.queues[0].items.back()?.range()?;
        Some(first.start..last.end)
    }
}
