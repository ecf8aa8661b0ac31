//! Samples onto the wire: as frames, at the pace of their times or as fast as it goes, with faults on request.
//!
//! Faults are for trying out what listens: frames are dropped, doubled or held back by chance from a seed, so that the
//! same seed does the same. What is dropped is not sent in silence: [`Sender::sent`] says what a listener should find.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use isochrony_segment::{DType, Sample};
use isochrony_time::{Fixed, Rate};

use crate::LiveError;
use crate::frame::{HEADER, Header, MAX_DESCRIPTION, SenderDescription};
use crate::receive::Address;

mod describe;
mod faults;

use describe::DescriptionSchedule;
pub use faults::Faults;

/// Bytes of a datagram's samples: within the packets of every network.
const DATAGRAM: usize = 1400;
/// Bytes of a frame's samples in a stream.
const PIECE: usize = 16 << 10;

/// How often a datagram says that nothing follows: one may be lost, and all that come while the receiver's kernel has
/// no room are.
const ENDS: usize = 5;
const BETWEEN_ENDS: Duration = Duration::from_millis(20);

/// When a sample was taken, in ns since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// As a recording has it, exactly.
    Exact(Fixed),
    /// More or less, as clocks say it that were read.
    Rounded(Fixed),
}

impl Time {
    fn civil(self) -> Fixed {
        match self {
            Self::Exact(civil) | Self::Rounded(civil) => civil,
        }
    }
}

/// What was sent, as a listener should find it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sent {
    /// Frames of samples, those that were dropped, too.
    pub frames: u64,
    /// Samples, those that were dropped, too.
    pub samples: u64,
    /// Samples dropped on purpose.
    pub dropped_samples: u64,
    /// Frames sent twice.
    pub doubled_frames: u64,
}

#[derive(Debug)]
enum Wire {
    Udp(UdpSocket),
    Tcp(TcpStream),
    /// Standard output, without the buffer that the standard library keeps for lines: nobody would empty it.
    Stdout(File),
}

/// How long a listener over TCP may take nothing, as when no plan runs over it. A run that waits cannot be stopped.
const PATIENCE: Duration = Duration::from_secs(30);

/// A frame that is held back until a time; the earliest first.
type Held = Reverse<(Instant, u64, Vec<u8>)>;

/// Sends samples of one dtype and rate as frames.
#[derive(Debug)]
pub struct Sender {
    wire: Wire,
    address: Address,
    header: Header,
    rate: Rate,
    most: usize,
    faults: Faults,
    chance: u64,
    held: BinaryHeap<Held>,
    sent: Sent,
    frame: Vec<u8>,
    /// A frame was not sent whole, so that nothing can follow it.
    broken: bool,
    describing: Option<DescriptionSchedule>,
}

