//! A run's source over a feed: packets become segments, in order, with breaks.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, atomic};
use std::task::Waker;
use std::time::{Duration, Instant};

use isochrony_flow::{Clock as _, OpError, Source, SourceEvent};

use super::decoder::{AdmittedFrame, DecoderOutput, FrameDecoder, ReceivedFrame};
use super::options::ListenOptions;
use super::shared::ScanGuard;
use crate::feed_counts::add;
use crate::lateness::SilenceClock;
use crate::receive::{Packet, PacketQueue, ReceiverThread, RunClock};
use crate::reorder::{JitterWindow, PushError, ReorderBuffer};
use crate::timing::{ClockEstimator, FeedClock, StampSource};

mod boundaries;
mod emit;
mod segment_builder;
mod silence;
#[cfg(test)]
mod tests;

use segment_builder::SegmentBuilder;

/// Besides the `reorder` window.
const EXTRA_BUFFER_SECONDS: f64 = 1.0;
/// Limits how long malformed packets delay an interrupt.
const MAX_PACKETS_PER_PULL: u32 = 4096;

pub(super) struct FeedSource {
    listener: ScanGuard,
    queue: Arc<PacketQueue>,
    /// Dropped before the listener is released.
    receiver: Option<ReceiverThread>,
    clock: RunClock,
    decoder: FrameDecoder,
    reorder: ReorderBuffer<ReceivedFrame>,
    highest: u64,
    /// Feed index of the session's index 0.
    session_base: Option<i64>,
    session_count: usize,
    next: i64,
    silence: SilenceClock,
    /// First index given up in a silence, and time of the last mark.
    silent_from: Option<u64>,
    last_mark: Duration,
    /// Nothing before this index follows.
    promised: i64,
    /// Samples of a new run are late up to this index.
    late_until: i64,
    estimator: ClockEstimator,
    stamp_source: Option<StampSource>,
    /// Civil minus monotonic time.
    clock_offset_ns: Option<i64>,
    segments: SegmentBuilder,
    output: VecDeque<SourceEvent>,
    /// Arrival of the oldest segment emitted since the last pull.
    emitted_arrival: Option<Duration>,
    /// Session index at the sender's end, and its gap.
    sender_end: Option<u64>,
    gap_at_end: Range<u64>,
    now: Duration,
    last_frame: Duration,
    ended: bool,
    decoded: Vec<DecoderOutput>,
}

impl FeedSource {
    pub(super) fn new(
        listener: ScanGuard,
        queue: Arc<PacketQueue>,
        receiver: Option<ReceiverThread>,
        segment: u64,
        clock: RunClock,
    ) -> Self {
        let options = &listener.0.options;
        let ended = listener.0.ended_session.load(atomic::Ordering::Acquire);
        let shared = listener.0.axis.is_shared();
        let decoder = FrameDecoder::new(&listener.0.feed, options, shared, ended);
        let segments = SegmentBuilder::new(options, listener.0.stream, segment.max(1));
        let estimator = clock_estimator(options, StampSource::Arrival);
        let (next, estimator, session_count) = match options.resume {
            Some((next, run)) => (next, estimator.resumed(run), 1),
            None => (0, estimator, 0),
        };
        listener.0.position.set(next, estimator.run());
        listener.0.late.begin_scan();
        Self {
            reorder: ReorderBuffer::new(jitter_window(options)),
            silence: SilenceClock::new(options.rate, options.lateness),
            silent_from: None,
            last_mark: Duration::ZERO,
            promised: i64::MIN,
            late_until: i64::MIN,
            estimator,
            listener,
            queue,
            receiver,
            clock,
            segments,
            decoder,
            session_base: None,
            session_count,
            next,
            stamp_source: None,
            highest: 0,
            clock_offset_ns: None,
            output: VecDeque::new(),
            emitted_arrival: None,
            sender_end: None,
            gap_at_end: 0..0,
            now: Duration::ZERO,
            last_frame: Duration::ZERO,
            ended: false,
            decoded: Vec::new(),
        }
    }

    pub(super) fn clock(&self) -> Arc<FeedClock> {
        self.estimator.clock().clone()
    }

    fn counters(&self) -> &crate::feed_counts::FeedCounters {
        &self.listener.0.counters
    }

    fn decode(&mut self, packet: Packet) -> Result<(), OpError> {
        let now = packet.arrival.since_start;
        self.now = self.now.max(now);
        let inner = self.listener.0.clone();
        let decoded = &mut self.decoded;
        self.decoder
            .push(packet, &inner.options, &inner.counters, decoded);
        self.place_decoded()
    }

    fn tick(&mut self, now: Duration, end: bool) -> Result<(), OpError> {
        let inner = self.listener.0.clone();
        self.decoder
            .tick(now, end, &inner.counters, &mut self.decoded);
        self.place_decoded()
    }

    fn place_decoded(&mut self) -> Result<(), OpError> {
        let mut decoded = std::mem::take(&mut self.decoded);
        for one in decoded.drain(..) {
            match one {
                DecoderOutput::Dropped(packet) => self.queue.recycle(packet.bytes),
                DecoderOutput::Description(session, description, packet) => {
                    self.describe(session, *description, packet)
                }
                DecoderOutput::Frame(frame) => self.place_frame(frame)?,
            }
        }
        self.decoded = decoded;
        Ok(())
    }

