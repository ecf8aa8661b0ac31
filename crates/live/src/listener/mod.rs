mod decoder;
mod descriptions;
mod index_axis;
mod late_recording;
mod late_samples;
mod options;
mod shared;
mod source;

use std::net::{TcpListener, UdpSocket};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use isochrony_flow::{
    Clock, Latency, LatencyHistogram, OpError, OpErrorKind, OuterGaps, PlanError, PortType,
    Recording, SentObjects, SignalDescription, Source,
};
use isochrony_segment::{Calibration, Stream};
use serde_json::{Map, Value, json};

pub use late_recording::LateRecording;
pub use late_samples::LateSamples;
pub use options::ListenOptions;

use crate::LiveError;
use crate::address::{Address, FeedFraming};
use crate::feed_counts::FeedCounts;
use crate::receive::{Driver, FeedInput, PacketQueue, ReceiveContext, ReceiverThread, RunClock};
use descriptions::SessionDescriptions;
use index_axis::IndexAxis;
pub use index_axis::SamplingClock;
use late_samples::LateBuffer;
use shared::{FeedPosition, ListenerClock, ListenerInner, ScanGuard};
use source::FeedSource;

/// Allocated with its first sample.
const MAX_SEGMENT_BYTES: u64 = 256 << 20;

/// A feed. Bound at once, so its port is known, and read while a plan runs.
///
/// One run at a time scans it, since samples arrive once. Each run counts indices from its first sample.
///
/// ```
/// use isochrony_flow::{SharedRecording, Plan};
/// use isochrony_live::{ListenOptions, Listener, send::Sender};
/// use isochrony_segment::DType;
/// use isochrony_time::Rate;
///
/// let rate = Rate::from_hz(1000)?;
/// let options = ListenOptions::new(DType::I16, rate);
/// let listener = Listener::bind(&"udp://127.0.0.1:0".parse()?, &options)?;
/// let to = listener.address();
/// let sender = std::thread::spawn(move || {
///     let mut sender = Sender::connect(&to, DType::I16, rate)?;
///     for part in [1i16; 100].chunks(10) {
///         sender.send(part, None)?;
///     }
///     sender.end()
/// });
/// let plan = Plan::scan_shared(SharedRecording::new(listener.clone()));
/// let gathered = plan.collect()?;
/// sender.join().expect("no panic")?;
/// assert_eq!(gathered.array().map(|array| array.shape.clone()), Some(vec![100]));
/// assert_eq!(listener.counts().lost_samples, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Listener(Arc<ListenerInner>);

impl Listener {
    /// Listens at an address. Port 0: any free port.
    ///
    /// # Errors
    /// [`LiveError::Exposed`] if other machines can reach it without [`ListenOptions::anyone`], [`LiveError::Option`],
    /// [`LiveError::Socket`].
    pub fn bind(address: &Address, options: &ListenOptions) -> Result<Self, LiveError> {
        options.check(address)?;
        let (feed, bound) = Self::sockets(address, options)?;
        Self::with_input(feed, bound, options)
    }

    fn sockets(
        address: &Address,
        options: &ListenOptions,
    ) -> Result<(FeedInput, Address), LiveError> {
        let unheard = |why: &str| LiveError::Address {
            address: address.to_string(),
            why: why.into(),
        };
        let failed = |why| LiveError::Socket {
            doing: "listening at",
            address: address.to_string(),
            why,
            remedy: "choose another port, or one of this machine's addresses",
        };
        Ok(match *address {
            Address::Udp(at) => {
                let socket = UdpSocket::bind(at).map_err(failed)?;
                let _ = socket2::SockRef::from(&socket)
                    .set_recv_buffer_size(options.buffer.min(8 << 20));
                let at = socket.local_addr().map_err(failed)?;
                (FeedInput::Udp(socket), Address::Udp(at))
            }
            Address::Tcp(at) => {
                let listener = TcpListener::bind(at).map_err(failed)?;
                let at = listener.local_addr().map_err(failed)?;
                (FeedInput::Tcp(listener), Address::Tcp(at))
            }
            Address::Stdin => (FeedInput::Stdin, Address::Stdin),
            Address::Driven => return Err(unheard("it needs a driver (Listener::driven)")),
        })
    }

