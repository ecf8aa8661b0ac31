//! One run over a feed: packets into segments, in order, with what is lost between them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use isochrony_flow::{Break, Clock as _, OpError, Pulled, Source};
use isochrony_segment::Buffer;
use isochrony_time::RunId;

use super::session::{Frame, Parsed, Session};
use super::{Busy, arrivals};
use crate::arrivals::{Arrivals, Basis, LiveClock};
use crate::counts::add;
use crate::order::{Given, Order, Taken, Window};
use crate::receive::{Packet, Queue, Receiver};

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
    /// Session index at which the sender ended.
    end: Option<u64>,
    heard: Duration,
    ended: bool,
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
        let session = Session::after(listener.0.ended.load(std::sync::atomic::Ordering::Acquire));
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
            next: 0,
            basis: None,
            highest: 0,
            civil: None,
            filling: None,
            memory: Vec::new(),
            ready: VecDeque::new(),
            given: None,
            end: None,
            heard: Duration::ZERO,
            ended: false,
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
        self.heard = now;
        let inner = self.listener.0.clone();
        match self.session.parse(packet, &inner.options, &inner.counters) {
            Parsed::Dropped(packet) => self.queue.recycle(packet.bytes),
            Parsed::Frame {
                first,
                samples,
                frame,
                anew,
                last,
            } => {
                if anew {
                    self.begin_anew(now)?;
                }
                if last {
                    // What was never recorded before the end is not lost.
                    let unrecorded = if samples == 0 { frame.gap } else { 0 };
                    self.end = Some(first + samples - unrecorded);
                    if let Some(id) = self.session.id() {
                        let ended = &inner.ended;
                        ended.store(id.into(), std::sync::atomic::Ordering::Release);
                    }
                }
                if samples == 0 {
                    self.queue.recycle(frame.packet.bytes);
                } else if let Err((why, frame)) =
                    self.order
                        .push(first - frame.gap..first + samples, samples, frame, now)
                {
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
            }
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
                let begins = self.base.is_none();
                if begins {
                    // Nothing was before the first samples, so nothing is missing there.
                    self.base = Some(self.next.wrapping_sub_unsigned(first));
                } else if gap > 0 {
                    let range = self.leave_out(gap);
                    self.stretch(Some(Break::Gap(range)));
                }
                let base = self.base.unwrap_or_default();
                let start = base.wrapping_add_unsigned(first);
                let anew = begins && self.next > 0;
                if let Some((old, new)) = self.stamp(start, &of, anew) {
                    self.flush();
                    add(&self.counters().clock_steps, 1);
                    self.stretch(Some(Break::Clock { old, new }));
                } else if begins {
                    self.stretch(None);
                }
                self.next = base.wrapping_add_unsigned(range.end);
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
            let basis = match frame.time {
                Some(_) => Basis::Sender,
                None => Basis::Arrival,
            };
            self.times.change_basis(basis);
            basis
        });
        let set = frame.step || anew;
        if basis == Basis::Sender {
            return self.times.take(start, frame.time?, set);
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

    /// Whether nothing more is to be expected.
    fn is_over(&self, now: Duration, closed: bool) -> bool {
        let all = self
            .end
            .is_some_and(|end| self.order.next().is_none_or(|next| next >= end));
        let waited = now.saturating_sub(self.heard);
        let gone = self.end.is_some() && waited >= self.listener.0.options.reorder;
        let silent = self
            .listener
            .0
            .options
            .silence
            .is_some_and(|most| waited >= most);
        all || gone || silent || closed
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
                    if let Some(given) = self.order.pop(now, self.ended) {
                        self.give(given)?;
                        continue;
                    }
                    if !self.ended && self.is_over(now, closed) {
                        self.ended = true;
                        continue;
                    }
                    if let Some(lost) = self.end.take_if(|_| self.ended).zip(self.order.next()) {
                        // There is no gap where nothing follows.
                        add(&self.counters().lost_samples, lost.0.saturating_sub(lost.1));
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
    }
}
