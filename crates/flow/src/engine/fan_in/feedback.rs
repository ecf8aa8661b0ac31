//! Matching at the start of a loop.

use super::item_split::{split_item, unit_count};
use super::{FEEDBACK_PORT, FanIn, Matched};
use crate::{Item, OpError, OpErrorKind};

impl FanIn {
    /// Passes feedback on at once. New items enter with their feedback or initial value.
    pub(super) fn pop_loop(&mut self, delay: u64, matched: &mut Matched) -> Result<bool, OpError> {
        while let Some(back) = self.take_front(usize::from(FEEDBACK_PORT)) {
            let Some((start, next)) = back.extent() else {
                continue;
            };
            // Earlier ones are of a contiguous range that is over.
            if start > self.loop_progress.fed_back {
                let expected = self.loop_progress.fed_back;
                return Err(OpErrorKind::LoopSkipped {
                    expected,
                    got: start,
                }
                .into());
            }
            if start == self.loop_progress.fed_back {
                self.loop_progress.fed_back = next;
                matched.push((FEEDBACK_PORT, back));
                return Ok(true);
            }
        }
        let Some(front) = self.queues[0].items.front() else {
            return Ok(false);
        };
        let Some((start, next)) = front.extent() else {
            matched.extend(self.take_front(0).map(|item| (0, item)));
            return Ok(true);
        };
        let begins = self.range_starts.has_start_up_to(start);
        if begins || self.loop_progress.entered != Some(start) {
            self.loop_progress.fed_back = start;
        }
        let step = start.abs_diff(next) / unit_count(front).max(1);
        let round = start.abs_diff(self.loop_progress.fed_back) / step.max(1);
        let room = delay.saturating_sub(round);
        if room == 0 {
            return Ok(false);
        }
        let Some(front) = self.take_front(0) else {
            return Ok(false);
        };
        let (first, rest) = split_item(front, room)?;
        if let Some(rest) = rest {
            self.put_back(0, rest);
        }
        self.loop_progress.entered = first.as_ref().and_then(Item::extent).map(|(_, next)| next);
        let is_any = first.is_some();
        matched.extend(first.map(|first| (0, first)));
        Ok(is_any)
    }

    pub(crate) fn waiting_range(&self) -> Option<std::ops::Range<i64>> {
        let first = self.queues[0].items.front()?.range()?;
        let last = self.queues[0].items.back()?.range()?;
        Some(first.start..last.end)
    }
}
