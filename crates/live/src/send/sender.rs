//! Sends samples as frames.

use std::io;
use std::time::{Duration, Instant};

use isochrony_segment::{DType, Sample};
use isochrony_time::{Fixed, Rate};

use super::description_schedule::DescriptionSchedule;
use super::faults::{FaultInjector, NetworkFaults, mix};
use super::transport::Transport;
use crate::LiveError;
use crate::address::Address;
use crate::frame::{FrameHeader, HEADER_LEN, MAX_DESCRIPTION_BYTES, SenderDescription};

/// Sample bytes in a datagram: below the packet size of every network.
const DATAGRAM_SAMPLE_BYTES: usize = 1400;
/// Sample bytes in a frame over TCP or a pipe.
const STREAM_SAMPLE_BYTES: usize = 16 << 10;

/// Over UDP one may be lost; all are if the socket buffer is full.
const END_COPIES: usize = 5;
const END_INTERVAL: Duration = Duration::from_millis(20);

/// Time of a sample, in ns since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleTime {
    /// Exact, as in a recording.
    Exact(Fixed),
    /// Read from a clock.
    Rounded(Fixed),
}

impl SampleTime {
    fn civil(self) -> Fixed {
        match self {
            Self::Exact(civil) | Self::Rounded(civil) => civil,
        }
    }
}

/// What was sent, to compare with a listener's counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SendCounts {
    /// Sample frames, including dropped ones.
    pub frames: u64,
    /// Samples, including dropped ones.
    pub samples: u64,
    /// Samples dropped as simulated loss.
    pub dropped_samples: u64,
    /// Frames sent twice as simulated duplicates.
    pub doubled_frames: u64,
}

/// Sends samples of one dtype and rate as frames.
#[derive(Debug)]
pub struct Sender {
    transport: Transport,
    address: Address,
    header: FrameHeader,
    rate: Rate,
    most: usize,
    faults: FaultInjector,
    counts: SendCounts,
    frame: Vec<u8>,
    /// Nothing can follow a truncated frame.
    is_broken: bool,
    description: Option<DescriptionSchedule>,
}

