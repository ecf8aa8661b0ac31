//! What flows as a signal of a store.
//!
//! Samples, and windows that are samples still, keep their rate. Windows of one computed value become a signal with one
//! sample every hop. What a filter removed leaves a gap there, as a gap does: a signal has no other way to say that
//! there is nothing at a time.
//!
//! *Gaps* take as many samples of the new signal as fit their length on the index axis, at least one; where the
//! recording's clock says that the gap lasted something else, as one does whose length is address space only, it takes
//! what its duration says. *Clock steps* begin a run. *Time*: the first sample of every stretch is stamped with the
//! recording's civil time, and so is one sample a minute, at fixed numbers of samples from there, so that the new signal
//! follows the recording's clock and nothing depends on how items were cut.

use std::sync::Arc;

use isochrony_segment::Calibration;
use isochrony_store::{CreateOptions, SignalWriter, Store};
use isochrony_time::{Fixed, Rate};
use serde_json::{Map, Value, json};

use crate::ops::wrong_input;
use crate::place::{Place, failed};
use crate::{
    Break, Cause, Clock, Frames, Item, Kept, Live, OpError, OpErrorKind, PlanError, PortType,
    Target, Writer,
};

/// What happens where the signal exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfExists {
    /// The run fails and changes nothing.
    Refuse,
    /// It is removed with the first commit, and made anew.
    Overwrite,
    /// Samples are added to it: those of the same dtype and rate.
    Append,
}

impl IfExists {
    const ALL: [(&'static str, Self); 3] = [
        ("refuse", Self::Refuse),
        ("overwrite", Self::Overwrite),
        ("append", Self::Append),
    ];
}

/// A signal of a store as a target.
///
/// ```no_run
/// use isochrony_flow::{IfExists, Place, Plan, Stored, ToSignal};
/// use isochrony_store::{Mode, Store};
///
/// let store = Store::open("water.iso", Mode::ReadWrite)?;
/// let windows = Plan::scan(Stored::new(store.path(), store.signal("stn_10/pressure")?)).rewindow(2000)?;
/// let mean = windows.map(&isochrony_expr::Expr::input().mean())?;
/// mean.keep(ToSignal::new(Place::new(&store, "stn_10/mean"), IfExists::Refuse))?.run()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct ToSignal {
    place: Place,
    if_exists: IfExists,
}

impl ToSignal {
    /// The name under which plans save it.
    pub const NAME: &'static str = "sink";

    /// A signal there.
    #[must_use]
    pub fn new(place: Place, if_exists: IfExists) -> Self {
        Self { place, if_exists }
    }

    /// The target that a saved plan names, in the store that it names or in another one.
    ///
    /// # Errors
    /// [`PlanError::Unreadable`].
    pub fn resolve(saved: &Map<String, Value>, store: Option<&Store>) -> Result<Kept, PlanError> {
        let word = saved.get("if_exists").and_then(Value::as_str);
        let word = word.unwrap_or("refuse");
        let known = IfExists::ALL.iter().find(|(name, _)| *name == word);
        let Some(&(_, if_exists)) = known else {
            return Err(PlanError::Unreadable {
                why: format!("if_exists is {word:?}, not one of refuse, overwrite, append"),
            });
        };
        let place = Place::resolve(saved, store)?;
        Ok(Kept::new(crate::Keep::new(Self::new(place, if_exists))))
    }
}

/// How windows become samples: source indices from one sample to the next, and samples that each window gives.
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

impl Target for ToSignal {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn label(&self) -> String {
        let how = match self.if_exists {
            IfExists::Refuse => "",
            IfExists::Overwrite => ", overwrite=True",
            IfExists::Append => ", append=True",
        };
        format!("sink({}{how})", self.place.signal())
    }

    fn accepts(&self, port: &PortType) -> Result<(), PlanError> {
        let mend =
            "give one value a window, as map(lambda s: s.mean()), or windows without overlap";
        match shape(port) {
            Some(_) => Ok(()),
            None => Err(wrong_input(Self::NAME, "samples", port, mend)),
        }
    }

    fn open(&self, port: &PortType, reads: Option<&Live>) -> Result<Box<dyn Writer>, OpError> {
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
        let rate = over(stream.rate, step)?;
        let store = self.place.open()?;
        let name = self.place.signal();
        let exists = store.contains(name).map_err(failed)?;
        let writer = if exists && self.if_exists == IfExists::Append {
            let signal = store.signal(name).map_err(failed)?;
            if signal.dtype() != dtype || signal.rate() != rate {
                return Err(refused(format!(
                    "{name:?} has {} at {} Hz and cannot take {dtype} at {rate} Hz; choose another name",
                    signal.dtype(),
                    signal.rate()
                )));
            }
            store.writer(name).map_err(failed)?
        } else {
            let mut options = CreateOptions::new(dtype, rate);
            let calibration: &Calibration = &stream.calibration;
            options.unit = calibration.unit().into();
            if !calibration.is_identity() {
                options.calibration = Some((calibration.scale(), calibration.offset()));
            }
            options.overwrite = self.if_exists == IfExists::Overwrite;
            store.create(name, &options).map_err(failed)?
        };
        Ok(Box::new(SignalOut {
            store,
            writer,
            rate,
            step: step.cast_signed(),
            per_window,
            size: dtype.size(),
            clock: reads.and_then(Live::clock),
            stamp_every: ((rate.to_f64() * 60.0) as u64).clamp(1, 1 << 24),
            since_stamp: 0,
            expected: None,
            new_run: false,
        }))
    }

    fn saved(&self) -> Result<Map<String, Value>, PlanError> {
        let mut saved = self.place.saved();
        let word = IfExists::ALL
            .iter()
            .find(|(_, how)| *how == self.if_exists)
            .map_or("refuse", |(word, _)| word);
        saved.insert("if_exists".into(), json!(word));
        Ok(saved)
    }

