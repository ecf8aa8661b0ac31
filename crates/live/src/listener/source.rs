//! One run over a feed: packets into segments, in order, with what is lost between them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, atomic};
use std::time::{Duration, Instant};

use isochrony_flow::{Break, Clock as _, OpError, Pulled, Source};
use isochrony_segment::Buffer;
use isochrony_time::RunId;

use super::session::{Frame, Parsed, Samples, Session};
use super::{Busy, arrivals};
use crate::arrivals::{Arrivals, Basis, LiveClock};
use crate::counts::add;
use crate::order::{Given, Order, Taken, Window};
use crate::receive::{Packet, Queue, Receiver};

mod ends;
mod segments;

use segments::Filling;

/// The receiver's clock was set if it moved by so much against one that never is, in ns.
const SET: i64 = 10_000_000;
/// Most samples that wait to be put in order, in seconds of them beyond the stated wait.
const SLACK: f64 = 1.0;
/// Packets that are looked at in one go.
const PACKETS: u32 = 4096;

pub(super) struct Live {
    listener: Busy,
    queue: Arc<Queue>,
    /// Dropped before the listener is free again.
    receiver: Option<Receiver>,
    begun: Instant,
    segment: u64,
    session: Session,
    order: Order<Frame>,
    /// The furthest index of the session that came.
    highest: u64,
    /// Feed index of the session's index 0; None before its first sample.
    base: Option<i64>,
    /// Sessions before this one.
    sessions: usize,
    /// Feed index that follows.
    next: i64,
    times: Arrivals,
    basis: Option<Basis>,
    /// Civil time less the clock that is never set, ns.
    civil: Option<i64>,
    filling: Option<Filling>,
    memory: Vec<Buffer>,
    ready: VecDeque<Pulled>,
    /// When the item that was given last arrived.
    given: Option<Duration>,
    /// Session index at which the sender ended, and the gap that it says is there.
    end: Option<u64>,
    gap_at_end: Range<u64>,
    heard: Duration,
    /// When something came that belongs to the feed.
    valid: Duration,
    ended: bool,
    /// What packets were found to be.
    parsed: Vec<Parsed>,
}

impl Live {
    pub(super) fn new(
        listener: Busy,
        queue: Arc<Queue>,
        receiver: Receiver,
        segment: u64,
        begun: Instant,
    ) -> Self {
        let options = &listener.0.options;
        let ended = listener.0.ended.load(atomic::Ordering::Acquire);
        let shared = listener.0.axis.is_shared();
        let session = Session::new(&listener.0.feed, options, shared, ended);
        Self {
            order: Order::new(window(options)),
            times: arrivals(options, Basis::Arrival),
            listener,
            queue,
            receiver: Some(receiver),
            begun,
            segment: segment.max(1),
            session,
            base: None,
            sessions: 0,
            next: 0,
            basis: None,
            highest: 0,
            civil: None,
            filling: None,
            memory: Vec::new(),
            ready: VecDeque::new(),
            given: None,
            end: None,
            gap_at_end: 0..0,
            heard: Duration::ZERO,
            valid: Duration::ZERO,
            ended: false,
            parsed: Vec::new(),
        }
    }

    pub(super) fn clock(&self) -> Arc<LiveClock> {
        self.times.clock().clone()
    }

    fn counters(&self) -> &crate::counts::Counters {
        &self.listener.0.counters
    }

    /// Puts a packet where it belongs.
    fn take(&mut self, packet: Packet) -> Result<(), OpError> {
        let now = packet.when.came;
        self.heard = self.heard.max(now);
        let inner = self.listener.0.clone();
        let parsed = &mut self.parsed;
        (self.session).take(packet, &inner.options, &inner.counters, parsed);
        self.place_all()
    }

    /// Decides what time alone decides; at `end` nothing follows.
    fn look(&mut self, now: Duration, end: bool) -> Result<(), OpError> {
        let inner = self.listener.0.clone();
        (self.session).look(now, end, &inner.counters, &mut self.parsed);
        self.place_all()
    }

