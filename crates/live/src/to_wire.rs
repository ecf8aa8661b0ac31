//! Sink that sends a plan's samples, unpaced or at a multiple of the recorded pace.
//!
//! Gaps, including a filter's, become skipped indices, clock steps are flagged, and frames have the civil time of the
//! recording's clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use isochrony_flow::{
    Break, Cause, Clock, Item, OpError, OpErrorKind, PlanError, PortType, SharedFactory, Sink,
    SinkWriter,
};
use isochrony_flow::{SharedRecording, SinkFactory};
use isochrony_segment::{Calibration, Stream};
use isochrony_time::Fixed;
use serde_json::{Map, Value, json};

use crate::LiveError;
use crate::address::Address;
use crate::frame::SenderDescription;
use crate::send::{NetworkFaults, SampleTime, Sender};

/// Limits the delay of delayed frames.
const MAX_SLEEP: Duration = Duration::from_millis(20);

/// Destination and pace of sent samples.
#[derive(Debug, Clone, PartialEq)]
pub struct ToWire {
    address: Address,
    /// Recorded seconds per second. None: unpaced.
    speed: Option<f64>,
    frame: Option<usize>,
    faults: NetworkFaults,
}

impl ToWire {
    /// Name in saved plans.
    pub const NAME: &'static str = "send";

    /// `speed`: multiple of the recorded pace; None: unpaced. `frame`: maximum samples; None: what fits a packet.
    ///
    /// # Errors
    /// [`LiveError::Option`].
    pub fn new(
        address: Address,
        speed: Option<f64>,
        frame: Option<usize>,
        faults: NetworkFaults,
    ) -> Result<Self, LiveError> {
        if let Some(speed) = speed.filter(|speed| !(speed.is_finite() && *speed > 0.0)) {
            return Err(LiveError::Option {
                option: "speed",
                got: speed.to_string(),
                legal: "a number above 0, or None for as fast as it goes".into(),
            });
        }
        faults.check(&address)?;
        Ok(Self {
            address,
            speed,
            frame,
            faults,
        })
    }

    /// The sink of a saved plan.
    ///
    /// # Errors
    /// [`PlanError::Unreadable`].
    pub fn resolve(saved: &Map<String, Value>) -> Result<SharedFactory, PlanError> {
        let unreadable = |why: String| PlanError::Unreadable { why };
        let number = |key: &str| saved.get(key).and_then(Value::as_f64);
        let address = saved.get("address").and_then(Value::as_str).unwrap_or("");
        let address: Address = address
            .parse()
            .map_err(|error: LiveError| unreadable(error.to_string()))?;
        let faults = NetworkFaults {
            loss: number("loss").unwrap_or(0.0),
            twice: number("twice").unwrap_or(0.0),
            jitter: Duration::try_from_secs_f64(number("jitter").unwrap_or(0.0))
                .map_err(|why| unreadable(format!("jitter: {why}")))?,
            seed: saved.get("seed").and_then(Value::as_u64).unwrap_or(1),
        };
        let frame = saved
            .get("frame")
            .and_then(Value::as_u64)
            .map(|frame| frame as usize);
        let target = Self::new(address, number("speed"), frame, faults);
        Ok(SharedFactory::new(SinkFactory::new(
            target.map_err(|error| unreadable(error.to_string()))?,
        )))
    }
}

impl Sink for ToWire {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn label(&self) -> String {
        let speed = self.speed.map(|speed| format!(", speed={speed}"));
        format!("send({}{})", self.address, speed.unwrap_or_default())
    }

    fn accepts(&self, port: &PortType) -> Result<(), PlanError> {
        match port {
            PortType::Samples { .. } => Ok(()),
            other => Err(PlanError::InputType {
                operator: Self::NAME,
                expected: "samples",
                got: other.to_string(),
                mend: other.samples_remedy(),
            }),
        }
    }

    fn open(
        &self,
        port: &PortType,
        reads: Option<&SharedRecording>,
    ) -> Result<Box<dyn SinkWriter>, OpError> {
        let (Some(dtype), Some(stream)) = (port.dtype(), port.stream()) else {
            return Err(OpErrorKind::WrongItem {
                expected: "samples",
                got: port.kind(),
            }
            .into());
        };
        let sender = Sender::connect(&self.address, dtype, stream.rate).map_err(failed)?;
        let sender = match description_of(stream, reads) {
            Some(described) => sender.with_description(&described),
            None => sender,
        };
        let sender = match self.frame {
            Some(frame) => sender.with_frame_samples(frame).map_err(failed)?,
            None => sender,
        };
        Ok(Box::new(WireWriter {
            sender: Some(sender.with_faults(self.faults).map_err(failed)?),
            clock: reads.and_then(|recording| recording.clock_of(stream)),
            reads: reads.cloned(),
            samples_a_second: self.speed.map(|speed| speed * stream.rate.to_f64()),
            started: None,
            expected: None,
            sent: 0,
        }))
    }

