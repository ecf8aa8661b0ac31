//! Runs of records: adjacent, of one recording, each consistent with its header.
//!
//! Runs, which are most of a file, are decoded many records at a time. Everything else ends a run: noise, a damaged
//! header, a leap second, a record without samples, another channel.

use std::ops::Range;

use isochrony_segment::{Buffer, BufferMut, DType};

use super::EncodedSamples;
use super::header::{FIXED_BYTES, Header, is_control, is_data};

/// Records of a channel begin at multiples of this.
const FRAME: usize = 64;

/// A run of records in a part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordRun {
    /// Its bytes within that part.
    pub bytes: Range<usize>,
    /// Number of records.
    pub records: usize,
}

/// A part of a run.
#[derive(Debug)]
pub struct RunPart {
    /// Its bytes.
    pub bytes: Range<usize>,
    /// `None` for a single record that contradicts its header.
    pub samples: Option<RunSamples>,
}

/// Samples of consecutive records.
#[derive(Debug)]
pub struct RunSamples {
    /// Type of the samples.
    pub dtype: DType,
    /// Samples of all records.
    pub samples: Buffer,
    /// Number of samples of each record.
    pub counts: Vec<i64>,
    /// Time of each first sample, ns since 1970.
    pub starts: Vec<i64>,
}

impl RecordRun {
    /// Finds the run that begins at `from` in `window`, a part of a file, with at most `most` bytes. It ends before the
    /// first record that is not certain to be whole and consistent.
    ///
    /// `rest`: bytes from the window's beginning to the end of the file. A record counts if another header or the end
    /// follows it, and it holds no header of its own channel.
    #[must_use]
    pub fn find(window: &[u8], from: usize, most: usize, rest: usize) -> Self {
        let (whole, is_all) = (window.len().min(rest), window.len() >= rest);
        let mut run = Self {
            bytes: from..from,
            records: 0,
        };
        let mut recording = None;
        while let Some(header) = whole_record(window, run.bytes.end, is_all) {
            let end = run.bytes.end + header.length;
            let goes_on = *recording.get_or_insert(header.recording) == header.recording;
            if !goes_on || end > whole || end - from > most {
                break;
            }
            run.bytes.end = end;
            run.records += 1;
        }
        run
    }

    /// Decodes all records, in order. `None` if memory is short.
    #[must_use]
    pub fn decode(&self, window: &[u8]) -> Option<Vec<RunPart>> {
        let records = self.headers(window);
        let recording = records.first()?.1.recording;
        let dtype = EncodedSamples::dtype_of(recording.encoding)?;
        let encoded: Vec<_> = records.iter().map(|it| encoded(window, it)).collect();
        let total: usize = encoded.iter().flatten().map(|it| it.count).sum();
        let mut memory = BufferMut::zeroed(total * dtype.size()).ok()?;
        let mut free = memory.bytes_mut();
        // Bytes of samples, and whether they agree with the header.
        let mut decoded: Vec<(usize, bool)> = Vec::with_capacity(records.len());
        for encoded in encoded {
            let bytes = encoded.map_or(0, |it| it.count * dtype.size());
            let (own, behind) = free.split_at_mut(bytes);
            free = behind;
            let is_decoded = encoded.is_some_and(|it| it.decode_into(own).is_some());
            decoded.push((bytes, is_decoded));
        }
        let memory = memory.freeze();
        let (mut parts, mut at, mut first) = (Vec::new(), 0, 0);
        for alike in decoded.chunk_by(|a, b| a.1 && b.1) {
            let records = &records[first..first + alike.len()];
            let bytes: usize = alike.iter().map(|(bytes, _)| bytes).sum();
            let samples = match alike {
                [(_, false)] => None,
                _ => Some(RunSamples {
                    dtype,
                    samples: memory.slice(at..at + bytes)?,
                    counts: records.iter().map(|(_, it)| it.samples.into()).collect(),
                    starts: records.iter().map(|(_, it)| it.start_ns).collect(),
                }),
            };
            let [(start, _), ..] = records else { continue };
            let end = records.last().map_or(start.end, |(last, _)| last.end);
            parts.push(RunPart {
                bytes: start.start..end,
                samples,
            });
            (at, first) = (at + bytes, first + alike.len());
        }
        Some(parts)
    }

    fn headers(&self, window: &[u8]) -> Vec<(Range<usize>, Header)> {
        let mut records = Vec::with_capacity(self.records);
        let mut at = self.bytes.start;
        while at < self.bytes.end
            && let Some(rest) = window.get(at..)
            && let Some(header) = Header::read(rest, true)
        {
            let end = at + header.length.min(rest.len());
            records.push((at..end, header));
            at = end;
        }
        records
    }
}

/// Allocates only for records that can hold their stated number of samples.
fn encoded<'a>(window: &'a [u8], record: &(Range<usize>, Header)) -> Option<EncodedSamples<'a>> {
    let (bytes, header) = record;
    let encoded = EncodedSamples {
        payload: window.get(bytes.start + header.data_offset..bytes.end)?,
        encoding: header.recording.encoding,
        little_endian: header.recording.little_endian,
        count: header.samples.into(),
    };
    encoded.fits().then_some(encoded)
}

/// None unless the record certainly has its stated length, and this module handles all of it.
fn whole_record(window: &[u8], at: usize, is_all: bool) -> Option<Header> {
    let header = Header::read(window.get(at..)?, is_all)?;
    let is_plain = header.samples > 0 && header.data_offset > 0 && !header.leap;
    if !is_plain || EncodedSamples::dtype_of(header.recording.encoding).is_none() {
        return None;
    }
    let behind = window.get(at + header.length..)?;
    if behind.len() < FIXED_BYTES && !is_all {
        return None;
    }
    let is_followed = behind.is_empty() || is_data(behind) || is_control(behind);
    let stretch = &window[at..window.len().min(at + header.length + FIXED_BYTES)];
    (is_followed && !holds_header(stretch, header.length)).then_some(header)
}

/// `stretch` holds the record and the next header.
fn holds_header(stretch: &[u8], length: usize) -> bool {
    let codes = &stretch[8..20];
    (FRAME..length)
        .step_by(FRAME)
        .any(|at| stretch.get(at + 8..at + 20) == Some(codes) && is_data(&stretch[at..]))
}
