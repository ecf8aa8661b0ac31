//! The state *read*: merges the inputs into one stream and gives its next whole records to one worker at a time.
//!
//! Input memory and regular files with a stride are only divided here: a worker reads its part of a file after it has
//! passed its turn on, so several read at once.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::buffer_sizes::BufferSizes;
use crate::descriptor;
use crate::error::NbufError;
use crate::framing::Framing;
use crate::input::{Input, InputKind};
use crate::options::{Merge, Options};
use crate::record_reader::{FillOutcome, FillPolicy, RecordReader};
use crate::report::InputReport;

pub(crate) struct StreamReader<'r> {
    readers: Vec<RecordReader<'r>>,
    next_input: usize,
    merge: Merge,
    eager: bool,
    framing: Framing,
    sizes: BufferSizes,
    /// Fill bytes of a buffer, changed by tuning.
    fill: Arc<AtomicUsize>,
    next_number: u64,
    offset: u64,
}

pub(crate) struct StreamPart<'r> {
    pub(crate) number: u64,
    pub(crate) offset: u64,
    pub(crate) input: usize,
    pub(crate) input_offset: u64,
    pub(crate) data: PartData<'r>,
}

pub(crate) enum PartData<'r> {
    /// The first bytes of the worker's buffer.
    Buffered(usize),
    Borrowed(&'r [u8]),
    /// A range that the worker has to read.
    InFile {
        file: Arc<File>,
        offset: u64,
        length: usize,
    },
}

impl<'r> StreamReader<'r> {
    pub(crate) fn new(inputs: Vec<Input<'r>>, options: &Options, sizes: BufferSizes) -> Self {
        let readers = inputs.into_iter().map(|input| RecordReader {
            input,
            position: 0,
            carry: Vec::new(),
            ended: false,
            short_record: None,
            deferred_error: None,
        });
        Self {
            readers: readers.collect(),
            next_input: 0,
            merge: options.merge,
            eager: options.eager,
            framing: options.framing.clone(),
            sizes,
            fill: Arc::new(AtomicUsize::new(sizes.fill)),
            next_number: 0,
            offset: 0,
        }
    }

    pub(crate) fn shared_fill(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.fill)
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.next_number
    }

    /// The next whole records, in `buffer` if they had to be read. None at the end, or if `is_stopped`, polled while it
    /// waits.
    pub(crate) fn next_part(
        &mut self,
        buffer: &mut Vec<u8>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<StreamPart<'r>>, NbufError> {
        loop {
            let mut pending = Vec::new();
            for step in 0..self.readers.len() {
                let index = (self.next_input + step) % self.readers.len();
                if self.readers[index].ended {
                    continue;
                }
                match self.fill(index, buffer, is_stopped)? {
                    FillOutcome::Records(length) => return Ok(Some(self.take(index, length))),
                    FillOutcome::Stopped => return Ok(None),
                    FillOutcome::End => {}
                    FillOutcome::Pending => pending.push(index),
                }
            }
            if pending.is_empty() || is_stopped() {
                return Ok(None);
            }
            self.wait_for_any(&pending)?;
        }
    }

    /// Waits at most one poll interval until an input is readable.
    fn wait_for_any(&self, pending: &[usize]) -> Result<(), NbufError> {
        let files: Vec<_> = pending
            .iter()
            .filter_map(|index| match &self.readers[*index].input.kind {
                InputKind::Descriptor(file) => Some(file.as_fd()),
                _ => None,
            })
            .collect();
        descriptor::poll_readable(&files, true)
            .map(drop)
            .map_err(|why| self.readers[pending[0]].error(pending[0], why))
    }

    fn take(&mut self, index: usize, length: usize) -> StreamPart<'r> {
        let reader = &mut self.readers[index];
        let position = reader.position;
        let data = match &reader.input.kind {
            // The memory outlives this borrow of the reader.
            InputKind::Memory(bytes) => {
                let bytes: &'r [u8] = bytes;
                PartData::Borrowed(&bytes[position as usize..position as usize + length])
            }
            InputKind::File { file, start, .. } if self.framing.stride().is_some() => {
                PartData::InFile {
                    file: Arc::clone(file),
                    offset: start + position,
                    length,
                }
            }
            _ => PartData::Buffered(length),
        };
        reader.position += length as u64;
        let part = StreamPart {
            number: self.next_number,
            offset: self.offset,
            input: index,
            input_offset: position,
            data,
        };
        self.next_number += 1;
        self.offset += length as u64;
        self.next_input = match self.merge {
            Merge::InOrder => index,
            Merge::Fair => (index + 1) % self.readers.len(),
        };
        part
    }

    fn fill(
        &mut self,
        index: usize,
        buffer: &mut Vec<u8>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<FillOutcome, NbufError> {
        self.sizes.fill = self.sizes.aligned(self.fill.load(Ordering::Relaxed));
        let (framing, sizes) = (&self.framing, self.sizes);
        let fill = sizes.fill_of(self.next_number);
        // Where inputs are read in turn, none may block the others.
        let may_block = self.merge == Merge::InOrder || self.readers.len() == 1;
        let policy = FillPolicy {
            waits_for_record: may_block,
            eager: self.eager || !may_block,
        };
        let reader = &mut self.readers[index];
        let whole = match reader.input.kind {
            InputKind::Memory(bytes) => {
                let rest = &bytes[reader.position as usize..];
                reader.records_in_memory(index, framing, sizes, rest, fill)?
            }
            InputKind::File { start, end, .. } if framing.stride().is_some() => {
                let rest = end - start - reader.position;
                usize::try_from(rest).map_or(fill, |rest| rest.min(fill))
            }
            _ => return reader.fill(index, framing, sizes, fill, buffer, policy, is_stopped),
        };
        if whole == 0 {
            reader.ended = true;
            return Ok(FillOutcome::End);
        }
        if let Some(stride) = framing.stride() {
            reader.short_record = Some((whole % stride) as u64).filter(|rest| *rest > 0);
        }
        Ok(FillOutcome::Records(whole))
    }

    /// Bytes of all inputs; None if one is unknown.
    pub(crate) fn size(&self) -> Option<u64> {
        self.readers.iter().map(|reader| reader.input.size()).sum()
    }

    /// Sets files' positions to where reading ended, and reports these.
    pub(crate) fn end(self) -> Vec<InputReport> {
        self.readers
            .into_iter()
            .map(|reader| {
                reader.input.seek_to(reader.position);
                InputReport {
                    name: reader.input.name,
                    bytes: reader.position,
                    short_record: reader.short_record,
                    ended: reader.ended,
                }
            })
            .collect()
    }
}

/// Returns the bytes read, and the error if incomplete.
pub(crate) fn read_file_part(
    file: &File,
    offset: u64,
    into: &mut [u8],
) -> (usize, Option<io::Error>) {
    let mut read = 0;
    while read < into.len() {
        match file.read_at(&mut into[read..], offset + read as u64) {
            Ok(0) => {
                let message = "the file is shorter than when the run began; keep it unchanged while it is read";
                let why = io::Error::new(io::ErrorKind::UnexpectedEof, message);
                return (read, Some(why));
            }
            Ok(bytes) => read += bytes,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return (read, Some(why)),
        }
    }
    (read, None)
}
