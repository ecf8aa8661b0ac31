//! Writes the samples of one execution to WAV files.

use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use isochrony_segment::DType;
use isochrony_time::civil;

use super::part_file::PartFile;
use super::wav_format::{Header, MAX_RIFF_BYTES, WavFormat, encode};
use crate::{Break, Cause, Clock, Item, OpError, OpErrorKind, SinkWriter};

/// Treatment of gaps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WavGaps {
    /// Fail.
    #[default]
    Error,
    /// Write zeros for missing indices.
    Zeros,
    /// Write one file per gap-free range.
    Split,
}

impl WavGaps {
    /// Names and values.
    pub const ALL: [(&'static str, Self); 3] = [
        ("error", Self::Error),
        ("zeros", Self::Zeros),
        ("split", Self::Split),
    ];
}

const BLOCK_SAMPLES: usize = 1 << 14;
const BUFFER_BYTES: usize = 1 << 18;
/// A day at 48 kHz, lest a wrong stamp fill the disk.
const MAX_ZEROS: u64 = 1 << 32;

fn refused(why: String) -> OpError {
    OpErrorKind::Failed(Cause::from(why)).into()
}

struct OpenWavFile {
    part: PartFile,
    out: BufWriter<std::fs::File>,
    header: Header,
    data_bytes: u64,
}

impl OpenWavFile {
    fn begin(path: &Path, header: Header) -> Result<Self, OpError> {
        let part = PartFile::create(path)?;
        let file = part.file().try_clone().map_err(|why| part.failed(&why))?;
        let mut writing = Self {
            out: BufWriter::with_capacity(BUFFER_BYTES, file),
            part,
            header,
            data_bytes: 0,
        };
        // Overwritten at the end by the final header, of the same size.
        let header = writing.header.bytes(0, MAX_RIFF_BYTES);
        writing.put(&header)?;
        Ok(writing)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), OpError> {
        self.out
            .write_all(bytes)
            .map_err(|why| self.part.failed(&why))
    }

    fn end(&mut self, whole: bool) -> Result<(), OpError> {
        if self.data_bytes % 2 == 1 {
            self.put(&[0])?;
        }
        let header = self.header.bytes(self.data_bytes, MAX_RIFF_BYTES);
        let written = self
            .out
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.out.write_all(&header))
            .and_then(|()| self.out.flush());
        written.map_err(|why| self.part.failed(&why))?;
        self.part.keep(whole)
    }
}

pub(super) struct WavWriter {
    path: PathBuf,
    gaps: WavGaps,
    keep_partial: bool,
    dtype: DType,
    /// Of the next file.
    header: Header,
    clock: Option<Arc<dyn Clock>>,
    file: Option<OpenWavFile>,
    files: usize,
    /// Index of the next sample without a gap.
    expected: Option<i64>,
    /// Since the last sample.
    clock_step: bool,
    encoded: Vec<u8>,
}

impl WavWriter {
    /// `header`: of the first file, without its start time.
    pub(super) fn open(
        path: PathBuf,
        gaps: WavGaps,
        keep_partial: bool,
        dtype: DType,
        header: Header,
        clock: Option<Arc<dyn Clock>>,
    ) -> Result<Self, OpError> {
        let mut out = Self {
            path,
            gaps,
            keep_partial,
            dtype,
            header,
            clock,
            file: None,
            files: 0,
            expected: None,
            clock_step: false,
            encoded: Vec::new(),
        };
        if out.gaps != WavGaps::Split {
            // Fail early if the path is not writable.
            out.begin(None)?;
        }
        Ok(out)
    }

    fn begin(&mut self, start: Option<i64>) -> Result<(), OpError> {
        self.files += 1;
        let path = match self.gaps {
            WavGaps::Split => numbered(&self.path, self.files),
            _ => self.path.clone(),
        };
        let mut header = self.header.clone();
        let start_time = start.zip(self.clock.as_ref());
        let start_time = start_time.and_then(|(start, clock)| clock.stamp(start));
        // Spaces reserve room until the time is known.
        let start_time = start_time.map_or(" ".repeat(TIME_LEN), |stamp| padded_time(stamp.civil));
        header.start_time = self.clock.is_some().then_some(start_time);
        self.file = Some(OpenWavFile::begin(&path, header)?);
        Ok(())
    }

    fn end(&mut self) -> Result<(), OpError> {
        match self.file.take() {
            Some(mut file) => file.end(true),
            None => Ok(()),
        }
    }