    fn saved(&self) -> Result<Map<String, Value>, PlanError> {
        let saved = json!({
            "address": self.address.to_string(),
            "speed": self.speed,
            "frame": self.frame,
            "loss": self.faults.loss,
            "twice": self.faults.twice,
            "jitter": self.faults.jitter.as_secs_f64(),
            "seed": self.faults.seed,
        });
        Ok(saved.as_object().cloned().unwrap_or_default())
    }
}

struct WireWriter {
    sender: Option<Sender>,
    clock: Option<Arc<dyn Clock>>,
    reads: Option<SharedRecording>,
    samples_a_second: Option<f64>,
    started: Option<Instant>,
    expected: Option<i64>,
    /// Samples sent, for the pace; gaps take no time.
    sent: u64,
}

impl SinkWriter for WireWriter {
    fn write(&mut self, item: &Item) -> Result<u64, OpError> {
        let (Item::Samples(samples), Some(sender)) = (item, &mut self.sender) else {
            return Err(OpErrorKind::WrongItem {
                expected: "samples",
                got: item.kind(),
            }
            .into());
        };
        let missing = match self.expected {
            Some(expected) => samples
                .start()
                .saturating_sub(expected)
                .max(0)
                .unsigned_abs(),
            None => {
                let gaps = self.reads.as_ref().map(SharedRecording::outer_gaps);
                gaps.map_or(0, |gaps| gaps.until(samples.start()))
            }
        };
        sender.skip(missing);
        self.expected = Some(samples.end());
        let started = *self.started.get_or_insert_with(Instant::now);
        let size = samples.dtype().size();
        // Pieces of 5 ms keep the pace even.
        let piece = self.samples_a_second.map_or(f64::MAX, |rate| rate * 0.005);
        let piece = (piece as usize).clamp(1, 1 << 20);
        let mut at = samples.start();
        for buffer in samples.buffers() {
            for bytes in buffer.bytes().chunks(piece * size) {
                let count = (bytes.len() / size) as u64;
                let clock = self.clock.as_deref();
                let time_of = |n| time_of(clock?, at.checked_add_unsigned(n)?);
                sender.send_timed(bytes, &time_of).map_err(failed)?;
                at = at.saturating_add_unsigned(count);
                self.sent += count;
                if let Some(rate) = self.samples_a_second {
                    let since = Duration::try_from_secs_f64(self.sent as f64 / rate);
                    // A time beyond the clock's range is never reached.
                    let far = Duration::from_secs(1 << 40);
                    let due = started + since.unwrap_or(far).min(far);
                    while let Some(left) = due.checked_duration_since(Instant::now()) {
                        std::thread::sleep(left.min(MAX_SLEEP));
                        sender.send_due().map_err(failed)?;
                    }
                }
            }
        }
        Ok(0)
    }

    fn on_break(&mut self, why: &Break) -> Result<(), OpError> {
        if let (Break::ClockStep { .. }, Some(sender)) = (why, &mut self.sender) {
            sender.step();
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), OpError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), OpError> {
        match self.sender.take() {
            Some(mut sender) => {
                let gaps = self.reads.as_ref().map(SharedRecording::outer_gaps);
                sender.skip(gaps.map_or(0, |gaps| gaps.from(self.expected)));
                sender.end().map(drop).map_err(failed)
            }
            None => Ok(()),
        }
    }
}

impl Drop for WireWriter {
    fn drop(&mut self) {
        // The run failed or was stopped.
        if let Some(sender) = self.sender.take() {
            let _ = sender.stop();
        }
    }
}

/// None if there is nothing to state.
fn description_of(stream: &Stream, reads: Option<&SharedRecording>) -> Option<SenderDescription> {
    let own = reads.and_then(SharedRecording::description);
    let (calibration, attributes) = match own {
        Some(own) => (own.calibration, own.attributes),
        None => (stream.calibration.clone(), Map::new()),
    };
    let described = SenderDescription {
        rate: stream.rate,
        calibration,
        knows_all_times: reads.is_some_and(SharedRecording::knows_all_times),
        attributes,
    };
    let says = described.knows_all_times
        || !described.attributes.is_empty()
        || described.calibration != Calibration::default();
    says.then_some(described)
}

fn time_of(clock: &dyn Clock, index: i64) -> Option<SampleTime> {
    if let Some(stamp) = clock
        .stamp(index)
        .filter(|stamp| stamp.resolution == Fixed::ZERO)
    {
        return Some(SampleTime::Exact(stamp.civil));
    }
    let mut time = [i64::MIN];
    clock.times(&[index], &mut time).ok()?;
    (time[0] != i64::MIN).then(|| SampleTime::Rounded(Fixed::from_int(time[0])))
}

fn failed(error: LiveError) -> OpError {
    OpErrorKind::Failed(Cause::from(error)).into()
}
