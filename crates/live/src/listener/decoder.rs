//! Decodes packets into frames with sample indices, and screens them.

use std::time::Duration;

use isochrony_segment::ByteOrder;
use isochrony_time::Fixed;

use super::options::ListenOptions;
use crate::address::FeedFraming;
use crate::feed_counts::{FeedCounters, add};
use crate::frame::{FrameHeader, SenderDescription};
use crate::receive::{FeedInput, Packet};
use crate::screen::{FrameClaim, FrameScreen, RejectReason, ScreenLimits, ScreenVerdict};

/// Room for late datagrams before the first.
const COUNTER_ORIGIN: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct ReceivedFrame {
    pub(super) packet: Packet,
    pub(super) samples_at: usize,
    pub(super) time: Option<Fixed>,
    /// Actual minus nominal duration.
    pub(super) exact: Option<Fixed>,
    pub(super) step: bool,
    pub(super) gap: u64,
    pub(super) truncated: bool,
}

impl ReceivedFrame {
    fn new(packet: Packet, samples_at: usize) -> Self {
        Self {
            packet,
            samples_at,
            time: None,
            exact: None,
            step: false,
            gap: 0,
            truncated: false,
        }
    }
}

#[derive(Debug)]
pub(super) struct AdmittedFrame {
    pub(super) first: u64,
    pub(super) samples: u64,
    pub(super) received: ReceivedFrame,
    pub(super) session: u32,
    pub(super) starts_session: bool,
    pub(super) is_last: bool,
}

#[derive(Debug)]
pub(super) enum DecoderOutput {
    Frame(AdmittedFrame),
    Description(u32, Box<SenderDescription>, Packet),
    Dropped(Packet),
}

#[derive(Debug)]
pub(super) struct FrameDecoder {
    /// None: drivers and bare samples are trusted.
    screen: Option<FrameScreen<ReceivedFrame>>,
    verdicts: Vec<ScreenVerdict<ReceivedFrame>>,
    /// A session of an earlier run that may still arrive; above 32 bits: none.
    ended: u64,
    id: Option<u32>,
    count: Option<u64>,
}

impl FrameDecoder {
    /// `ended`: the session to ignore. `shared`: feeds of one clock share indices.
    pub(super) fn new(feed: &FeedInput, options: &ListenOptions, shared: bool, ended: u64) -> Self {
        let (number_bits, counter_origin) = match options.framing {
            FeedFraming::Counter { bytes, .. } => (8 * u32::from(bytes), Some(COUNTER_ORIGIN)),
            _ => (64, None),
        };
        let limits = ScreenLimits {
            rate: options.rate,
            step_ns: options.step.as_secs_f64() * 1e9,
            reorder: options.reorder,
            is_connection: !matches!(feed, FeedInput::Udp(_)),
            number_bits,
            max_pending_bytes: options.buffer / 4,
            counter_origin,
            // Feeds of one clock keep their senders' counts.
            absolute_counts: shared,
        };
        let is_trusted =
            matches!(feed, FeedInput::Driven(_)) || options.framing == FeedFraming::Raw;
        Self {
            screen: (!is_trusted).then(|| FrameScreen::new(limits)),
            verdicts: Vec::new(),
            ended,
            id: None,
            count: None,
        }
    }

    pub(super) fn push(
        &mut self,
        packet: Packet,
        options: &ListenOptions,
        counters: &FeedCounters,
        out: &mut Vec<DecoderOutput>,
    ) {
        let now = packet.arrival.since_start;
        let bytes = packet.bytes.len();
        let claimed = match options.framing {
            FeedFraming::Isochrony => match decode_frame(packet, options) {
                Ok(FrameContent::Samples(claim, frame)) => Ok((claim, *frame)),
                Ok(FrameContent::Description(session, description, packet)) => {
                    out.push(DecoderOutput::Description(session, description, packet));
                    return;
                }
                Err(packet) => Err(packet),
            },
            FeedFraming::Counter { bytes, order } => {
                decode_datagram(packet, options, bytes.into(), order)
            }
            FeedFraming::Raw => {
                out.push(DecoderOutput::Frame(self.raw(packet, options.dtype.size())));
                return;
            }
        };
        let (claim, frame) = match claimed {
            Ok(claimed) => claimed,
            Err(packet) => {
                add(&counters.malformed_frames, 1);
                out.push(DecoderOutput::Dropped(packet));
                return;
            }
        };
        if options.framing == FeedFraming::Isochrony && u64::from(claim.session) == self.ended {
            add(&counters.foreign, 1);
            out.push(DecoderOutput::Dropped(frame.packet));
            return;
        }
        let Some(screen) = &mut self.screen else {
            let before = self.id.replace(claim.session);
            let starts_session = before.is_some_and(|before| before != claim.session);
            out.push(admitted(claim, claim.number, starts_session, frame));
            return;
        };
        screen.push(claim, frame, bytes, now, &mut self.verdicts);
        self.emit_verdicts(counters, out);
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.screen.as_ref()?.deadline()
    }