impl Sender {
    /// Connects to an address; `-` is standard output.
    ///
    /// # Errors
    /// [`LiveError::Socket`].
    pub fn connect(address: &Address, dtype: DType, rate: Rate) -> Result<Self, LiveError> {
        let transport = Transport::connect(address).map_err(|why| LiveError::Socket {
            doing: "sending to",
            address: address.to_string(),
            why,
            remedy: "start the receiver first, or correct the address",
        })?;
        let most = match transport.is_datagram() {
            true => DATAGRAM_SAMPLE_BYTES,
            false => STREAM_SAMPLE_BYTES,
        };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_nanos() as u64);
        Ok(Self {
            transport,
            address: *address,
            // Process numbers distinguish senders of the same nanosecond.
            header: FrameHeader::new(
                dtype,
                mix(now ^ u64::from(std::process::id()) << 40) as u32,
                0,
            ),
            rate,
            most: most / dtype.size(),
            faults: FaultInjector::new(NetworkFaults::default()),
            counts: SendCounts::default(),
            frame: Vec::new(),
            is_broken: false,
            description: None,
        })
    }

    /// Sets the maximum samples per frame.
    ///
    /// # Errors
    /// [`LiveError::Option`]: 0, or too many for a datagram.
    pub fn with_frame_samples(mut self, samples: usize) -> Result<Self, LiveError> {
        let size = self.header.dtype.size();
        let most = match self.transport.is_datagram() {
            true => (65_507 - HEADER_LEN) / size,
            false => (1 << 20) / size - 64,
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

    /// Simulates network faults.
    ///
    /// # Errors
    /// As [`NetworkFaults::check`].
    pub fn with_faults(mut self, faults: NetworkFaults) -> Result<Self, LiveError> {
        faults.check(&self.address)?;
        self.faults = FaultInjector::new(faults);
        Ok(self)
    }

    /// Sends a description before the first samples, and again for late listeners. Over UDP, attributes that
    /// exceed a small datagram are omitted.
    #[must_use]
    pub fn with_description(mut self, description: &SenderDescription) -> Self {
        let is_datagram = self.transport.is_datagram();
        let most = match is_datagram {
            true => DATAGRAM_SAMPLE_BYTES - HEADER_LEN,
            false => MAX_DESCRIPTION_BYTES,
        };
        let mut frame = Vec::new();
        let header = &self.header;
        description.write(header.dtype, header.session, most, &mut frame);
        self.description = Some(DescriptionSchedule::new(frame, is_datagram));
        self
    }

    /// Sends the next samples; `time`: of the first, ns since 1970.
    ///
    /// # Errors
    /// [`LiveError::Option`] if the dtype differs; [`LiveError::Socket`].
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

    /// As [`send`](Self::send), with bytes in native order.
    ///
    /// # Errors
    /// [`LiveError::Socket`].
    pub fn send_bytes(&mut self, bytes: &[u8], time: Option<i64>) -> Result<(), LiveError> {
        let rate = self.rate;
        self.send_timed(bytes, &|since| {
            let ahead = rate.duration_ns(since.cast_signed()).ok()?;
            Some(SampleTime::Rounded(
                Fixed::from_int(time?).checked_add(ahead)?,
            ))
        })
    }

    /// As [`send_bytes`](Self::send_bytes); `time_of(n)` is the time of the n-th.
    ///
    /// # Errors
    /// [`LiveError::Socket`].
    pub fn send_timed(
        &mut self,
        bytes: &[u8],
        time_of: &dyn Fn(u64) -> Option<SampleTime>,
    ) -> Result<(), LiveError> {
        self.send_description_if_due()?;
        let size = self.header.dtype.size();
        let mut since = 0;
        for part in bytes.chunks(self.most * size) {
            let samples = (part.len() / size) as u64;
            let time = time_of(since);
            let drift = self.drift(time, samples, &|| time_of(since + samples - 1));
            self.header.exact = drift.is_some();
            self.header.drift = drift.unwrap_or(0);
            self.header.time = time.map(SampleTime::civil);
            self.frame.clear();
            self.header
                .write(&part[..samples as usize * size], &mut self.frame);
            (self.header.step, self.header.gap) = (false, 0);
            self.header.first += samples;
            since += samples;
            self.counts.frames += 1;
            self.counts.samples += samples;
            self.transmit(samples)?;
        }
        Ok(())
    }

    /// Exact minus nominal duration, in 2^-32 ns.
    fn drift(
        &self,
        first: Option<SampleTime>,
        samples: u64,
        last: &dyn Fn() -> Option<SampleTime>,
    ) -> Option<i64> {
        let Some(SampleTime::Exact(first)) = first else {
            return None;
        };
        if samples < 2 {
            return Some(0);
        }
        let Some(SampleTime::Exact(last)) = last() else {
            return None;
        };
        let nominal = self.rate.duration_ns(samples.cast_signed() - 1).ok()?;
        let drift = last.checked_sub(first)?.checked_sub(nominal)?;
        i64::try_from(drift.to_bits()).ok()
    }

    fn send_description_if_due(&mut self) -> Result<(), LiveError> {
        match &self.description {
            Some(schedule) if schedule.is_due() => self.send_description(),
            _ => Ok(()),
        }
    }

    fn send_description(&mut self) -> Result<(), LiveError> {
        let Some(mut schedule) = self.description.take() else {
            return Ok(());
        };
        if !self.transport.is_datagram() {
            // Receivers that do not know descriptions expect their dtype first.
            let mut empty = Vec::new();
            let mut header = self.header;
            (header.first, header.gap, header.step) = (0, 0, false);
            header.write(&[], &mut empty);
            self.write(&empty)?;
        }
        let wrote = (0..schedule.copies()).try_for_each(|_| self.write(&schedule.frame));
        schedule.mark_sent();
        self.description = Some(schedule);
        wrote
    }

    /// Sends delayed frames that are due.
    ///
    /// # Errors
    /// [`LiveError::Socket`].
    pub fn send_due(&mut self) -> Result<(), LiveError> {
        let now = Instant::now();
        while let Some(frame) = self.faults.pop_due(now) {
            self.write(&frame)?;
        }
        Ok(())
    }

    /// Skips unrecorded samples.
    pub fn skip(&mut self, samples: u64) {
        let first = self.header.first.saturating_add(samples).min(1 << 61);
        self.header.gap += first - self.header.first;
        self.header.first = first;
    }

    /// The stamping clock was set before the next frame.
    pub fn step(&mut self) {
        self.header.step = true;
    }

    /// Ends the feed.
    ///
    /// # Errors
    /// [`LiveError::Socket`].
    pub fn end(self) -> Result<SendCounts, LiveError> {
        self.finish(false)
    }

    /// Ends the feed before all was sent.
    ///
    /// # Errors
    /// [`LiveError::Socket`].
    pub fn stop(self) -> Result<SendCounts, LiveError> {
        self.finish(true)
    }

    fn finish(mut self, truncated: bool) -> Result<SendCounts, LiveError> {
        if self.is_broken {
            return Ok(self.counts);
        }
        while let Some(due) = self.faults.next_due() {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            self.send_due()?;
        }
        if (self.description.as_ref()).is_some_and(DescriptionSchedule::is_useful_at_end) {
            self.send_description()?;
        }
        self.header.time = None;
        (self.header.exact, self.header.drift) = (false, 0);
        (self.header.end, self.header.truncated) = (true, truncated);
        self.frame.clear();
        self.header.write(&[], &mut self.frame);
        let copies = match self.transport.is_datagram() {
            true => END_COPIES,
            false => 1,
        };
        for copy in 0..copies {
            if copy > 0 {
                std::thread::sleep(END_INTERVAL);
            }
            self.write_frame()?;
        }
        Ok(self.counts)
    }

    /// Counts so far.
    #[must_use]
    pub fn counts(&self) -> SendCounts {
        self.counts
    }

    fn transmit(&mut self, samples: u64) -> Result<(), LiveError> {
        let copies = self.faults.draw_copies();
        if copies == 0 {
            self.counts.dropped_samples += samples;
        }
        self.counts.doubled_frames += u64::from(copies > 1);
        for _ in 0..copies {
            match self.faults.draw_delay() {
                None => self.write_frame()?,
                Some(delay) => {
                    let frame = self.frame.clone();
                    self.faults.hold(delay, self.header.first, frame);
                }
            }
        }
        self.send_due()
    }

    fn write_frame(&mut self) -> Result<(), LiveError> {
        let frame = std::mem::take(&mut self.frame);
        let wrote = self.write(&frame);
        self.frame = frame;
        wrote
    }

    fn write(&mut self, frame: &[u8]) -> Result<(), LiveError> {
        let wrote = self.transport.write(frame);
        self.is_broken |= wrote.is_err();
        wrote.map_err(|why: io::Error| LiveError::Socket {
            doing: "sending to",
            address: self.address.to_string(),
            why,
            remedy: "check that the receiver still runs",
        })
    }
}
