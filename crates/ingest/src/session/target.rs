//! A signal that an import feeds.

mod put;

use std::ops::Range;

use isochrony_store::op::RunReason;
use isochrony_store::{CreateOptions, SampleFormat, Signal, SignalWriter, Store, StoreError};
use isochrony_time::{Fixed, Placement, Stamp};
use serde_json::Value;

use super::held::{HeldBlock, UndecidedBlocks};
use super::provenance::{self, ImportedFile, UnrecordedFiles};
use super::{SessionOptions, SignalSummary, Spec};
use crate::IngestError;

/// Smaller relative differences of rates are ignored.
const SAME_RATE: f64 = 1e-3;

pub(crate) struct Target {
    name: String,
    writer: SignalWriter,
    format: SampleFormat,
    /// The spec checked last; a file's blocks share it.
    checked: Option<Spec>,
    /// Civil end of the live run when the session began.
    ended: Option<Fixed>,
    /// Latest stored stamp: a duplicate has none later.
    latest: Option<Fixed>,
    edge: Option<f64>,
    value_jump: Option<f64>,
    scale: (f64, f64),
    held: Option<HeldBlock>,
    pub(super) undecided: Option<UndecidedBlocks>,
    pub(super) tip: Option<Fixed>,
    pub(super) fed_by: Option<u64>,
    unrecorded: UnrecordedFiles,
    files: u64,
    duplicates: u64,
    pub(crate) known: u64,
    added: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileOutcome {
    /// More of it follows, and it is counted then.
    Part,
    Stored,
    /// All were stored from this source before.
    Known,
    Duplicate,
}

impl Target {
    pub(crate) fn open(
        store: &Store,
        name: &str,
        spec: &Spec,
        options: &SessionOptions,
    ) -> Result<Self, IngestError> {
        let writer = if store.contains(name)? {
            store.writer(name)?
        } else {
            let mut create = CreateOptions::new(spec.format, spec.rate);
            create.unit.clone_from(&spec.unit);
            create.calibration = spec.calibration;
            create.attributes.clone_from(&spec.attributes);
            create.gap_slip_ns = options.gap_slip_ns;
            create.initial_rate = options.initial_rate;
            create.alpha = options.alpha.unwrap_or(create.alpha);
            create.max_gap_ns = options.max_gap_ns.unwrap_or(create.max_gap_ns);
            store.create(name, &create)?
        };
        let signal = writer.signal()?;
        let stamps = signal.state().points.iter();
        let latest = stamps
            .map(|point| Fixed::from_parts(point.civil_ns, point.civil_frac))
            .max();
        let ended = live_end(&signal.as_recorded())?;
        Ok(Self {
            name: name.into(),
            format: signal.format(),
            checked: None,
            ended,
            latest,
            edge: None,
            value_jump: options.value_jump,
            scale: signal.state().meta.calibration.unwrap_or((1.0, 0.0)),
            writer,
            held: None,
            undecided: None,
            tip: ended,
            fed_by: None,
            unrecorded: UnrecordedFiles::default(),
            files: 0,
            duplicates: 0,
            known: 0,
            added: 0,
        })
    }

    pub(crate) fn check(&mut self, spec: &Spec) -> Result<(), IngestError> {
        if self.checked.as_ref() == Some(spec) {
            return Ok(());
        }
        let signal = self.writer.signal()?;
        let mismatch = |what, have: String, got: String| IngestError::Mismatch {
            signal: self.name.clone(),
            what,
            have,
            got,
        };
        if signal.format() != spec.format {
            return Err(mismatch(
                "dtype",
                signal.format().to_string(),
                spec.format.to_string(),
            ));
        }
        let (have, got) = (signal.rate().to_f64(), spec.rate.to_f64());
        if (got / have - 1.0).abs() > SAME_RATE {
            return Err(mismatch(
                "rate",
                format!("{} Hz", signal.rate()),
                format!("{} Hz", spec.rate),
            ));
        }
        if !spec.unit.is_empty() && !signal.unit().is_empty() && signal.unit() != spec.unit {
            return Err(mismatch("unit", signal.unit().into(), spec.unit.clone()));
        }
        let have = signal.state().meta.calibration.unwrap_or((1.0, 0.0));
        let got = spec.calibration.unwrap_or((1.0, 0.0));
        if spec.calibration.is_some() && have != got {
            return Err(mismatch(
                "calibration",
                format!("{have:?}"),
                format!("{got:?}"),
            ));
        }
        self.checked = Some(spec.clone());
        Ok(())
    }

    pub(crate) fn check_bytes(&self, bytes: &[u8]) -> Result<(), IngestError> {
        if bytes.len().is_multiple_of(self.format.size()) {
            return Ok(());
        }
        Err(IngestError::Store(StoreError::PartialSample {
            signal: self.name.clone(),
            bytes: bytes.len(),
            format: self.format,
        }))
    }

    pub(super) fn begin_run(&mut self) -> Result<(), IngestError> {
        self.writer.begin_run()?;
        self.edge = None;
        Ok(())
    }

    pub(crate) fn hold(&mut self, held: HeldBlock) {
        self.held = Some(held);
    }