impl Sender {
    /// Sends to an address; over TCP it connects, `-` is standard output.
    ///
    /// # Errors
    /// [`LiveError::Socket`].
    pub fn connect(address: &Address, dtype: DType, rate: Rate) -> Result<Self, LiveError> {
        let failed = |why| LiveError::Socket {
            doing: "sending to",
            address: address.to_string(),
            why,
            mend: "start what listens first, or correct the address",
        };
        let wire = match *address {
            Address::Udp(to) => {
                let any: SocketAddr = match to {
                    SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
                    SocketAddr::V6(_) => ([0u16; 8], 0).into(),
                };
                let socket = UdpSocket::bind(any).map_err(failed)?;
                socket.connect(to).map_err(failed)?;
                Wire::Udp(socket)
            }
            Address::Tcp(to) => {
                let stream = TcpStream::connect(to).map_err(failed)?;
                stream.set_nodelay(true).map_err(failed)?;
                stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
                Wire::Tcp(stream)
            }
            Address::Stdin => {
                let own = io::stdout().as_fd().try_clone_to_owned();
                Wire::Stdout(own.map_err(failed)?.into())
            }
            Address::Driven => {
                let why = io::Error::from(io::ErrorKind::AddrNotAvailable);
                return Err(failed(why));
            }
        };
        let most = if matches!(wire, Wire::Udp(_)) {
            DATAGRAM
        } else {
            PIECE
        };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_nanos() as u64);
        Ok(Self {
            wire,
            address: *address,
            // Two senders that begin in the same nanosecond have different process numbers.
            header: Header::new(
                dtype,
                mix(now ^ u64::from(std::process::id()) << 40) as u32,
                0,
            ),
            rate,
            most: most / dtype.size(),
            faults: Faults::default(),
            chance: 1,
            held: BinaryHeap::new(),
            sent: Sent::default(),
            frame: Vec::new(),
            broken: false,
            describing: None,
        })
    }

    /// With so many samples in a frame, at most.
    ///
    /// # Errors
    /// [`LiveError::Option`] if there are none, or more than a datagram holds.
    pub fn frames_of(mut self, samples: usize) -> Result<Self, LiveError> {
        let most = match self.wire {
            Wire::Udp(_) => (65_507 - HEADER) / self.header.dtype.size(),
            _ => (1 << 20) / self.header.dtype.size() - 64,
        };
        if !(1..=most).contains(&samples) {
            return Err(LiveError::Option {
                option: "frame",
                got: samples.to_string(),
                legal: format!("samples from 1 to {most} of this dtype"),
            });
        }
        self.most = samples;
        Ok(self)
    }

    /// With faults.
    ///
    /// # Errors
    /// [`LiveError::Option`] of a probability outside 0 to 1, or over what loses nothing.
    pub fn faulty(mut self, faults: Faults) -> Result<Self, LiveError> {
        faults.check(&self.address)?;
        self.chance = mix(faults.seed);
        self.faults = faults;
        Ok(self)
    }

    /// Sends the next samples; `time` is the civil time of the first, ns since 1970.
    ///
    /// # Errors
    /// [`LiveError::Option`] of another dtype; [`LiveError::Socket`].
    pub fn send<T: Sample>(&mut self, samples: &[T], time: Option<i64>) -> Result<(), LiveError> {
        if T::DTYPE != self.header.dtype {
            return Err(LiveError::Option {
                option: "samples",
                got: T::DTYPE.to_string(),
                legal: self.header.dtype.to_string(),
            });
        }
        self.send_bytes(bytemuck::cast_slice(samples), time)
    }

    /// Sends the next samples as bytes in native order, a whole number of them.
    ///
    /// # Errors
    /// [`LiveError::Socket`].
    pub fn send_bytes(&mut self, bytes: &[u8], time: Option<i64>) -> Result<(), LiveError> {
        let rate = self.rate;
        self.send_timed(bytes, &|since| {
            let ahead = rate.duration_ns(since.cast_signed()).ok()?;
            Some(Time::Rounded(Fixed::from_int(time?).checked_add(ahead)?))
        })
    }

    /// Sends the next samples as bytes; `time_of` says when one of them was taken, which is the n-th of these.
    ///
    /// # Errors
    /// [`LiveError::Socket`].
    pub fn send_timed(
        &mut self,
        bytes: &[u8],
        time_of: &dyn Fn(u64) -> Option<Time>,
    ) -> Result<(), LiveError> {
        self.say_description()?;
        let size = self.header.dtype.size();
        let mut since = 0;
        for part in bytes.chunks(self.most * size) {
            let samples = (part.len() / size) as u64;
            let time = time_of(since);
            let drift = self.drift(time, samples, &|| time_of(since + samples - 1));
            self.header.exact = drift.is_some();
            self.header.drift = drift.unwrap_or(0);
            self.header.time = time.map(Time::civil);
            self.frame.clear();
            self.header
                .write(&part[..samples as usize * size], &mut self.frame);
            (self.header.step, self.header.gap) = (false, 0);
            self.header.first += samples;
            since += samples;
            self.sent.frames += 1;
            self.sent.samples += samples;
            self.hand_over(samples)?;
        }
        Ok(())
    }

    /// Of exact times: by how much that from the first sample to the last deviates from the nominal one, in 2^-32 ns.
    fn drift(
        &self,
        first: Option<Time>,
        samples: u64,
        last: &dyn Fn() -> Option<Time>,
    ) -> Option<i64> {
        let Some(Time::Exact(first)) = first else {
            return None;
        };
        if samples < 2 {
            return Some(0);
        }
        let Some(Time::Exact(last)) = last() else {
            return None;
        };
        let nominal = self.rate.duration_ns(samples.cast_signed() - 1).ok()?;
        let drift = last.checked_sub(first)?.checked_sub(nominal)?;
        i64::try_from(drift.to_bits()).ok()
    }

    /// So many samples were not recorded.
    pub fn skip(&mut self, samples: u64) {
        let first = self.header.first.saturating_add(samples).min(1 << 61);
        self.header.gap += first - self.header.first;
        self.header.first = first;
    }

    /// The clock that stamps was set before what follows.
    pub fn step(&mut self) {
        self.header.step = true;
    }

    /// Nothing follows.
    ///
    /// # Errors
    /// [`LiveError::Socket`].
    pub fn end(self) -> Result<Sent, LiveError> {
        self.finish(false)
    }

    /// Nothing follows, although not all was sent.
    ///
    /// # Errors
    /// [`LiveError::Socket`].
    pub fn stop(self) -> Result<Sent, LiveError> {
        self.finish(true)
    }

    fn finish(mut self, early: bool) -> Result<Sent, LiveError> {
        if self.broken {
            return Ok(self.sent);
        }
        while let Some(Reverse((due, _, _))) = self.held.peek() {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            self.release()?;
        }
        self.say_description_again()?;
        self.header.time = None;
        (self.header.exact, self.header.drift) = (false, 0);
        (self.header.end, self.header.early) = (true, early);
        self.frame.clear();
        self.header.write(&[], &mut self.frame);
        let times = if matches!(self.wire, Wire::Udp(_)) {
            ENDS
        } else {
            1
        };
        for time in 0..times {
            if time > 0 {
                std::thread::sleep(BETWEEN_ENDS);
            }
            let frame = std::mem::take(&mut self.frame);
            let wrote = self.write(&frame);
            self.frame = frame;
            wrote?;
        }
        Ok(self.sent)
    }

    /// What was sent so far.
    #[must_use]
    pub fn sent(&self) -> Sent {
        self.sent
    }

    fn write(&mut self, frame: &[u8]) -> Result<(), LiveError> {
        let wrote = match &mut self.wire {
            // Nobody listening is what the one after it is told; datagrams go nowhere then.
            Wire::Udp(socket) => match socket.send(frame) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
                sent => sent.map(|_| ()),
            },
            Wire::Tcp(stream) => stream.write_all(frame).map_err(stalled),
            Wire::Stdout(out) => out.write_all(frame),
        };
        self.broken |= wrote.is_err();
        wrote.map_err(|why| LiveError::Socket {
            doing: "sending to",
            address: self.address.to_string(),
            why,
            mend: "see whether what listens still runs",
        })
    }
}

/// Says what a time-out means.
fn stalled(why: io::Error) -> io::Error {
    match why.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => io::Error::new(
            io::ErrorKind::TimedOut,
            format!("it has taken nothing for {} s", PATIENCE.as_secs()),
        ),
        _ => why,
    }
}

/// The finaliser of SplitMix64.
fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}