    /// As [`FrameScreen::held_since`].
    pub(super) fn held_since(&self, since: Duration) -> Option<Duration> {
        self.screen.as_ref()?.held_since(since)
    }

    /// Decides by time alone; at `end` nothing follows.
    pub(super) fn tick(
        &mut self,
        now: Duration,
        end: bool,
        counters: &FeedCounters,
        out: &mut Vec<DecoderOutput>,
    ) {
        let Some(screen) = &mut self.screen else {
            return;
        };
        match end {
            true => screen.finish(now, &mut self.verdicts),
            false => screen.tick(now, &mut self.verdicts),
        }
        self.emit_verdicts(counters, out);
    }

    fn emit_verdicts(&mut self, counters: &FeedCounters, out: &mut Vec<DecoderOutput>) {
        out.extend(self.verdicts.drain(..).map(|verdict| match verdict {
            ScreenVerdict::Admitted {
                claim,
                count,
                starts_session,
                frame,
            } => admitted(claim, count, starts_session, frame),
            ScreenVerdict::Rejected(why, frame) => {
                let counter = match why {
                    RejectReason::Malformed => &counters.malformed_frames,
                    RejectReason::Late => &counters.late_frames,
                    RejectReason::Foreign => &counters.foreign,
                };
                add(counter, 1);
                DecoderOutput::Dropped(frame.packet)
            }
        }));
    }

    /// Bare samples follow the last ones and what was dropped.
    fn raw(&mut self, packet: Packet, size: usize) -> AdmittedFrame {
        let starts_session = packet.is_first && self.count.is_some();
        let samples = (packet.bytes.len() / size) as u64;
        let first = self.count.unwrap_or(0) + packet.dropped / size as u64;
        self.count = Some(first + samples);
        AdmittedFrame {
            first,
            samples,
            received: ReceivedFrame::new(packet, 0),
            session: 0,
            starts_session,
            is_last: false,
        }
    }
}

fn admitted(
    claim: FrameClaim,
    count: u64,
    starts_session: bool,
    received: ReceivedFrame,
) -> DecoderOutput {
    DecoderOutput::Frame(AdmittedFrame {
        first: count * claim.samples_per_number,
        samples: claim.length * claim.samples_per_number,
        received,
        session: claim.session,
        starts_session,
        is_last: claim.end,
    })
}

enum FrameContent {
    Samples(FrameClaim, Box<ReceivedFrame>),
    Description(u32, Box<SenderDescription>, Packet),
}

/// Returns the packet if it is not a wire frame.
fn decode_frame(packet: Packet, options: &ListenOptions) -> Result<FrameContent, Packet> {
    let (header, at) = match FrameHeader::parse(&packet.bytes) {
        Ok((header, samples)) if header.dtype == options.dtype => {
            (header, packet.bytes.len() - samples.len())
        }
        Ok((header, samples))
            if SenderDescription::is_carried_by(&header, samples, options.dtype) =>
        {
            return match SenderDescription::parse(samples) {
                Ok(description) if description.rate == options.rate => Ok(
                    FrameContent::Description(header.session, Box::new(description), packet),
                ),
                _ => Err(packet),
            };
        }
        _ => return Err(packet),
    };
    let claim = FrameClaim {
        session: header.session,
        number: header.first,
        length: header.samples.into(),
        samples_per_number: 1,
        gap: header.gap,
        time: header.time,
        step: header.step,
        end: header.end,
    };
    let drift = Fixed::from_bits(header.drift.into());
    let frame = ReceivedFrame {
        time: header.time,
        exact: header.exact.then_some(drift),
        step: header.step,
        gap: header.gap,
        truncated: header.truncated,
        ..ReceivedFrame::new(packet, at)
    };
    Ok(FrameContent::Samples(claim, Box::new(frame)))
}

fn decode_datagram(
    packet: Packet,
    options: &ListenOptions,
    width: usize,
    order: ByteOrder,
) -> Result<(FrameClaim, ReceivedFrame), Packet> {
    let size = options.dtype.size();
    let each = packet.bytes.len().saturating_sub(width) / size;
    if each == 0 || width + each * size != packet.bytes.len() {
        return Err(packet);
    }
    let claim = FrameClaim {
        session: 0,
        number: parse_counter(&packet.bytes[..width], order),
        length: 1,
        samples_per_number: each as u64,
        gap: 0,
        time: None,
        step: false,
        end: false,
    };
    Ok((claim, ReceivedFrame::new(packet, width)))
}

fn parse_counter(bytes: &[u8], order: ByteOrder) -> u64 {
    let join = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    match order {
        ByteOrder::Big => bytes.iter().fold(0, join),
        ByteOrder::Little => bytes.iter().rev().fold(0, join),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_in_their_order() {
        assert_eq!(parse_counter(&[1, 2], ByteOrder::Little), 0x201);
        assert_eq!(parse_counter(&[1, 2], ByteOrder::Big), 0x102);
    }
}
