//! A signal of a store as a sink.
//!
//! Samples, and windows that hold all samples, keep their rate. Windows of one computed value become a signal of one
//! sample per hop. Samples removed by a filter become a gap. [`writer`] defines gaps, clock steps and times.

mod calibration;
mod writer;

use isochrony_store::{CreateOptions, Store};
use isochrony_time::Rate;
use serde_json::{Map, Value, json};

use super::signal_location::SignalLocation;
use crate::operators::wrong_input;
use crate::plan::error::store_error;
use crate::{
    OpError, OpErrorKind, PlanError, PortType, SharedFactory, SharedRecording, Sink, SinkWriter,
};
use calibration::{check_calibration, refused};
use writer::{CopySource, SignalSinkWriter};

/// Action if the signal exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfExists {
    /// Fail and change nothing.
    Refuse,
    /// Replace it at the first commit.
    Overwrite,
    /// Append samples of the same dtype and rate.
    Append,
}

impl IfExists {
    const ALL: [(&'static str, Self); 3] = [
        ("refuse", Self::Refuse),
        ("overwrite", Self::Overwrite),
        ("append", Self::Append),
    ];
}

/// Writes samples to a signal of a store.
///
/// ```no_run
/// use isochrony_flow::{IfExists, SignalLocation, Plan, StoredRecording, SignalSink};
/// use isochrony_store::{Mode, Store};
///
/// let store = Store::open("water.iso", Mode::ReadWrite)?;
/// let windows = Plan::scan(StoredRecording::new(store.path(), store.signal("stn_10/pressure")?)).rewindow(2000)?;
/// let mean = windows.map(&isochrony_expr::Expr::input().mean())?;
/// mean.sink(SignalSink::new(SignalLocation::new(&store, "stn_10/mean"), IfExists::Refuse))?.run()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct SignalSink {
    location: SignalLocation,
    if_exists: IfExists,
}

impl SignalSink {
    /// Name in saved plans.
    pub const NAME: &'static str = "sink";

    /// Writes to the signal at a location.
    #[must_use]
    pub fn new(location: SignalLocation, if_exists: IfExists) -> Self {
        Self {
            location,
            if_exists,
        }
    }

    /// The sink of a saved plan, in the store named there or in `store`.
    ///
    /// # Errors
    /// [`PlanError::Unreadable`].
    pub fn resolve(
        saved: &Map<String, Value>,
        store: Option<&Store>,
    ) -> Result<SharedFactory, PlanError> {
        let word = saved.get("if_exists").and_then(Value::as_str);
        let word = word.unwrap_or("refuse");
        let known = IfExists::ALL.iter().find(|(name, _)| *name == word);
        let Some(&(_, if_exists)) = known else {
            return Err(PlanError::Unreadable {
                why: format!("if_exists is {word:?}, not one of refuse, overwrite, append"),
            });
        };
        let location = SignalLocation::resolve(saved, store)?;
        Ok(SharedFactory::new(crate::SinkFactory::new(Self::new(
            location, if_exists,
        ))))
    }
}

fn shape(port: &PortType) -> Option<(u64, usize)> {
    match *port {
        PortType::Samples { .. } => Some((1, 1)),
        PortType::Frames { hop, width: 1, .. } => Some((hop, 1)),
        PortType::Frames {
            window, hop, width, ..
        } if width as u64 == window && hop >= window => Some((1, width)),
        _ => None,
    }
}

impl Sink for SignalSink {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn label(&self) -> String {
        let how = match self.if_exists {
            IfExists::Refuse => "",
            IfExists::Overwrite => ", overwrite=True",
            IfExists::Append => ", append=True",
        };
        format!("sink({}{how})", self.location.signal())
    }

    fn accepts(&self, port: &PortType) -> Result<(), PlanError> {
        let mend = "give one value per window, such as map(lambda s: s.mean()), or windows without overlap";
        match shape(port) {
            Some(_) => Ok(()),
            None => Err(wrong_input(Self::NAME, "samples", port, mend)),
        }
    }

    fn open(
        &self,
        port: &PortType,
        reads: Option<&SharedRecording>,
    ) -> Result<Box<dyn SinkWriter>, OpError> {
        let (Some((step, per_window)), Some(dtype), Some(stream)) =
            (shape(port), port.dtype(), port.stream())
        else {
            let kind = port.kind();
            return Err(OpErrorKind::WrongItem {
                expected: "samples",
                got: kind,
            }
            .into());
        };
        let is_samples = matches!(port, PortType::Samples { .. });
        let rate = over(stream.rate, step)?;
        let store = self.location.open()?;
        let name = self.location.signal();
        let exists = store.contains(name).map_err(store_error)?;
        // A stored signal's calibration is in the stream; its attributes are not copied.
        let feed = reads.filter(|reads| reads.0.stored().is_none());
        let described = feed.and_then(SharedRecording::description);
        let appends = exists && self.if_exists == IfExists::Append;
        let writer = if appends {
            let signal = store.signal(name).map_err(store_error)?;
            if signal.dtype() != dtype || signal.rate() != rate {
                return Err(refused(format!(
                    "{name:?} has {} at {} Hz and cannot take {dtype} at {rate} Hz; choose another name",
                    signal.dtype(),
                    signal.rate()
                )));
            }
            if let Some(described) = &described {
                check_calibration(&signal, &described.calibration)?;
            }
            store.writer(name).map_err(store_error)?
        } else {
            let mut options = CreateOptions::new(dtype, rate);
            let calibration = match &described {
                Some(described) => &described.calibration,
                None => &stream.calibration,
            };
            options.unit = calibration.unit().into();
            if !calibration.is_identity() {
                options.calibration = Some((calibration.scale(), calibration.offset()));
            }
            if let Some(described) = &described {
                options.attributes = described.attributes.clone();
            }
            options.overwrite = self.if_exists == IfExists::Overwrite;
            store.create(name, &options).map_err(store_error)?
        };
        let clock = reads.and_then(|recording| recording.clock_of(stream));
        let copied = CopySource {
            // Computed samples lack edges, which are no gaps.
            reads: reads
                .filter(|reads| is_samples && reads.0.gives_own_samples())
                .cloned(),
            is_feed: feed.is_some(),
            awaits_description: feed.is_some() && described.is_none() && !appends,
        };
        let out = SignalSinkWriter::new(store, writer, (step, per_window), clock, copied)?;
        Ok(Box::new(out))
    }

    fn saved(&self) -> Result<Map<String, Value>, PlanError> {
        let mut saved = self.location.saved();
        let word = IfExists::ALL
            .iter()
            .find(|(_, how)| *how == self.if_exists)
            .map_or("refuse", |(word, _)| word);
        saved.insert("if_exists".into(), json!(word));
        Ok(saved)
    }

    fn writes(&self, recording: &Map<String, Value>) -> bool {
        self.location.is_read_by(recording)
    }
}

fn over(rate: Rate, step: u64) -> Result<Rate, OpError> {
    let den = rate.den().checked_mul(step);
    let made = den.and_then(|den| Rate::new(rate.num(), den).ok());
    made.ok_or_else(|| {
        refused(format!(
            "a signal cannot have the rate of {rate} Hz divided by {step} samples; make the hop shorter"
        ))
    })
}
