use std::time::Duration;

use isochrony_segment::{ByteOrder, DType, free_memory, has_free_memory};
use isochrony_time::Rate;
use serde_json::{Map, Value};

use super::index_axis::SamplingClock;
use crate::LiveError;
use crate::address::{Address, FeedFraming};
use crate::frame::MAX_FRAME_BYTES;

/// Options of a live feed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ListenOptions {
    /// Sample dtype.
    pub dtype: DType,
    /// Byte order of samples outside wire frames.
    pub order: ByteOrder,
    /// Nominal sample rate.
    pub rate: Rate,
    /// Stream name; empty: the address.
    pub name: String,
    /// Unit of the values; empty: unknown.
    pub unit: String,
    /// Format of the input.
    pub framing: FeedFraming,
    /// How long early frames wait for late ones.
    pub reorder: Duration,
    /// Maximum bytes of queued packets.
    pub buffer: usize,
    /// Maximum bytes of a frame.
    pub max_frame: usize,
    /// Stamp deviation that is a clock step.
    pub step: Duration,
    /// Silence that ends the feed. None: never.
    pub silence: Option<Duration>,
    /// Samples overdue for this time in a silence are given up. None: never.
    pub lateness: Option<Duration>,
    /// Maximum bytes of late samples, and of about a hundred more for each frame, kept for [`Listener::late`](crate::Listener::late) and
    /// [`Listener::take_late`](crate::Listener::take_late).
    pub keep_late: usize,
    /// Whether other machines may connect.
    pub anyone: bool,
    /// Sampling clock of another feed of the same converter (ADC), whose sender's counts are equal at equal times.
    /// None: feeds are aligned by civil time.
    pub clock: Option<SamplingClock>,
    /// Resumes after another process, with a new run: next index, and the number of the last run.
    pub(super) resume: Option<(i64, u32)>,
}

const MAX_REORDER: Duration = Duration::from_secs(3600);

impl ListenOptions {
    pub(super) fn name_at(&self, bound: Address) -> String {
        match self.name.as_str() {
            "" => bound.to_string(),
            name => name.to_owned(),
        }
    }

    /// Wire frames, a jitter window of 50 ms, 32 MiB of packets, this machine only.
    #[must_use]
    pub fn new(dtype: DType, rate: Rate) -> Self {
        Self {
            dtype,
            order: ByteOrder::Little,
            rate,
            name: String::new(),
            unit: String::new(),
            framing: FeedFraming::Isochrony,
            reorder: Duration::from_millis(50),
            buffer: 32 << 20,
            max_frame: MAX_FRAME_BYTES,
            step: Duration::from_millis(10),
            silence: None,
            lateness: None,
            keep_late: 0,
            anyone: false,
            clock: None,
            resume: None,
        }
    }

    pub(super) fn from_saved(saved: &Map<String, Value>) -> Result<(Address, Self), LiveError> {
        let text = |key: &str| saved.get(key).and_then(Value::as_str).unwrap_or("");
        let refused = |option, legal: &str| LiveError::Option {
            option,
            got: saved.get(option).map_or("nothing".into(), Value::to_string),
            legal: legal.into(),
        };
        let seconds = |option| {
            let seconds = saved.get(option).and_then(Value::as_f64);
            let seconds = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            seconds.ok_or_else(|| refused(option, "seconds from 0"))
        };
        let bytes = |option| {
            let bytes = saved.get(option).and_then(Value::as_u64);
            let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
            bytes.ok_or_else(|| refused(option, "a number of bytes"))
        };
        let address = text("listen").parse()?;
        let dtype = DType::parse(text("dtype"));
        let (dtype, order) = dtype.map_err(|_| refused("dtype", "a dtype such as <i2"))?;
        let rate = Rate::from_decimal_str(text("rate"));
        let mut options = Self::new(dtype, rate.map_err(|_| refused("rate", "a rate in Hz"))?);
        options.order = order;
        options.name = text("name").into();
        options.unit = text("unit").into();
        options.framing = text("framing").parse()?;
        options.reorder = seconds("reorder")?;
        options.buffer = bytes("buffer")?;
        options.max_frame = bytes("max_frame")?;
        options.step = seconds("step")?;
        options.silence = match saved.get("silence") {
            None | Some(Value::Null) => None,
            Some(_) => Some(seconds("silence")?),
        };
        options.lateness = match saved.get("lateness") {
            None | Some(Value::Null) => None,
            Some(_) => Some(seconds("lateness")?),
        };
        options.keep_late = match saved.get("keep_late") {
            None => 0,
            Some(_) => bytes("keep_late")?,
        };
        options.anyone = saved
            .get("anyone")
            .and_then(Value::as_bool)
            .unwrap_or(false);
        if let Some(resume) = saved.get("resume") {
            let resume = serde_json::from_value(resume.clone());
            let legal = "an index and the number of a run";
            options.resume = Some(resume.map_err(|_| refused("resume", legal))?);
        }
        Ok((address, options))
    }

    pub(super) fn check(&self, address: &Address) -> Result<(), LiveError> {
        let refused = |option, got: String, legal: &str| {
            Err(LiveError::Option {
                option,
                got,
                legal: legal.into(),
            })
        };
        if self.buffer == 0 {
            return refused("buffer", "0".into(), "bytes from 1");
        }
        if !has_free_memory(self.buffer as u64) {
            let legal = format!(
                "bytes from 1 to {}, the memory that is free on this machine",
                free_memory()
            );
            return refused("buffer", self.buffer.to_string(), &legal);
        }
        if !(64..=1 << 28).contains(&self.max_frame) {
            let legal = "bytes from 64 to 268435456";
            return refused("max_frame", self.max_frame.to_string(), legal);
        }
        if self.reorder > MAX_REORDER {
            let legal = format!("seconds from 0 to {}", MAX_REORDER.as_secs());
            return refused("reorder", self.reorder.as_secs_f64().to_string(), &legal);
        }
        if let Some(lateness) = self.lateness {
            let got = lateness.as_secs_f64().to_string();
            if self.framing == FeedFraming::Raw {
                let legal = "none with framing=\"raw\": bare samples have no index, so a pause cannot be distinguished from a loss";
                return refused("lateness", got, legal);
            }
            if lateness < self.reorder {
                let legal = format!(
                    "at least reorder={} seconds, for which early frames wait for those before them",
                    self.reorder.as_secs_f64()
                );
                return refused("lateness", got, &legal);
            }
        }
        if self.keep_late > 0 && !has_free_memory(self.keep_late as u64) {
            let legal = format!(
                "bytes from 0 to {}, the memory that is free on this machine",
                free_memory()
            );
            return refused("keep_late", self.keep_late.to_string(), &legal);
        }
        if matches!(self.framing, FeedFraming::Counter { .. })
            && !matches!(address, Address::Udp(_))
        {
            let legal = "isochrony or raw: counters number datagrams, which only udp:// has";
            return refused("framing", self.framing.name().into(), legal);
        }
        if let Some(other) = &self.clock {
            let got = || other.feed.clone();
            if other.rate != self.rate {
                let legal = format!("a feed of {} Hz, which this one has", self.rate);
                return refused("clock", got(), &legal);
            }
            // Code of this process pushes the samples, so no sender counts them.
            if other.is_driven || *address == Address::Driven {
                return refused("clock", got(), "none: a feed with a driver shares no clock");
            }
            if !other.axis.share() {
                return refused("clock", got(), "a feed that no plan reads yet");
            }
        }
        if !address.is_local() && !self.anyone {
            return Err(LiveError::Exposed {
                address: address.to_string(),
            });
        }
        Ok(())
    }
}
