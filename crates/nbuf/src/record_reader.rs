//! Reads whole records of one input.

use std::io::{self, Read};
use std::os::fd::AsFd;

use crate::buffer_sizes::BufferSizes;
use crate::descriptor;
use crate::error::NbufError;
use crate::framing::{Framing, Records};
use crate::input::{Input, InputKind};
use crate::prefix::PrefixFault;

pub(crate) struct RecordReader<'r> {
    pub(crate) input: Input<'r>,
    /// Bytes given to workers.
    pub(crate) position: u64,
    /// The beginning of the next record.
    pub(crate) carry: Vec<u8>,
    pub(crate) ended: bool,
    pub(crate) short_record: Option<u64>,
    /// Reported after the records before it.
    pub(crate) deferred_error: Option<NbufError>,
}

pub(crate) enum FillOutcome {
    Records(usize),
    End,
    Pending,
    Stopped,
}

pub(crate) fn grow_to(buffer: &mut Vec<u8>, length: usize) -> io::Result<()> {
    if buffer.len() < length {
        buffer
            .try_reserve_exact(length - buffer.len())
            .map_err(|_| out_of_memory(length))?;
        buffer.resize(length, 0);
    }
    Ok(())
}

fn out_of_memory(length: usize) -> io::Error {
    io::Error::new(
        io::ErrorKind::OutOfMemory,
        format!(
            "a buffer of {length} bytes does not fit into memory; give a smaller buffer= or memory="
        ),
    )
}

#[derive(Clone, Copy)]
pub(crate) struct FillPolicy {
    /// Waits for a whole record.
    pub(crate) waits_for_record: bool,
    /// Does not wait once there are whole records.
    pub(crate) eager: bool,
}