    fn enter(&mut self, start: i64) -> Result<(), OpError> {
        let clock_step = std::mem::take(&mut self.clock_step);
        let missing = self
            .expected
            .map_or(0, |expected| start.saturating_sub(expected));
        let path = self.path.display();
        match (self.gaps, self.expected) {
            (_, Some(_)) if !clock_step && missing == 0 => {}
            (WavGaps::Split, _) => {
                self.end()?;
                self.begin(Some(start))?;
            }
            (_, None) => {
                let start_time = self.clock.as_ref().and_then(|clock| clock.stamp(start));
                if let (Some(file), Some(stamp)) = (&mut self.file, start_time) {
                    file.header.start_time = Some(padded_time(stamp.civil));
                }
            }
            (WavGaps::Zeros, Some(_)) if !clock_step && missing > 0 => {
                self.zeros(missing as u64)?
            }
            _ if clock_step || missing < 0 => {
                return Err(refused(format!(
                    "the clock was set before index {start}, which {path} cannot represent; write one file per contiguous range with gaps=\"split\""
                )));
            }
            _ => {
                return Err(refused(format!(
                    "{missing} samples are missing before index {start}, which {path} cannot represent; fill them with gaps=\"zeros\", or write one file per contiguous range with gaps=\"split\""
                )));
            }
        }
        Ok(())
    }

    fn zeros(&mut self, mut samples: u64) -> Result<(), OpError> {
        if samples > MAX_ZEROS {
            return Err(refused(format!(
                "a gap of {samples} samples lies before this; gaps=\"zeros\" fills up to {MAX_ZEROS}; write \
                 one file per contiguous range with gaps=\"split\""
            )));
        }
        let size = self.header.format.size() * usize::from(self.header.channels);
        let zero = if self.header.format == WavFormat::Int8 {
            128
        } else {
            0
        };
        let zeros = vec![zero; BLOCK_SAMPLES * size];
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        while samples > 0 {
            let now = samples.min(BLOCK_SAMPLES as u64);
            file.put(&zeros[..now as usize * size])?;
            file.data_bytes += now * size as u64;
            samples -= now;
        }
        Ok(())
    }

    fn samples(&mut self, start: i64, bytes: &[u8]) -> Result<(), OpError> {
        let size = self.dtype.size();
        for (piece, bytes) in bytes.chunks(BLOCK_SAMPLES * size).enumerate() {
            self.encoded.clear();
            let encoded = encode(bytes, self.dtype, self.header.format, &mut self.encoded);
            if let Err(out_of_range) = encoded {
                let at =
                    (piece * BLOCK_SAMPLES + out_of_range.at) / usize::from(self.header.channels);
                let index = start.saturating_add_unsigned(at as u64);
                let (value, format) = (out_of_range.value, self.header.format.name());
                return Err(refused(format!(
                    "sample {index} is {value}, which {format} cannot hold (floats are relative to a full scale of 1); scale it with map, or choose another format="
                )));
            }
            if let Some(file) = &mut self.file {
                file.put(&self.encoded)?;
                file.data_bytes += self.encoded.len() as u64;
            }
        }
        Ok(())
    }
}

const TIME_LEN: usize = "2026-01-01T00:00:00.000000000Z".len();

fn padded_time(time: isochrony_time::Fixed) -> String {
    let whole = isochrony_time::Fixed::from_int(time.round_i64().unwrap_or(0));
    format!("{:TIME_LEN$.TIME_LEN$}", civil::format(whole))
}

fn numbered(path: &Path, number: usize) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path
        .extension()
        .map(|extension| extension.to_string_lossy());
    let extension = extension.map_or(String::new(), |extension| format!(".{extension}"));
    path.with_file_name(format!("{stem}-{number}{extension}"))
}

impl SinkWriter for WavWriter {
    fn write(&mut self, item: &Item) -> Result<u64, OpError> {
        match item {
            Item::Samples(samples) if samples.is_empty() => return Ok(0),
            Item::Samples(samples) => {
                self.enter(samples.start())?;
                let mut at = samples.start();
                for buffer in samples.buffers() {
                    self.samples(at, buffer.bytes())?;
                    at = at.saturating_add_unsigned((buffer.len() / self.dtype.size()) as u64);
                }
                self.expected = Some(samples.end());
            }
            Item::Frames(frames) => {
                self.enter(frames.start())?;
                let row = frames.width() * self.dtype.size();
                let stride = frames.stride() * self.dtype.size();
                let bytes = frames.buffer().bytes();
                if row == stride {
                    self.samples(frames.start(), bytes)?;
                } else {
                    for k in 0..frames.count() {
                        let at = k as usize * stride;
                        self.samples(frames.window_start(k), &bytes[at..at + row])?;
                    }
                }
                self.expected = Some(frames.next_start());
            }
            other => {
                return Err(OpErrorKind::WrongItem {
                    expected: "samples",
                    got: other.kind(),
                }
                .into());
            }
        }
        // Files are committed only at the end.
        Ok(0)
    }

    fn on_break(&mut self, why: &Break) -> Result<(), OpError> {
        self.clock_step |= matches!(why, Break::ClockStep { .. });
        Ok(())
    }

    fn commit(&mut self) -> Result<(), OpError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), OpError> {
        self.end()
    }
}

impl Drop for WavWriter {
    fn drop(&mut self) {
        if self.keep_partial
            && let Some(mut file) = self.file.take_if(|file| file.data_bytes > 0)
        {
            // The execution failed already; its error is reported.
            let _ = file.end(false);
        }
    }
}
