//! Start and end of a feed.

use std::sync::atomic;
use std::time::Duration;

use super::FeedSource;
use crate::feed_counts::add;
use crate::frame::SenderDescription;
use crate::listener::decoder::AdmittedFrame;
use crate::receive::Packet;

/// A hundred years.
const MAX_OUTER_GAP_SECONDS: f64 = 3.2e9;

impl FeedSource {
    pub(super) fn describe(
        &mut self,
        session: u32,
        description: SenderDescription,
        packet: Packet,
    ) {
        let inner = &self.listener.0;
        let enough = inner.copies_to_trust();
        if !inner.descriptions.add(session, description, enough) {
            add(&inner.counters.malformed_frames, 1);
        }
        self.queue.recycle(packet.bytes);
    }

    fn is_gap(&self, samples: u64) -> bool {
        samples > 0
            && samples as f64 <= MAX_OUTER_GAP_SECONDS * self.listener.0.options.rate.to_f64()
    }

    pub(super) fn announce_gap_before(&mut self, first: u64, start: i64, gap: u64) {
        if first == 0 && self.session_count == 0 && self.is_gap(gap) {
            let described = &self.listener.0.descriptions;
            described.set_gaps(|gaps| gaps.before = start.saturating_sub_unsigned(gap)..start);
        }
    }

    pub(super) fn note_sender_end(&mut self, frame: &AdmittedFrame) {
        // What was never recorded is not lost.
        let end = frame.first + frame.samples;
        let unrecorded = if frame.samples == 0 {
            frame.received.gap
        } else {
            0
        };
        self.sender_end = Some(end - unrecorded);
        self.gap_at_end = end - unrecorded..end;
        let inner = &self.listener.0;
        let before = (inner.ended_session).swap(frame.session.into(), atomic::Ordering::AcqRel);
        // The end frame is repeated.
        if frame.received.truncated && before != u64::from(frame.session) {
            add(&inner.counters.truncated_feeds, 1);
        }
    }

    /// Also counts samples missing at the end.
    pub(super) fn announce_end(&mut self) {
        // What was given up in a silence is not counted yet.
        let next = self.silent_from.or(self.reorder.next_index());
        let Some(end) = self.sender_end.take() else {
            return;
        };
        let counters = &self.listener.0.counters;
        // Nothing follows, so there is no gap.
        let lost = next.map_or(0, |next| end.saturating_sub(next));
        add(&counters.lost_samples, lost);
        let gap = self.gap_at_end.clone();
        let all = gap.end.saturating_sub(next.unwrap_or(gap.start));
        if gap.is_empty() || !self.is_gap(all) {
            return;
        }
        // Its first index was reported as lost.
        let from = self.next - i64::from(self.silent_from.is_some());
        let range = from..from.saturating_add_unsigned(all);
        let described = &self.listener.0.descriptions;
        match next {
            Some(_) => described.set_gaps(|gaps| gaps.after = range),
            // A recording without samples.
            None if gap.start == 0 => described.set_gaps(|gaps| gaps.before = range),
            None => {}
        }
    }

    pub(super) fn is_over(&self, now: Duration, closed: bool) -> bool {
        let all = self
            .sender_end
            .is_some_and(|end| self.reorder.next_index().is_none_or(|next| next >= end));
        let waited = now.saturating_sub(self.last_frame);
        let gone = self.sender_end.is_some() && waited >= self.listener.0.options.reorder;
        let silent = self
            .listener
            .0
            .options
            .silence
            .is_some_and(|most| waited >= most);
        all || gone || silent || closed
    }
}