    fn writes(&self, recording: &Map<String, Value>) -> bool {
        self.place.is_read_by(recording)
    }
}

/// A rate over a number of samples.
fn over(rate: Rate, step: u64) -> Result<Rate, OpError> {
    let den = rate.den().checked_mul(step);
    let made = den.and_then(|den| Rate::new(rate.num(), den).ok());
    made.ok_or_else(|| {
        refused(format!(
            "{rate} Hz over {step} samples is no rate that a signal can have; make the hop shorter"
        ))
    })
}

fn refused(why: String) -> OpError {
    OpErrorKind::Failed(Cause::from(why)).into()
}

/// What one run writes.
struct SignalOut {
    store: Arc<Store>,
    writer: SignalWriter,
    rate: Rate,
    /// Source indices from one sample to the next.
    step: i64,
    /// Samples that each window gives.
    per_window: usize,
    size: usize,
    clock: Option<Arc<dyn Clock>>,
    /// Samples from one stamp to the next, and since the last one.
    stamp_every: u64,
    since_stamp: u64,
    /// Source index that would continue what was written.
    expected: Option<i64>,
    /// The clock was set since.
    new_run: bool,
}

impl SignalOut {
    fn stamp(&self, index: i64) -> Option<isochrony_time::Stamp> {
        self.clock.as_ref()?.stamp(index)
    }

    /// Samples that follow one another, the first at a source index.
    fn piece(&mut self, start: i64, mut bytes: &[u8]) -> Result<(), OpError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let expected = self.expected;
        if self.new_run || expected.is_some_and(|expected| start < expected) {
            self.new_run = false;
            if expected.is_some() {
                self.writer.begin_run().map_err(failed)?;
            }
            self.since_stamp = 0;
        } else if let Some(expected) = expected.filter(|&expected| expected < start) {
            self.gap(expected, start)?;
            self.since_stamp = 0;
        }
        let count = (bytes.len() / self.size) as u64;
        self.expected =
            Some(start.saturating_add_unsigned(count.saturating_mul(self.step.unsigned_abs())));
        let mut at = start;
        while !bytes.is_empty() {
            let left = self.stamp_every - self.since_stamp;
            let take = left.min((bytes.len() / self.size) as u64);
            let (now, rest) = bytes.split_at(take as usize * self.size);
            let stamp = (self.since_stamp == 0).then(|| self.stamp(at)).flatten();
            match stamp {
                Some(stamp) => self.writer.append_bytes_at(now, &stamp, None),
                None => self.writer.append_bytes(now),
            }
            .map_err(failed)?;
            at = at.saturating_add_unsigned(take.saturating_mul(self.step.unsigned_abs()));
            self.since_stamp = (self.since_stamp + take) % self.stamp_every;
            bytes = rest;
        }
        Ok(())
    }

    /// Nothing between two source indices.
    fn gap(&mut self, from: i64, to: i64) -> Result<(), OpError> {
        let length = to.saturating_sub(from);
        let samples = ((length + self.step / 2) / self.step).max(1);
        let lasted = match (self.stamp(from), self.stamp(to)) {
            (Some(from), Some(to)) => to.civil.checked_sub(from.civil),
            _ => None,
        };
        let by_axis = self.rate.duration_ns(samples).ok();
        // A few samples off is the clock's own; more is a gap whose length on the axis is no duration.
        let slip = self.rate.duration_ns(5).unwrap_or(Fixed::ZERO);
        let differs = |lasted: Fixed, by_axis: Fixed| {
            let off = lasted.to_f64() - by_axis.to_f64();
            off.abs() > slip.to_f64() / 2.0 && lasted > Fixed::ZERO
        };
        match (lasted, by_axis) {
            (Some(lasted), Some(by_axis)) if differs(lasted, by_axis) => {
                self.writer.append_gap_duration(lasted)
            }
            _ => self.writer.append_gap(samples),
        }
        .map_err(failed)?;
        Ok(())
    }

    /// Windows of samples that do not overlap, or of one value each.
    fn frames(&mut self, frames: &Frames) -> Result<(), OpError> {
        let row = frames.width() * self.size;
        let stride = frames.stride() * self.size;
        let bytes = frames.buffer().bytes();
        let together = match self.per_window {
            1 => true,
            _ => frames.hop() == frames.window(),
        };
        if together && row == stride {
            return self.piece(frames.start(), bytes);
        }
        for k in 0..frames.count() {
            let at = k as usize * stride;
            self.piece(frames.window_start(k), &bytes[at..at + row])?;
        }
        Ok(())
    }
}

impl Writer for SignalOut {
    fn write(&mut self, item: &Item) -> Result<u64, OpError> {
        match item {
            Item::Samples(samples) => {
                let mut at = samples.start();
                for buffer in samples.buffers() {
                    self.piece(at, buffer.bytes())?;
                    at = at.saturating_add_unsigned((buffer.len() / self.size) as u64);
                }
                Ok(samples.len() * self.size as u64)
            }
            Item::Frames(frames) => {
                self.frames(frames)?;
                Ok(frames.count() * (frames.width() * self.size) as u64)
            }
            other => Err(OpErrorKind::WrongItem {
                expected: "samples or frames",
                got: other.kind(),
            }
            .into()),
        }
    }

    fn on_break(&mut self, why: &Break) -> Result<(), OpError> {
        self.new_run |= matches!(why, Break::Clock { .. });
        Ok(())
    }

    fn commit(&mut self) -> Result<(), OpError> {
        self.store.commit(true).map(drop).map_err(failed)
    }
}
