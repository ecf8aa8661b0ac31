//! From packets to frames with indices of the feed: whatever the framing, one count of samples from 0 on.

use std::time::Duration;

use isochrony_segment::ByteOrder;
use isochrony_time::Fixed;

use super::Options;
use crate::counts::{Counters, add};
use crate::frame::{Header, SenderDescription};
use crate::receive::{Feed, Framing, Packet};
use crate::screen::{Claim, Limits, Refusal, Screen, Verdict};

/// Datagrams before the first that came, which may be late.
const BEFORE: u64 = 1 << 20;

/// Samples that came at once, and where they belong.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) packet: Packet,
    /// Where the samples begin in the packet.
    pub(super) at: usize,
    /// The sender's stamp of the first sample, ns since 1970.
    pub(super) time: Option<Fixed>,
    /// The stamp is exact; then the time from the first sample to the last, less the nominal one.
    pub(super) exact: Option<Fixed>,
    /// The sender's clock was set before it.
    pub(super) step: bool,
    /// Samples right before it that were never recorded.
    pub(super) gap: u64,
    /// The sender stopped before all was sent.
    pub(super) early: bool,
}

impl Frame {
    fn new(packet: Packet, at: usize) -> Self {
        Self {
            packet,
            at,
            time: None,
            exact: None,
            step: false,
            gap: 0,
            early: false,
        }
    }
}

/// Samples from an index of a session on.
#[derive(Debug)]
pub(super) struct Samples {
    pub(super) first: u64,
    pub(super) samples: u64,
    pub(super) frame: Frame,
    pub(super) session: u32,
    /// The sender began to count anew before it.
    pub(super) anew: bool,
    /// Nothing follows it.
    pub(super) last: bool,
}

/// What a packet is.
#[derive(Debug)]
pub(super) enum Parsed {
    Samples(Samples),
    /// What a session says of its recording.
    Description(u32, Box<SenderDescription>, Packet),
    /// Nothing: counted.
    Dropped(Packet),
}

/// What the sender's counts were so far.
#[derive(Debug)]
pub(super) struct Session {
    /// None where frames are believed as they come: those of a driver, and samples without frames.
    screen: Option<Screen<Frame>>,
    verdicts: Vec<Verdict<Frame>>,
    /// A session that ended in an earlier run, whose last frames may come still; above 32 bits: none.
    ended: u64,
    /// Of a driver: whom we listen to.
    id: Option<u32>,
    /// Of samples without frames: how many came.
    count: Option<u64>,
}

impl Session {
    /// One that does not listen to the session with the number `ended`, if it is one. `shared`: several feeds of one
    /// clock share their indices.
    pub(super) fn new(feed: &Feed, options: &Options, shared: bool, ended: u64) -> Self {
        let (bits, origin) = match options.framing {
            Framing::Counter { bytes, .. } => (8 * u32::from(bytes), Some(BEFORE)),
            _ => (64, None),
        };
        let limits = Limits {
            rate: options.rate,
            step_ns: options.step.as_secs_f64() * 1e9,
            reorder: options.reorder,
            stream: !matches!(feed, Feed::Udp(_)),
            bits,
            bytes: options.buffer / 4,
            origin,
            // Of one clock are the senders' own counts.
            absolute: shared,
        };
        let believed = matches!(feed, Feed::Driven(_)) || options.framing == Framing::Raw;
        Self {
            screen: (!believed).then(|| Screen::new(limits)),
            verdicts: Vec::new(),
            ended,
            id: None,
            count: None,
        }
    }

    /// Takes a packet; what is decided by it goes to `out`.
    pub(super) fn take(
        &mut self,
        packet: Packet,
        options: &Options,
        counters: &Counters,
        out: &mut Vec<Parsed>,
    ) {
        let now = packet.when.came;
        let bytes = packet.bytes.len();
        let claimed = match options.framing {
            Framing::Isochrony => match of_frame(packet, options) {
                Ok(FrameContent::Samples(claim, frame)) => Ok((claim, *frame)),
                Ok(FrameContent::Description(session, description, packet)) => {
                    out.push(Parsed::Description(session, description, packet));
                    return;
                }
                Err(packet) => Err(packet),
            },
            Framing::Counter { bytes, order } => of_datagram(packet, options, bytes.into(), order),
            Framing::Raw => {
                out.push(Parsed::Samples(self.raw(packet, options.dtype.size())));
                return;
            }
        };
        let (claim, frame) = match claimed {
            Ok(claimed) => claimed,
            Err(packet) => {
                add(&counters.malformed_frames, 1);
                out.push(Parsed::Dropped(packet));
                return;
            }
        };
        if options.framing == Framing::Isochrony && u64::from(claim.session) == self.ended {
            add(&counters.foreign, 1);
            out.push(Parsed::Dropped(frame.packet));
            return;
        }
        let Some(screen) = &mut self.screen else {
            let before = self.id.replace(claim.session);
            let anew = before.is_some_and(|before| before != claim.session);
            out.push(samples(claim, claim.number, anew, frame));
            return;
        };
        screen.take(claim, frame, bytes, now, &mut self.verdicts);
        self.hand_over(counters, out);
    }

