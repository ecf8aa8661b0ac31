//! What one run writes as WAV: files one after the other, and what becomes of gaps and clock steps between samples.

use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use isochrony_segment::DType;
use isochrony_time::civil;

use super::part::PartFile;
use super::wav::{WavGaps, WavSink};
use super::wav_format::{Header, LARGEST, WavFormat, encode};
use crate::{Break, Cause, Clock, Item, OpError, OpErrorKind, SinkWriter};

/// Samples that are converted at a time.
const PIECE: usize = 1 << 14;
/// Bytes that are written at a time.
const BUFFER: usize = 1 << 18;
/// Samples of the longest gap that is filled: a day at 48 kHz. A wrong stamp could fill a disk.
const MOST_ZEROS: u64 = 1 << 32;

fn refused(why: String) -> OpError {
    OpErrorKind::Failed(Cause::from(why)).into()
}

/// A file that is being written.
struct Writing {
    part: PartFile,
    out: BufWriter<std::fs::File>,
    header: Header,
    /// Bytes of samples.
    data: u64,
}

impl Writing {
    fn begin(path: &Path, header: Header) -> Result<Self, OpError> {
        let part = PartFile::create(path)?;
        let file = part.file().try_clone().map_err(|why| part.failed(&why))?;
        let mut writing = Self {
            out: BufWriter::with_capacity(BUFFER, file),
            part,
            header,
            data: 0,
        };
        // Its size does not depend on what it says.
        let header = writing.header.bytes(0, LARGEST);
        writing.put(&header)?;
        Ok(writing)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), OpError> {
        self.out
            .write_all(bytes)
            .map_err(|why| self.part.failed(&why))
    }

    /// Writes the sizes and gives the file its name.
    fn end(&mut self, whole: bool) -> Result<(), OpError> {
        if self.data % 2 == 1 {
            self.put(&[0])?;
        }
        let header = self.header.bytes(self.data, LARGEST);
        let written = self
            .out
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.out.write_all(&header))
            .and_then(|()| self.out.flush());
        written.map_err(|why| self.part.failed(&why))?;
        self.part.keep(whole)
    }
}

/// What one run writes.
pub(super) struct WavOut {
    target: WavSink,
    dtype: DType,
    /// Of the next file.
    header: Header,
    clock: Option<Arc<dyn Clock>>,
    file: Option<Writing>,
    /// Files that were begun.
    files: usize,
    /// Index that would continue what was written.
    expected: Option<i64>,
    /// The clock was set since.
    set: bool,
    encoded: Vec<u8>,
}

impl WavOut {
    /// Prepares for samples of a dtype. `header`: of the first file, but for when it begins.
    pub(super) fn open(
        target: WavSink,
        dtype: DType,
        header: Header,
        clock: Option<Arc<dyn Clock>>,
    ) -> Result<Self, OpError> {
        let mut out = Self {
            target,
            dtype,
            header,
            clock,
            file: None,
            files: 0,
            expected: None,
            set: false,
            encoded: Vec::new(),
        };
        if out.target.gaps != WavGaps::Split {
            // A path that cannot be written to is known before anything is computed.
            out.begin(None)?;
        }
        Ok(out)
    }

    /// Begins a file, whose first sample has an index, if it is known.
    fn begin(&mut self, start: Option<i64>) -> Result<(), OpError> {
        self.files += 1;
        let path = match self.target.gaps {
            WavGaps::Split => numbered(&self.target.path, self.files),
            _ => self.target.path.clone(),
        };
        let mut header = self.header.clone();
        let begins = start.zip(self.clock.as_ref());
        let begins = begins.and_then(|(start, clock)| clock.stamp(start));
        // As long as any, so that a header that is written before the time is known has room for it.
        let begins = begins.map_or(" ".repeat(TIME), |stamp| time(stamp.civil));
        header.begins = self.clock.is_some().then_some(begins);
        self.file = Some(Writing::begin(&path, header)?);
        Ok(())
    }

    fn end(&mut self) -> Result<(), OpError> {
        match self.file.take() {
            Some(mut file) => file.end(true),
            None => Ok(()),
        }
    }