    /// Puts what was understood where it belongs.
    fn place_all(&mut self) -> Result<(), OpError> {
        let mut parsed = std::mem::take(&mut self.parsed);
        for one in parsed.drain(..) {
            match one {
                Parsed::Dropped(packet) => self.queue.recycle(packet.bytes),
                Parsed::Description(session, said, packet) => self.describe(session, *said, packet),
                Parsed::Samples(samples) => self.place(samples)?,
            }
        }
        self.parsed = parsed;
        Ok(())
    }

    fn place(&mut self, one: Samples) -> Result<(), OpError> {
        let now = self.heard;
        self.valid = now;
        let inner = self.listener.0.clone();
        if one.anew {
            self.begin_anew(now)?;
        }
        inner.descriptions.hear(one.session);
        if one.last {
            self.take_end(&one);
        }
        let Samples {
            first,
            samples,
            frame,
            ..
        } = one;
        if samples == 0 {
            self.queue.recycle(frame.packet.bytes);
        } else if let Err((why, frame)) = self.order.push(
            first - frame.gap.min(first)..first + samples,
            samples,
            frame,
            now,
        ) {
            let counter = match why {
                Taken::Late => &inner.counters.late_frames,
                _ => &inner.counters.duplicate_frames,
            };
            add(counter, 1);
            self.queue.recycle(frame.packet.bytes);
        } else if first < self.highest {
            add(&inner.counters.reordered_frames, 1);
        } else {
            self.highest = first;
        }
        Ok(())
    }

    /// Another sender, or the same that was started again: what waits goes out, and its samples follow in a run of
    /// their own.
    fn begin_anew(&mut self, now: Duration) -> Result<(), OpError> {
        while let Some(given) = self.order.pop(now, true) {
            self.give(given)?;
        }
        self.flush();
        self.order = Order::new(window(&self.listener.0.options));
        (self.base, self.end, self.highest) = (None, None, 0);
        self.gap_at_end = 0..0;
        self.sessions += 1;
        // The next one's frames may be stamped where this one's were not, or the other way round.
        self.basis = None;
        Ok(())
    }

    /// Takes what goes out next into segments.
    fn give(&mut self, given: Given<Frame>) -> Result<(), OpError> {
        match given {
            Given::Lost(lost) => {
                let samples = lost.end - lost.start;
                add(&self.counters().lost_samples, samples);
                let range = self.leave_out(samples);
                self.stretch(Some(Break::Dropped(range)));
            }
            Given::Frame { range, skip, of } => {
                // The part of the gap before it, and of its samples, that is not behind us.
                let gap = of.gap.saturating_sub(skip);
                let skip = skip.saturating_sub(of.gap);
                let first = range.start + of.gap;
                let axis = self.listener.0.axis.clone();
                let begins = self.base.is_none();
                let base = match self.base {
                    Some(base) => base,
                    // Nothing was before the first samples, so nothing is missing there.
                    None => axis.base(self.sessions, first, self.next),
                };
                self.base = Some(base);
                let start = base.wrapping_add_unsigned(first);
                if begins {
                    self.next = self.next.max(start);
                    self.tell_gap_before(range.start, start, of.gap);
                } else if gap > 0 {
                    let range = self.leave_out(gap);
                    self.stretch(Some(Break::Gap(range)));
                }
                // On a shared axis another feed may have said that this session begins earlier.
                let skip = skip.max(self.next.saturating_sub(start).max(0).unsigned_abs());
                if skip >= range.end - first {
                    add(&self.counters().late_frames, 1);
                    self.queue.recycle(of.packet.bytes);
                    return Ok(());
                }
                let anew = begins && self.sessions > 0;
                if let Some((old, new)) = self.stamp(start, &of, anew) {
                    self.flush();
                    add(&self.counters().clock_steps, 1);
                    self.stretch(Some(Break::Clock { old, new }));
                } else if begins {
                    self.stretch(None);
                }
                self.next = base.wrapping_add_unsigned(range.end);
                axis.reached(self.next);
                self.fill(start.wrapping_add_unsigned(skip), &of, skip)?;
                self.queue.recycle(of.packet.bytes);
            }
        }
        Ok(())
    }

    /// Lets the segment go and leaves indices out behind it.
    fn leave_out(&mut self, samples: u64) -> Range<i64> {
        self.flush();
        let from = self.next;
        self.next = from.saturating_add_unsigned(samples);
        from..self.next
    }