    /// Accepts what a driver pushes during a run.
    ///
    /// # Errors
    /// [`LiveError::Option`].
    pub fn driven(
        driver: impl Driver + 'static,
        options: &ListenOptions,
    ) -> Result<Self, LiveError> {
        let options = ListenOptions {
            framing: FeedFraming::Isochrony,
            ..options.clone()
        };
        options.check(&Address::Driven)?;
        let feed = FeedInput::Driven(Arc::new(driver));
        Self::with_input(feed, Address::Driven, &options)
    }

    fn with_input(
        feed: FeedInput,
        bound: Address,
        options: &ListenOptions,
    ) -> Result<Self, LiveError> {
        let axis = match &options.clock {
            Some(other) => other.axis.clone(),
            None => Arc::new(IndexAxis::new().map_err(|why| LiveError::Timebase { why })?),
        };
        let stream = Stream::new(options.name_at(bound), axis.timebase, options.rate)
            .with_calibration(Calibration::identity(options.unit.as_str()));
        Ok(Self(Arc::new(ListenerInner {
            address: bound,
            feed,
            options: options.clone(),
            stream: stream.intern(),
            axis,
            counters: Arc::default(),
            latency: LatencyHistogram::default(),
            late: LateBuffer::new(options.keep_late),
            is_late_read: AtomicBool::new(false),
            is_scanned: AtomicBool::new(false),
            ended_session: AtomicU64::new(u64::MAX),
            clock: Arc::new(ListenerClock::new(options.rate)),
            position: FeedPosition::default(),
            descriptions: SessionDescriptions::default(),
        })))
    }

    /// A feed that is bound when first read, possibly in another process.
    ///
    /// # Errors
    /// [`LiveError::Exposed`], [`LiveError::Option`], [`LiveError::Address`] if its port would be unknown; of a run,
    /// [`LiveError::Socket`].
    pub fn unbound(address: &Address, options: &ListenOptions) -> Result<Self, LiveError> {
        options.check(address)?;
        if let Address::Udp(at) | Address::Tcp(at) = address
            && at.port() == 0
        {
            return Err(LiveError::Address {
                address: address.to_string(),
                why: "port 0 is any free one, which would be unknown; choose a port".into(),
            });
        }
        Self::with_input(FeedInput::Unbound(OnceLock::new()), *address, options)
    }

    /// The feed of a saved plan ([`Recording::saved`]). Bound when first read: loading an untrusted
    /// plan opens no sockets.
    ///
    /// # Errors
    /// [`LiveError::Exposed`], [`LiveError::Address`], [`LiveError::Option`]; of a run, [`LiveError::Socket`].
    pub fn resolve(saved: &Map<String, Value>) -> Result<Self, LiveError> {
        let (address, options) = ListenOptions::from_saved(saved)?;
        options.check(&address)?;
        if address == Address::Driven {
            return Self::bind(&address, &options);
        }
        Self::with_input(FeedInput::Unbound(OnceLock::new()), address, &options)
    }

    /// The address, with the actual port.
    #[must_use]
    pub fn address(&self) -> Address {
        self.0.address
    }

    /// Its clock, for [`ListenOptions::clock`] of another feed of the same converter.
    #[must_use]
    pub fn sampling_clock(&self) -> SamplingClock {
        SamplingClock {
            axis: self.0.axis.clone(),
            rate: self.0.options.rate,
            feed: self.0.options.name_at(self.0.address),
            is_driven: matches!(self.0.feed, FeedInput::Driven(_)),
        }
    }

    /// Counts since its creation.
    #[must_use]
    pub fn counts(&self) -> FeedCounts {
        self.0.counters.read()
    }

    /// The sender's description, if trusted. [`ListenOptions::unit`] takes precedence.
    #[must_use]
    pub fn description(&self) -> Option<SignalDescription> {
        self.0.descriptions.get(&self.0.options.unit)
    }

    /// The sender's unit, regardless of [`ListenOptions::unit`].
    #[must_use]
    pub fn sender_unit(&self) -> Option<String> {
        self.0.descriptions.unit()
    }

    /// Takes the samples of [`ListenOptions::keep_late`], in order of arrival.
    #[must_use]
    pub fn take_late(&self) -> Vec<LateSamples> {
        self.0.late.take()
    }

    /// The samples of [`ListenOptions::keep_late`] as rows, for a plan in the same run as one of the feed.
    ///
    /// # Errors
    /// [`LiveError::Option`] if none are kept.
    pub fn late(&self) -> Result<LateRecording, LiveError> {
        LateRecording::new(&self.0)
    }

    /// Time from arrival to the end of processing.
    #[must_use]
    pub fn latency(&self) -> Latency {
        self.0.latency.read()
    }
}