    /// Before samples at an index: what to make of what is missing.
    fn enter(&mut self, start: i64) -> Result<(), OpError> {
        let set = std::mem::take(&mut self.set);
        let missing = self
            .expected
            .map_or(0, |expected| start.saturating_sub(expected));
        let path = self.target.path.display();
        match (self.target.gaps, self.expected) {
            (_, Some(_)) if !set && missing == 0 => {}
            (WavGaps::Split, _) => {
                self.end()?;
                self.begin(Some(start))?;
            }
            (_, None) => {
                let begins = self.clock.as_ref().and_then(|clock| clock.stamp(start));
                if let (Some(file), Some(stamp)) = (&mut self.file, begins) {
                    file.header.begins = Some(time(stamp.civil));
                }
            }
            (WavGaps::Zeros, Some(_)) if !set && missing > 0 => self.zeros(missing as u64)?,
            _ if set || missing < 0 => {
                return Err(refused(format!(
                    "the clock was set before index {start}, which {path} cannot tell; write a file for every stretch with gaps=\"split\""
                )));
            }
            _ => {
                return Err(refused(format!(
                    "{missing} samples are missing before index {start}, which {path} cannot tell; fill them with gaps=\"zeros\", or write a file for every stretch with gaps=\"split\""
                )));
            }
        }
        Ok(())
    }

    fn zeros(&mut self, mut samples: u64) -> Result<(), OpError> {
        if samples > MOST_ZEROS {
            return Err(refused(format!(
                "a gap of {samples} samples lies before this; gaps=\"zeros\" fills up to {MOST_ZEROS}: write \
                 gaps=\"split\", a file for each stretch"
            )));
        }
        let size = self.header.format.size() * usize::from(self.header.channels);
        let zero = if self.header.format == WavFormat::Int8 {
            128
        } else {
            0
        };
        let zeros = vec![zero; PIECE * size];
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        while samples > 0 {
            let now = samples.min(PIECE as u64);
            file.put(&zeros[..now as usize * size])?;
            file.data += now * size as u64;
            samples -= now;
        }
        Ok(())
    }

    /// Samples, the first at an index.
    fn samples(&mut self, start: i64, bytes: &[u8]) -> Result<(), OpError> {
        let size = self.dtype.size();
        for (piece, bytes) in bytes.chunks(PIECE * size).enumerate() {
            self.encoded.clear();
            let encoded = encode(bytes, self.dtype, self.header.format, &mut self.encoded);
            if let Err(unfit) = encoded {
                let at = (piece * PIECE + unfit.at) / usize::from(self.header.channels);
                let index = start.saturating_add_unsigned(at as u64);
                let (value, format) = (unfit.value, self.header.format.name());
                return Err(refused(format!(
                    "sample {index} is {value}, which {format} cannot hold (floats are relative to a full scale of 1); scale it with map, or choose another format="
                )));
            }
            if let Some(file) = &mut self.file {
                file.put(&self.encoded)?;
                file.data += self.encoded.len() as u64;
            }
        }
        Ok(())
    }
}

/// Characters of a time.
const TIME: usize = "2026-01-01T00:00:00.000000000Z".len();

/// A time with as many characters as any: to the nanosecond at most.
fn time(time: isochrony_time::Fixed) -> String {
    let whole = isochrony_time::Fixed::from_int(time.round_i64().unwrap_or(0));
    format!("{:TIME$.TIME$}", civil::format(whole))
}

/// The name of one of several files.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path
        .extension()
        .map(|extension| extension.to_string_lossy());
    let extension = extension.map_or(String::new(), |extension| format!(".{extension}"));
    path.with_file_name(format!("{stem}-{number}{extension}"))
}

impl SinkWriter for WavOut {
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
        // There is nothing to commit before the end.
        Ok(0)
    }

    fn on_break(&mut self, why: &Break) -> Result<(), OpError> {
        self.set |= matches!(why, Break::ClockStep { .. });
        Ok(())
    }

    fn commit(&mut self) -> Result<(), OpError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), OpError> {
        self.end()
    }
}

impl Drop for WavOut {
    fn drop(&mut self) {
        if self.target.keep_partial
            && let Some(mut file) = self.file.take_if(|file| file.data > 0)
        {
            // The run has failed already, and says why.
            let _ = file.end(false);
        }
    }
}