    /// What follows begins a stretch.
    fn stretch(&mut self, why: Option<Break>) {
        let anchor = self.next;
        self.ready.push_back(Pulled::Stretch { anchor, why });
    }

    /// The time of a frame's first sample; the runs if the clock that says so was set.
    fn stamp(&mut self, start: i64, frame: &Frame, anew: bool) -> Option<(RunId, RunId)> {
        // A sender's first frame decides whose stamps count.
        let basis = *self.basis.get_or_insert_with(|| {
            let basis = match (frame.time, frame.exact) {
                (Some(_), Some(_)) => Basis::Recording,
                (Some(_), None) => Basis::Sender,
                (None, _) if self.listener.0.descriptions.knows_all_times() => Basis::Recording,
                (None, _) => Basis::Arrival,
            };
            self.times.change_basis(basis);
            basis
        });
        let set = frame.step || anew;
        if basis != Basis::Arrival {
            let drift = frame.exact.unwrap_or_default();
            let size = self.listener.0.options.dtype.size();
            let samples = frame.packet.bytes.len().saturating_sub(frame.at) / size;
            return match frame.time {
                Some(time) => (self.times).take_stamp(start, time, (drift, samples as u64), set),
                None if basis == Basis::Recording => self.times.take_untimed(start, set),
                None => None,
            };
        }
        let packet = &frame.packet;
        let civil = packet.when.civil - i64::try_from(packet.when.came.as_nanos()).unwrap_or(0);
        let moved = self
            .civil
            .is_some_and(|before| (civil - before).abs() > SET);
        self.civil = Some(civil);
        let taken = packet.when.taken.unwrap_or(packet.when.civil);
        self.times.take(start, taken, set || moved)
    }
}

fn window(options: &super::Options) -> Window {
    let seconds = options.reorder.as_secs_f64() + SLACK;
    Window {
        wait: options.reorder,
        samples: ((seconds * options.rate.to_f64()) as u64).saturating_add(1),
    }
}

impl Source for Live {
    fn pull(&mut self) -> Result<Pulled, OpError> {
        if let Some(ready) = self.ready.pop_front() {
            return Ok(ready);
        }
        if let Some(came) = self.given.take() {
            // The plan is depth first: asked for more, it has done with what it was given.
            self.listener
                .0
                .latency
                .add(self.begun.elapsed().saturating_sub(came));
        }
        let mut packets = 0;
        while self.ready.is_empty() {
            // While packets wait, time is theirs: what lies behind them in the queue is not late.
            if let Some(given) = self.order.pop(self.heard, self.ended) {
                self.give(given)?;
                continue;
            }
            let now = self.begun.elapsed();
            match self.queue.take() {
                Ok(packet) => {
                    packets += 1;
                    self.take(packet)?;
                    if packets == PACKETS && self.ready.is_empty() {
                        // Whoever floods us with what is no frame must not keep the run from looking around.
                        return Ok(Pulled::Idle);
                    }
                }
                Err(closed) => {
                    self.heard = self.heard.max(now);
                    if !self.ended {
                        self.look(now, closed)?;
                    }
                    if let Some(given) = self.order.pop(now, self.ended) {
                        self.give(given)?;
                        continue;
                    }
                    if !self.ended && self.is_over(now, closed) {
                        self.look(now, true)?;
                        self.ended = true;
                        continue;
                    }
                    if self.ended {
                        self.tell_end();
                    }
                    self.flush();
                    if self.ready.is_empty() {
                        return Ok(if self.ended {
                            Pulled::End
                        } else {
                            Pulled::Idle
                        });
                    }
                }
            }
        }
        Ok(self.ready.pop_front().unwrap_or(Pulled::Idle))
    }

    fn time_of(&self, index: i64) -> Option<String> {
        let time = self.times.clock().stamp(index)?;
        Some(isochrony_time::civil::format(time.civil))
    }

    fn wakes(&mut self, thread: &std::thread::Thread) {
        self.queue.wakes(thread.clone());
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.receiver.take();
        // What nothing confirmed is counted, also where a run is stopped.
        let inner = &self.listener.0;
        let now = self.begun.elapsed();
        (self.session).look(now, true, &inner.counters, &mut self.parsed);
    }
}