    fn place_frame(&mut self, frame: AdmittedFrame) -> Result<(), OpError> {
        let now = self.now;
        self.last_frame = now;
        let inner = self.listener.0.clone();
        if frame.starts_session {
            self.start_session(now)?;
        }
        inner.descriptions.set_current_session(frame.session);
        if frame.is_last {
            self.note_sender_end(&frame);
        }
        let AdmittedFrame {
            first,
            samples,
            received,
            ..
        } = frame;
        let range = first - received.gap.min(first)..first + samples;
        if samples == 0 {
            self.queue.recycle(received.packet.bytes);
            return Ok(());
        }
        self.silence.note(first, first + samples, now);
        let late = self.late_parts(first..first + samples, &received);
        match self.reorder.push(range, samples, received, now) {
            Err((PushError::Duplicate, received)) => {
                add(&inner.counters.duplicate_frames, 1);
                self.queue.recycle(received.packet.bytes);
            }
            Err((PushError::Late, received)) => {
                add(&inner.counters.late_frames, 1);
                self.keep_late(late);
                self.queue.recycle(received.packet.bytes);
            }
            Ok(()) => {
                self.keep_late(late);
                self.end_silence()?;
                match first < self.highest {
                    true => add(&inner.counters.reordered_frames, 1),
                    false => self.highest = first,
                }
            }
        }
        Ok(())
    }

    /// Releases all buffered frames and starts a run.
    fn start_session(&mut self, now: Duration) -> Result<(), OpError> {
        while let Some(output) = self.reorder.pop(now, true) {
            self.emit(output)?;
        }
        self.end_silence()?;
        self.silence.restart();
        self.flush();
        self.reorder = ReorderBuffer::new(jitter_window(&self.listener.0.options));
        (self.session_base, self.sender_end, self.highest) = (None, None, 0);
        self.gap_at_end = 0..0;
        self.session_count += 1;
        // Sessions may be stamped differently.
        self.stamp_source = None;
        Ok(())
    }
}

fn jitter_window(options: &ListenOptions) -> JitterWindow {
    let seconds = options.reorder.as_secs_f64() + EXTRA_BUFFER_SECONDS;
    JitterWindow {
        wait: options.reorder,
        samples: ((seconds * options.rate.to_f64()) as u64).saturating_add(1),
    }
}

impl Source for FeedSource {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        let event = self.next_event();
        let late = &self.listener.0.late;
        if late.is_wanted() && self.session_base.is_some() {
            late.advance_to(self.position());
        }
        event
    }

    fn arrival(&self, asked: Instant) -> Option<Instant> {
        let Some(arrived) = self.emitted_arrival else {
            return Some(asked);
        };
        let since = self.clock.since_start().saturating_sub(arrived);
        Instant::now().checked_sub(since)
    }

    fn time_of(&self, index: i64) -> Option<String> {
        let time = self.estimator.clock().stamp(index)?;
        Some(isochrony_time::civil::format(time.civil))
    }

    fn set_waker(&mut self, waker: &Waker) {
        self.queue.set_waker(waker.clone());
    }

    fn close(&mut self) {
        self.listener.0.late.end_scan();
    }
}

impl FeedSource {
    fn next_event(&mut self) -> Result<SourceEvent, OpError> {
        if let Some(ready) = self.output.pop_front() {
            return Ok(ready);
        }
        if let Some(came) = self.emitted_arrival.take() {
            // Depth first: at a pull, earlier items have been processed.
            self.listener
                .0
                .latency
                .add(self.clock.since_start().saturating_sub(came));
        }
        let mut packets = 0;
        while self.output.is_empty() {
            if let Some(output) = self.reorder.pop(self.now, self.ended) {
                self.emit(output)?;
                continue;
            }
            if self.ended {
                self.announce_end();
                self.flush();
                return Ok(self.output.pop_front().unwrap_or(SourceEvent::End));
            }
            let now = self.clock.since_start();
            match self.queue.pop(now) {
                Ok(packet) => {
                    packets += 1;
                    // Queued packets count by their arrival.
                    self.advance_to(packet.arrival.since_start)?;
                    if self.is_over(self.now, false) {
                        self.queue.recycle(packet.bytes);
                        self.end()?;
                        continue;
                    }
                    self.decode(packet)?;
                    if packets == MAX_PACKETS_PER_PULL && self.output.is_empty() {
                        return Ok(SourceEvent::Idle);
                    }
                }
                Err(closed) => {
                    self.advance_to(now)?;
                    if !self.output.is_empty() {
                        break;
                    }
                    if self.is_over(self.now, closed) {
                        self.end()?;
                        continue;
                    }
                    self.flush();
                    if self.output.is_empty() {
                        return Ok(SourceEvent::Idle);
                    }
                }
            }
        }
        Ok(self.output.pop_front().unwrap_or(SourceEvent::Idle))
    }
}

impl Drop for FeedSource {
    fn drop(&mut self) {
        self.receiver.take();
        self.listener.0.late.end_scan();
        // Also counts held frames if stopped.
        let inner = &self.listener.0;
        let now = self.clock.since_start();
        self.decoder
            .tick(now, true, &inner.counters, &mut self.decoded);
    }
}

fn clock_estimator(options: &ListenOptions, source: StampSource) -> ClockEstimator {
    ClockEstimator::new(source, options.rate, options.step.as_secs_f64() * 1e9)
}