impl Recording for Listener {
    fn port(&self) -> PortType {
        PortType::Samples {
            dtype: self.0.options.dtype,
            stream: self.0.stream,
        }
    }

    fn open(&self, range: Option<Range<i64>>, segment: u64) -> Result<Box<dyn Source>, OpError> {
        let address = || self.0.shown_address();
        if range.is_some() {
            return Err(failed(LiveError::Range { address: address() }));
        }
        let most = MAX_SEGMENT_BYTES / self.0.options.dtype.size() as u64;
        if segment > most {
            return Err(failed(LiveError::Option {
                option: "segment",
                got: segment.to_string(),
                legal: format!("samples from 1 to {most} ({MAX_SEGMENT_BYTES} bytes)"),
            }));
        }
        if self.0.is_scanned.swap(true, Ordering::AcqRel) {
            return Err(failed(LiveError::Busy { address: address() }));
        }
        let guard = ScanGuard(self.0.clone());
        if let FeedInput::Unbound(bound) = &self.0.feed
            && bound.get().is_none()
        {
            let feed = Self::sockets(&self.0.address, &self.0.options);
            // One run at a time gets here.
            let _ = bound.set(Box::new(feed.map_err(failed)?.0));
        }
        self.0.axis.begin_scan();
        self.0.descriptions.reset();
        let options = &self.0.options;
        let queue = Arc::new(PacketQueue::new(options.buffer));
        let context = ReceiveContext {
            queue: queue.clone(),
            counters: self.0.counters.clone(),
            framing: options.framing,
            dtype: options.dtype,
            rate_hz: options.rate.to_f64(),
            max_frame: options.max_frame,
            clock: RunClock::start(),
        };
        let clock = context.clock.clone();
        let receiver = ReceiverThread::spawn(&self.0.feed, context).map_err(|why| {
            let why = match why.downcast() {
                Ok(why) => LiveError::Socket {
                    doing: "reading from",
                    address: address(),
                    why: *why,
                    remedy: "close other programs' sockets and threads",
                }
                .into(),
                Err(other) => other,
            };
            OpError::from(OpErrorKind::Failed(why))
        })?;
        let source = FeedSource::new(guard, queue, Some(receiver), segment, clock);
        self.0.clock.set(source.clock());
        Ok(Box::new(source))
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        let times = self.0.clock.clone();
        Some(times)
    }

    fn position(&self) -> Option<(i64, u32)> {
        let inner = &self.0;
        (!inner.axis.is_shared()).then(|| inner.position.get())
    }

    fn sent(&self, _: &mut SentObjects) -> Result<Map<String, Value>, PlanError> {
        let is_open = match &self.0.feed {
            FeedInput::Unbound(bound) => bound.get().is_some(),
            _ => true,
        };
        let saved = self.saved().filter(|_| !is_open);
        saved.ok_or_else(|| PlanError::NotSendable {
            operator: format!("scan({})", self.0.options.name_at(self.0.address)),
            what: "a feed of this process",
            mend: "make it with listen(..., bind=False), and say on which host it is opened by .on(HOST); or record it in a \
                   signal and scan that",
        })
    }

    fn description(&self) -> Option<SignalDescription> {
        Self::description(self)
    }

    fn outer_gaps(&self) -> OuterGaps {
        self.0.descriptions.gaps()
    }

    fn knows_all_times(&self) -> bool {
        self.0.descriptions.knows_all_times()
    }

    fn saved(&self) -> Option<Map<String, Value>> {
        let options = &self.0.options;
        if let FeedInput::Driven(driver) = &self.0.feed {
            return driver.saved();
        }
        if self.0.axis.is_shared() {
            // It refers to another feed of this process.
            return None;
        }
        let saved = json!({
            "listen": self.0.address.to_string(),
            "dtype": options.dtype.numpy_str(options.order),
            "rate": options.rate.to_string(),
            "name": options.name,
            "unit": options.unit,
            "framing": options.framing.name(),
            "reorder": options.reorder.as_secs_f64(),
            "buffer": options.buffer,
            "max_frame": options.max_frame,
            "step": options.step.as_secs_f64(),
            "silence": options.silence.map(|silence| silence.as_secs_f64()),
            "lateness": options.lateness.map(|lateness| lateness.as_secs_f64()),
            "keep_late": options.keep_late,
            "anyone": options.anyone,
        });
        saved.as_object().cloned()
    }
}

fn failed(error: LiveError) -> OpError {
    OpErrorKind::Failed(error.into()).into()
}
