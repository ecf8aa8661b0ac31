//! From packets to frames with indices of the feed: whatever the framing, one count of samples from 0 on.

use std::time::Duration;

use isochrony_segment::ByteOrder;

use super::Options;
use crate::counts::{Counters, add};
use crate::frame::{HEADER, Header};
use crate::receive::{Framing, Packet};

/// A sender that said nothing for so long may be followed by another.
const SILENT: Duration = Duration::from_secs(1);

/// Datagrams before the first that came, which may be late.
const BEFORE: u64 = 1 << 20;
/// Datagrams of a session: a count further on is none of it.
const MOST: u64 = 1 << 44;
/// Datagrams behind one another, all further back than any that are late, that mean a device which counts anew.
const RESTARTED: u32 = 8;

/// Samples that came at once, and where they belong.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) packet: Packet,
    /// Where the samples begin in the packet.
    pub(super) at: usize,
    /// The sender's stamp of the first sample, ns since 1970.
    pub(super) time: Option<i64>,
    /// The sender's clock was set before it.
    pub(super) step: bool,
    /// Samples right before it that were never recorded.
    pub(super) gap: u64,
}

/// What a packet is.
#[derive(Debug)]
pub(super) enum Parsed {
    /// Samples from an index of the session on.
    Frame {
        first: u64,
        samples: u64,
        frame: Frame,
        /// The sender began to count anew before it.
        anew: bool,
        /// Nothing follows it.
        last: bool,
    },
    /// Nothing: counted.
    Dropped(Packet),
}

/// What the sender's counts were so far.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// Of our frames: whom we listen to.
    id: Option<u32>,
    /// A session that ended in an earlier run, whose last frames may come still; above 32 bits: none.
    ended: u64,
    heard: Duration,
    /// Of raw samples: how many came; of counted datagrams: the highest count, unwrapped.
    count: Option<u64>,
    /// Of counted datagrams: the first one's count.
    zero: u64,
    /// Samples of each counted datagram.
    each: u64,
    /// Counted datagrams that came from far back: the number that would follow them, and how many there were.
    back: (u64, u32),
}

impl Session {
    /// One that does not listen to the session with this number, if it is one.
    pub(super) fn after(ended: u64) -> Self {
        Self {
            ended,
            ..Self::default()
        }
    }

    /// Whom we listen to.
    pub(super) fn id(&self) -> Option<u32> {
        self.id
    }

    pub(super) fn parse(
        &mut self,
        packet: Packet,
        options: &Options,
        counters: &Counters,
    ) -> Parsed {
        let size = options.dtype.size();
        let frame = |packet, at, time, step| Frame {
            packet,
            at,
            time,
            step,
            gap: 0,
        };
        match options.framing {
            Framing::Isochrony => {
                let Ok((header, _)) = Header::parse(&packet.bytes) else {
                    add(&counters.malformed_frames, 1);
                    return Parsed::Dropped(packet);
                };
                if header.dtype != options.dtype {
                    add(&counters.malformed_frames, 1);
                    return Parsed::Dropped(packet);
                }
                let silent = packet.when.came.saturating_sub(self.heard) >= SILENT;
                let other = self.id.is_some_and(|id| id != header.session);
                let over = u64::from(header.session) == self.ended;
                if over || other && !silent && !packet.fresh {
                    add(&counters.foreign, 1);
                    return Parsed::Dropped(packet);
                }
                self.id = Some(header.session);
                self.heard = packet.when.came;
                Parsed::Frame {
                    first: header.first,
                    samples: header.samples.into(),
                    frame: Frame {
                        gap: header.gap,
                        ..frame(packet, HEADER, header.time, header.step)
                    },
                    anew: other,
                    last: header.end,
                }
            }
            Framing::Counter { bytes, order } => {
                let width = usize::from(bytes);
                let samples = packet.bytes.len().saturating_sub(width) / size;
                let whole = width + samples * size == packet.bytes.len();
                if self.each == 0 && whole {
                    self.each = samples as u64;
                }
                if !whole || samples as u64 != self.each || samples == 0 {
                    add(&counters.malformed_frames, 1);
                    return Parsed::Dropped(packet);
                }
                let number = number(&packet.bytes[..width], order);
                let count = match self.count {
                    // Room below for those that come late.
                    None => {
                        self.zero = number;
                        number
                    }
                    Some(last) => unwrapped(last, number, 8 * u32::from(bytes)),
                };
                let since = count.wrapping_sub(self.zero).wrapping_add(BEFORE);
                if since > MOST {
                    add(&counters.malformed_frames, 1);
                    return Parsed::Dropped(packet);
                }
                // What comes late must not pull the count back.
                let before = self
                    .count
                    .map_or(0, |last| last.wrapping_sub(self.zero).wrapping_add(BEFORE));
                let anew = self.is_back(before.saturating_sub(since), number, options);
                if since >= before {
                    self.count = Some(count);
                }
                if anew {
                    (self.count, self.zero) = (Some(number), number);
                }
                Parsed::Frame {
                    first: if anew { BEFORE } else { since } * self.each,
                    samples: self.each,
                    frame: frame(packet, width, None, false),
                    anew,
                    last: false,
                }
            }
            Framing::Raw => {
                let anew = packet.fresh && self.count.is_some();
                let samples = (packet.bytes.len() / size) as u64;
                let first = self.count.unwrap_or(0) + packet.dropped / size as u64;
                self.count = Some(first + samples);
                Parsed::Frame {
                    first,
                    samples,
                    frame: frame(packet, 0, None, false),
                    anew,
                    last: false,
                }
            }
        }
    }
}

impl Session {
    /// Whether a datagram that lies so many behind the furthest one shows that the device counts anew: it is one of
    /// several that follow one another from further back than anything that is only late.
    fn is_back(&mut self, behind: u64, number: u64, options: &Options) -> bool {
        let late = (options.reorder.as_secs_f64() + 1.0) * options.rate.to_f64();
        if behind * self.each <= late as u64 {
            return false;
        }
        let (next, many) = self.back;
        let many = if number == next { many + 1 } else { 1 };
        self.back = (number.wrapping_add(1), many % RESTARTED);
        many == RESTARTED
    }
}

fn number(bytes: &[u8], order: ByteOrder) -> u64 {
    let join = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    match order {
        ByteOrder::Big => bytes.iter().fold(0, join),
        ByteOrder::Little => bytes.iter().rev().fold(0, join),
    }
}

/// The count nearest to the last one whose low bits are these; counts wrap.
fn unwrapped(last: u64, number: u64, bits: u32) -> u64 {
    let unused = 64 - bits;
    let ahead = (number.wrapping_sub(last) << unused).cast_signed() >> unused;
    last.wrapping_add_signed(ahead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_wraps_goes_on() {
        assert_eq!(unwrapped(0x1_fffe, 0xffff, 16), 0x1_ffff);
        assert_eq!(unwrapped(0x1_ffff, 0, 16), 0x2_0000);
        assert_eq!(unwrapped(0x2_0001, 0xffff, 16), 0x1_ffff);
        assert_eq!(unwrapped(7, 6, 64), 6);
        assert_eq!(number(&[1, 2], ByteOrder::Little), 0x201);
        assert_eq!(number(&[1, 2], ByteOrder::Big), 0x102);
    }
}