    /// What time alone decides at `now`; at `end` nothing follows.
    pub(super) fn look(
        &mut self,
        now: Duration,
        end: bool,
        counters: &Counters,
        out: &mut Vec<Parsed>,
    ) {
        let Some(screen) = &mut self.screen else {
            return;
        };
        match end {
            true => screen.settle(now, &mut self.verdicts),
            false => screen.tick(now, &mut self.verdicts),
        }
        self.hand_over(counters, out);
    }

    fn hand_over(&mut self, counters: &Counters, out: &mut Vec<Parsed>) {
        out.extend(self.verdicts.drain(..).map(|verdict| match verdict {
            Verdict::Admitted {
                claim,
                count,
                anew,
                frame,
            } => samples(claim, count, anew, frame),
            Verdict::Refused(why, frame) => {
                let counter = match why {
                    Refusal::Malformed => &counters.malformed_frames,
                    Refusal::Late => &counters.late_frames,
                    Refusal::Foreign => &counters.foreign,
                };
                add(counter, 1);
                Parsed::Dropped(frame.packet)
            }
        }));
    }

    /// Samples without frames: the next ones, behind those that were dropped.
    fn raw(&mut self, packet: Packet, size: usize) -> Samples {
        let anew = packet.fresh && self.count.is_some();
        let samples = (packet.bytes.len() / size) as u64;
        let first = self.count.unwrap_or(0) + packet.dropped / size as u64;
        self.count = Some(first + samples);
        Samples {
            first,
            samples,
            frame: Frame::new(packet, 0),
            session: 0,
            anew,
            last: false,
        }
    }
}

fn samples(claim: Claim, count: u64, anew: bool, frame: Frame) -> Parsed {
    Parsed::Samples(Samples {
        first: count * claim.each,
        samples: claim.length * claim.each,
        frame,
        session: claim.session,
        anew,
        last: claim.end,
    })
}

/// What a frame of ours says.
enum FrameContent {
    Samples(Claim, Box<Frame>),
    Description(u32, Box<SenderDescription>, Packet),
}

/// What a frame of ours says; the packet if it is none.
fn of_frame(packet: Packet, options: &Options) -> Result<FrameContent, Packet> {
    let (header, at) = match Header::parse(&packet.bytes) {
        Ok((header, samples)) if header.dtype == options.dtype => {
            (header, packet.bytes.len() - samples.len())
        }
        Ok((header, samples)) if SenderDescription::is_in(&header, samples, options.dtype) => {
            return match SenderDescription::parse(samples) {
                Ok(said) if said.rate == options.rate => Ok(FrameContent::Description(
                    header.session,
                    Box::new(said),
                    packet,
                )),
                _ => Err(packet),
            };
        }
        _ => return Err(packet),
    };
    let claim = Claim {
        session: header.session,
        number: header.first,
        length: header.samples.into(),
        each: 1,
        gap: header.gap,
        time: header.time,
        step: header.step,
        end: header.end,
    };
    let drift = Fixed::from_bits(header.drift.into());
    let frame = Frame {
        time: header.time,
        exact: header.exact.then_some(drift),
        step: header.step,
        gap: header.gap,
        early: header.early,
        ..Frame::new(packet, at)
    };
    Ok(FrameContent::Samples(claim, Box::new(frame)))
}

/// What a datagram says that begins with a counter of so many bytes; the packet if it has no whole samples.
fn of_datagram(
    packet: Packet,
    options: &Options,
    width: usize,
    order: ByteOrder,
) -> Result<(Claim, Frame), Packet> {
    let size = options.dtype.size();
    let each = packet.bytes.len().saturating_sub(width) / size;
    if each == 0 || width + each * size != packet.bytes.len() {
        return Err(packet);
    }
    let claim = Claim {
        session: 0,
        number: number(&packet.bytes[..width], order),
        length: 1,
        each: each as u64,
        gap: 0,
        time: None,
        step: false,
        end: false,
    };
    Ok((claim, Frame::new(packet, width)))
}

fn number(bytes: &[u8], order: ByteOrder) -> u64 {
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
        assert_eq!(number(&[1, 2], ByteOrder::Little), 0x201);
        assert_eq!(number(&[1, 2], ByteOrder::Big), 0x102);
    }
}