impl RecordReader<'_> {
    pub(crate) fn error(&self, index: usize, why: io::Error) -> NbufError {
        NbufError::Read {
            input: index,
            name: self.input.name.clone(),
            offset: self.position + self.carry.len() as u64,
            unfinished: 0,
            why,
        }
    }

    fn prefix_error(&self, input: usize, fault: PrefixFault) -> NbufError {
        NbufError::Prefix {
            input,
            offset: self.position,
            fault,
        }
    }

    /// The length of whole records at the front of input memory, about `fill` bytes.
    pub(crate) fn records_in_memory(
        &mut self,
        index: usize,
        framing: &Framing,
        sizes: BufferSizes,
        rest: &[u8],
        fill: usize,
    ) -> Result<usize, NbufError> {
        if let Some(fault) = framing.prefix_fault(rest) {
            return Err(self.prefix_error(index, fault));
        }
        if rest.len() <= fill {
            return Ok(self.last_records(framing, rest));
        }
        let whole = framing.whole(&rest[..fill]);
        if whole > 0 {
            return Ok(whole);
        }
        // It needs no buffer, but processors may need memory for it.
        let whole = self.long_records(framing, rest, fill);
        if whole <= sizes.max_borrowed {
            return Ok(whole);
        }
        // More records were found with it.
        let first = Records::new(framing, &rest[..whole]).next();
        let length = first.map_or(whole, <[u8]>::len);
        if length <= sizes.max_borrowed {
            return Ok(length);
        }
        Err(NbufError::Record {
            input: index,
            offset: self.position,
            length: Some(length as u64),
            buffer: sizes.max_borrowed,
        })
    }

    /// The length of whole records; the first is longer than `fill`.
    fn long_records(&mut self, framing: &Framing, rest: &[u8], fill: usize) -> usize {
        let mut length = fill;
        while length < rest.len() {
            length = length.saturating_mul(2).min(rest.len());
            let whole = framing.whole(&rest[..length]);
            if whole > 0 {
                return whole;
            }
        }
        self.last_records(framing, rest)
    }

    /// The length of an input's rest, up to a faulty prefix. Notes whether its last record is short.
    pub(crate) fn last_records(&mut self, framing: &Framing, rest: &[u8]) -> usize {
        let whole = framing.whole(rest);
        if framing.prefix_fault(&rest[whole..]).is_some() {
            return whole;
        }
        let short = rest.len() - whole;
        // If nothing is left, the last record was noted before.
        if !rest.is_empty() {
            self.short_record = Some(short as u64).filter(|short| *short > 0);
        }
        rest.len()
    }

    /// Fills a buffer with whole records, about `fill` bytes, more if the first is longer.
    #[allow(clippy::too_many_arguments)] // Called from one place.
    pub(crate) fn fill(
        &mut self,
        index: usize,
        framing: &Framing,
        sizes: BufferSizes,
        fill: usize,
        buffer: &mut Vec<u8>,
        policy: FillPolicy,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<FillOutcome, NbufError> {
        if let Some(error) = self.deferred_error.take() {
            return Err(error);
        }
        let mut length = self.carry.len();
        let mut fill = fill.max(length);
        grow_to(buffer, fill).map_err(|why| self.error(index, why))?;
        buffer[..length].copy_from_slice(&self.carry);
        self.carry.clear();
        if let Some(fault) = framing.prefix_fault(&buffer[..length]) {
            return Err(self.prefix_error(index, fault));
        }
        let mut end = false;
        loop {
            let mut more = true;
            while length < fill && !end && more {
                match (self.input).read(&mut buffer[length..fill], policy, is_stopped) {
                    Ok(InputRead::Bytes(bytes)) => length += bytes,
                    Ok(InputRead::End) => end = true,
                    Ok(InputRead::Pending) => more = false,
                    Ok(InputRead::Stopped) => return Ok(FillOutcome::Stopped),
                    Err(why) => return self.defer_error(index, framing, &buffer[..length], why),
                }
            }
            let read = &buffer[..length];
            if let Some(fault) = framing.prefix_fault(read) {
                return Err(self.prefix_error(index, fault));
            }
            let whole = if end {
                self.last_records(framing, read)
            } else {
                framing.whole(read)
            };
            if whole > 0 {
                // A pipe reports its end again, a terminal may not. A faulty prefix is left after the last records.
                self.ended = end && whole == length;
                self.carry_over(index, &read[whole..])?;
                return Ok(FillOutcome::Records(whole));
            }
            if end {
                self.ended = true;
                return Ok(FillOutcome::End);
            }
            let announced = framing.announced(read);
            let is_too_long = announced.is_some_and(|all| all > sizes.capacity as u64);
            if is_too_long || more && length >= sizes.capacity {
                return Err(NbufError::Record {
                    input: index,
                    offset: self.position,
                    length: announced,
                    buffer: sizes.capacity,
                });
            }
            if !more && !policy.waits_for_record {
                self.carry_over(index, read)?;
                return Ok(FillOutcome::Pending);
            }
            if !more {
                let blocking = FillPolicy {
                    eager: false,
                    ..policy
                };
                match (self.input).read(&mut buffer[length..fill], blocking, is_stopped) {
                    Ok(InputRead::Bytes(bytes)) => length += bytes,
                    Ok(InputRead::End) => end = true,
                    Ok(InputRead::Pending | InputRead::Stopped) => return Ok(FillOutcome::Stopped),
                    Err(why) => return self.defer_error(index, framing, &buffer[..length], why),
                }
                continue;
            }
            fill = fill.saturating_mul(2).min(sizes.capacity);
            grow_to(buffer, fill).map_err(|why| self.error(index, why))?;
        }
    }

    /// Returns the whole records before the error. A cut-off record is not processed.
    fn defer_error(
        &mut self,
        index: usize,
        framing: &Framing,
        read: &[u8],
        why: io::Error,
    ) -> Result<FillOutcome, NbufError> {
        let whole = framing.whole(read);
        let mut error = self.error(index, why);
        if let NbufError::Read {
            offset, unfinished, ..
        } = &mut error
        {
            *offset += read.len() as u64;
            *unfinished = (read.len() - whole) as u64;
        }
        if whole == 0 {
            return Err(error);
        }
        self.deferred_error = Some(error);
        Ok(FillOutcome::Records(whole))
    }

    fn carry_over(&mut self, index: usize, bytes: &[u8]) -> Result<(), NbufError> {
        if self.carry.try_reserve_exact(bytes.len()).is_err() {
            return Err(self.error(index, out_of_memory(bytes.len())));
        }
        self.carry.extend_from_slice(bytes);
        Ok(())
    }
}

enum InputRead {
    Bytes(usize),
    End,
    Pending,
    Stopped,
}

impl Input<'_> {
    fn read(
        &mut self,
        into: &mut [u8],
        policy: FillPolicy,
        is_stopped: &dyn Fn() -> bool,
    ) -> io::Result<InputRead> {
        loop {
            if is_stopped() {
                return Ok(InputRead::Stopped);
            }
            let bytes = match &mut self.kind {
                InputKind::Descriptor(file) => {
                    if !descriptor::poll_readable(&[file.as_fd()], !policy.eager)?[0] {
                        if policy.eager {
                            return Ok(InputRead::Pending);
                        }
                        continue;
                    }
                    (&*file).read(into)
                }
                InputKind::Reader(reader) => reader.read(into),
                // Where record ends have to be searched for, files are read in sequence, too.
                InputKind::File { file, .. } => (&**file).read(into),
                InputKind::Memory(_) => Ok(0),
            };
            match bytes {
                Ok(0) => return Ok(InputRead::End),
                Ok(bytes) if bytes > into.len() => {
                    let message = format!(
                        "it reports {bytes} bytes read, but {} were requested",
                        into.len()
                    );
                    return Err(io::Error::new(io::ErrorKind::InvalidData, message));
                }
                Ok(bytes) => return Ok(InputRead::Bytes(bytes)),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                // Someone else made it non-blocking, or read the data: poll again.
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                    if policy.eager {
                        return Ok(InputRead::Pending);
                    }
                }
                Err(why) => return Err(why),
            }
        }
    }
}
