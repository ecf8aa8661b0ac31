//! WAV files as a sink.
//!
//! WAV has neither gaps nor times. A gap is an error unless [`WavGaps`] says to write zeros, or one file per gap-free
//! range. A clock step, whose silence has no known length, ends a file or is an error. Samples beyond full scale and
//! fractional rates are errors; nothing is clipped or rounded.

use std::path::{Path, PathBuf};

use isochrony_segment::DType;
use serde_json::{Map, Value, json};

use super::wav_format::{Header, WavFormat};
use super::wav_writer::{WavGaps, WavWriter};
use crate::operators::wrong_input;
use crate::{
    OpError, OpErrorKind, PlanError, PortType, SharedFactory, SharedRecording, Sink, SinkFactory,
    SinkWriter,
};

/// Writes samples to WAV files.
#[derive(Debug, Clone, PartialEq)]
pub struct WavSink {
    path: PathBuf,
    /// None: chosen by dtype.
    format: Option<WavFormat>,
    gaps: WavGaps,
    keep_partial: bool,
}

impl WavSink {
    /// Name in saved plans.
    pub const NAME: &'static str = "sink_wav";

    /// `format`: None for the smallest that holds all values of the dtype. `keep_partial`: a failure leaves the file
    /// under its [`partial_name`](super::partial_name).
    pub fn new(
        path: impl AsRef<Path>,
        format: Option<WavFormat>,
        gaps: WavGaps,
        keep_partial: bool,
    ) -> Self {
        let path = path.as_ref();
        Self {
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            format,
            gaps,
            keep_partial,
        }
    }

    /// The sink of a saved plan.
    ///
    /// # Errors
    /// [`PlanError::Unreadable`].
    pub fn resolve(saved: &Map<String, Value>) -> Result<SharedFactory, PlanError> {
        let unreadable = |why: &str| PlanError::Unreadable { why: why.into() };
        let text = |key: &str| saved.get(key).and_then(Value::as_str);
        let path = text("path").ok_or_else(|| unreadable("sink_wav has no path"))?;
        let format = match text("format") {
            None => None,
            Some(name) => {
                let named = WavFormat::ALL.iter().find(|(known, _)| *known == name);
                Some(
                    named
                        .ok_or_else(|| unreadable("sink_wav has an unknown format"))?
                        .1,
                )
            }
        };
        let gaps = text("gaps").unwrap_or("error");
        let gaps = WavGaps::ALL.iter().find(|(name, _)| *name == gaps);
        let gaps = gaps
            .ok_or_else(|| unreadable("sink_wav has an unknown gaps="))?
            .1;
        let keep_partial = saved.get("keep_partial") == Some(&Value::Bool(true));
        let sink = Self::new(path, format, gaps, keep_partial);
        Ok(SharedFactory::new(SinkFactory::new(sink)))
    }
}

fn channels(port: &PortType) -> Option<u16> {
    match *port {
        PortType::Samples { .. } => Some(1),
        PortType::Frames {
            window: 1,
            hop: 1,
            width,
            ..
        } => u16::try_from(width).ok(),
        _ => None,
    }
}

impl Sink for WavSink {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn label(&self) -> String {
        let format = self
            .format
            .map(|format| format!(", format={:?}", format.name()));
        let gaps = WavGaps::ALL.iter().find(|(_, gaps)| *gaps == self.gaps);
        let gaps = gaps.filter(|(_, gaps)| *gaps != WavGaps::Error);
        let gaps = gaps.map(|(name, _)| format!(", gaps={name:?}"));
        format!(
            "sink_wav({}{}{})",
            self.path.display(),
            format.unwrap_or_default(),
            gaps.unwrap_or_default()
        )
    }

    fn accepts(&self, port: &PortType) -> Result<(), PlanError> {
        let wrong = |mend| Err(wrong_input(Self::NAME, "real samples", port, mend));
        let (Some(_), Some(dtype), Some(stream)) = (channels(port), port.dtype(), port.stream())
        else {
            return wrong(port.samples_remedy());
        };
        let none = matches!(dtype, DType::I64 | DType::Bool | DType::C64 | DType::C128);
        if none {
            return wrong("convert them, as with map(lambda s: s.astype(\"f4\"))");
        }
        if self.format.is_none() && WavFormat::of(dtype).is_none() {
            return wrong(
                "WAV has no integer type that holds all of uint32: give format=\"float64\", or \"int32\" where all are below 2^31",
            );
        }
        if stream.rate.den() != 1 || u32::try_from(stream.rate.num()).is_err() {
            return wrong("WAV has whole rates in Hz only: resample, or write another format");
        }
        Ok(())
    }

    fn open(
        &self,
        port: &PortType,
        reads: Option<&SharedRecording>,
    ) -> Result<Box<dyn SinkWriter>, OpError> {
        let wrong = || OpErrorKind::WrongItem {
            expected: "samples",
            got: port.kind(),
        };
        let channels = channels(port).ok_or_else(wrong)?;
        let (dtype, stream) = port.dtype().zip(port.stream()).ok_or_else(wrong)?;
        let format = self
            .format
            .or_else(|| WavFormat::of(dtype))
            .ok_or_else(wrong)?;
        let header = Header {
            format,
            channels,
            rate: stream.rate.num() as u32,
            name: stream.name.to_string(),
            start_time: None,
        };
        let clock = reads.and_then(|recording| recording.clock_of(stream));
        Ok(Box::new(WavWriter::open(
            self.path.clone(),
            self.gaps,
            self.keep_partial,
            dtype,
            header,
            clock,
        )?))
    }

    fn saved(&self) -> Result<Map<String, Value>, PlanError> {
        let gaps = WavGaps::ALL.iter().find(|(_, gaps)| *gaps == self.gaps);
        let saved = json!({
            "path": self.path.to_string_lossy(),
            "format": self.format.map(WavFormat::name),
            "gaps": gaps.map_or("error", |(name, _)| name),
            "keep_partial": self.keep_partial,
        });
        Ok(saved.as_object().cloned().unwrap_or_default())
    }
}