    pub(crate) fn holds(&self) -> bool {
        self.held.is_some()
    }

    pub(crate) fn holds_copy(&self, bytes: &[u8], stamp: Option<&Stamp>) -> bool {
        let held = self.held.as_ref();
        held.is_some_and(|held| held.stamp.as_ref() == stamp && held.bytes == bytes)
    }

    pub(super) fn held_stamp(&self) -> Option<&Stamp> {
        self.held.as_ref().and_then(|held| held.stamp.as_ref())
    }

    pub(crate) fn unhold(&mut self) -> Option<HeldBlock> {
        self.held.take()
    }

    /// The stamp at `index`, with the resolution of the first one.
    pub(crate) fn stamp_at(&self, index: i64, resolution: Fixed) -> Result<Stamp, IngestError> {
        let time = self.signal()?.time_of(index)?;
        Ok(Stamp::new(time.value, resolution))
    }

    pub(crate) fn holds_at(&self, index: i64, bytes: &[u8]) -> Result<bool, IngestError> {
        let signal = self.writer.signal()?;
        let end = index + (bytes.len() / self.format.size()) as i64;
        if end > signal.end_index() || !signal.contiguous(index..end)? {
            return Ok(false);
        }
        let mut rest = bytes;
        for segment in signal.select(index..end)?.segments() {
            for buffer in segment?.buffers() {
                match rest.strip_prefix(buffer.bytes()) {
                    Some(after) => rest = after,
                    None => return Ok(false),
                }
            }
        }
        Ok(rest.is_empty())
    }

    /// From now on, the present end separates late blocks from new ones.
    pub(crate) fn set_late_boundary(&mut self) -> Result<(), IngestError> {
        self.ended = live_end(&self.signal()?)?;
        Ok(())
    }

    pub(super) fn format(&self) -> SampleFormat {
        self.format
    }

    pub(super) fn duration(&self, samples: i64) -> Result<Fixed, IngestError> {
        let rate = match &self.checked {
            Some(spec) => spec.rate,
            None => self.writer.signal()?.rate(),
        };
        Ok(rate.duration_ns(samples).map_err(StoreError::from)?)
    }

    pub(super) fn civil_range(
        &self,
        bytes: &[u8],
        stamp: &Stamp,
    ) -> Result<Range<Fixed>, IngestError> {
        let duration = self.duration((bytes.len() / self.format.size()) as i64)?;
        let end = stamp.civil.checked_add(duration);
        Ok(stamp.civil..end.unwrap_or(stamp.civil))
    }

    /// The placement of samples if appended.
    pub(super) fn placement(
        &self,
        samples: i64,
        stamp: &Stamp,
        next: Option<&Stamp>,
    ) -> Result<Placement, IngestError> {
        Ok(self.writer.placement(samples, stamp, next)?)
    }

    pub(crate) fn settle(&mut self, file: ImportedFile, outcome: FileOutcome) {
        match outcome {
            FileOutcome::Part => {}
            FileOutcome::Stored => self.files += 1,
            FileOutcome::Known => self.known += 1,
            FileOutcome::Duplicate => self.duplicates += 1,
        }
        self.unrecorded.push(file);
    }

    pub(crate) fn queue_provenance(&mut self) -> Result<(), IngestError> {
        for (start, end, fields) in self.unrecorded.take_events() {
            let Value::Object(fields) = fields else {
                continue;
            };
            self.writer
                .add_event(provenance::EVENT_KIND, start..end, &fields)?;
        }
        Ok(())
    }

    /// The signal on its recorder's own clock, as stamps are.
    pub(crate) fn signal(&self) -> Result<Signal, IngestError> {
        Ok(self.writer.signal()?.as_recorded())
    }

    pub(crate) fn summary(self) -> Result<SignalSummary, IngestError> {
        let signal = self.writer.signal()?;
        let spans = signal.empirical()?.map(|civil| {
            let first = civil.runs().iter().map(|run| run.civil).min();
            let last = civil.runs().iter().map(|run| run.civil_end).max();
            first.zip(last)
        });
        Ok(SignalSummary {
            name: self.name,
            files: self.files,
            added: self.added,
            skipped: self.known,
            duplicates: self.duplicates,
            samples: signal.sample_count(),
            gaps: signal.gaps().len() as u64,
            runs: signal.state().runs.len() as u64,
            rate: signal.true_rate()?,
            nominal_rate: signal.rate(),
            unit: signal.unit().into(),
            time_span: spans.flatten(),
        })
    }
}

fn live_end(signal: &Signal) -> Result<Option<Fixed>, IngestError> {
    let late = |reason| matches!(reason, RunReason::Overlap | RunReason::Late);
    let live = signal
        .state()
        .runs
        .iter()
        .filter(|run| !late(run.reason))
        .last();
    let (Some(live), Some(civil)) = (live, signal.empirical()?) else {
        return Ok(None);
    };
    // A run with gaps has several spans.
    let spans = civil.runs().iter().filter(|span| span.run.0 == live.id);
    Ok(spans.map(|span| span.civil_end).max())
}
