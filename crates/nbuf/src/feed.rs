//! One input of a run: whole records from it, and what is kept of the next.

use std::io::{self, Read};
use std::os::fd::AsFd;

use crate::descriptor;
use crate::error::NbufError;
use crate::framing::{Framing, Records};
use crate::input::{Input, Kind};
use crate::sizes::Sizes;

/// An input that is being read.
pub(crate) struct Feed<'r> {
    pub(crate) input: Input<'r>,
    /// Bytes that were handed out.
    pub(crate) position: u64,
    /// The beginning of the next record.
    pub(crate) carry: Vec<u8>,
    pub(crate) ended: bool,
    pub(crate) short_record: Option<u64>,
    /// Why nothing more can be read, while what was read before is processed.
    pub(crate) failed: Option<NbufError>,
}

/// What came of an attempt to fill a buffer.
pub(crate) enum Filled {
    /// So many bytes of whole records.
    Whole(usize),
    End,
    /// No whole record yet, and no more for now.
    NotYet,
    Stopped,
}

/// Makes a buffer at least so long, as far as the system has memory.
pub(crate) fn ensure(buffer: &mut Vec<u8>, length: usize) -> io::Result<()> {
    if buffer.len() < length {
        buffer
            .try_reserve_exact(length - buffer.len())
            .map_err(|_| no_memory(length))?;
        buffer.resize(length, 0);
    }
    Ok(())
}

/// Says that the system gave no memory for a buffer.
fn no_memory(length: usize) -> io::Error {
    io::Error::new(
        io::ErrorKind::OutOfMemory,
        format!(
            "there is no memory for a buffer of {length} bytes; give a smaller buffer or less memory"
        ),
    )
}

/// How a buffer is filled.
#[derive(Clone, Copy)]
pub(crate) struct How {
    /// Waits for a whole record.
    pub(crate) patient: bool,
    /// Stops at the last whole record if there is no more yet.
    pub(crate) eager: bool,
}

impl Feed<'_> {
    pub(crate) fn error(&self, index: usize, why: io::Error) -> NbufError {
        NbufError::Read {
            input: index,
            name: self.input.name.clone(),
            offset: self.position + self.carry.len() as u64,
            unfinished: 0,
            why,
        }
    }

    /// Bytes of whole records at the front of lent memory, of about `fill` bytes.
    pub(crate) fn divide(
        &mut self,
        index: usize,
        framing: &Framing,
        sizes: Sizes,
        rest: &[u8],
        fill: usize,
    ) -> Result<usize, NbufError> {
        if rest.len() <= fill {
            return Ok(self.last(framing, rest));
        }
        let whole = framing.whole(&rest[..fill]);
        if whole > 0 {
            return Ok(whole);
        }
        // A record that is larger: it lies there whole, but processors may need memory for it.
        let whole = self.larger(framing, rest, fill);
        if whole <= sizes.lent {
            return Ok(whole);
        }
        // Others came with it.
        let first = Records::new(framing, &rest[..whole]).next();
        let length = first.map_or(whole, <[u8]>::len);
        if length <= sizes.lent {
            return Ok(length);
        }
        Err(NbufError::Record {
            input: index,
            offset: self.position,
            length: Some(length as u64),
            buffer: sizes.lent,
        })
    }

    /// Bytes of whole records, the first of which is larger than `fill`.
    fn larger(&mut self, framing: &Framing, rest: &[u8], fill: usize) -> usize {
        let mut length = fill;
        while length < rest.len() {
            length = length.saturating_mul(2).min(rest.len());
            let whole = framing.whole(&rest[..length]);
            if whole > 0 {
                return whole;
            }
        }
        self.last(framing, rest)
    }

    /// All that is left of an input, with what its last record lacks.
    pub(crate) fn last(&mut self, framing: &Framing, rest: &[u8]) -> usize {
        let short = rest.len() - framing.whole(rest);
        // If nothing is left, what was the last before stays the last.
        if !rest.is_empty() {
            self.short_record = Some(short as u64).filter(|short| *short > 0);
        }
        rest.len()
    }

    #[allow(clippy::too_many_arguments)] // Called from one place.
    pub(crate) fn read(
        &mut self,
        index: usize,
        framing: &Framing,
        sizes: Sizes,
        fill: usize,
        buffer: &mut Vec<u8>,
        how: How,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Filled, NbufError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let mut length = self.carry.len();
        let mut fill = fill.max(length);
        ensure(buffer, fill).map_err(|why| self.error(index, why))?;
        buffer[..length].copy_from_slice(&self.carry);
        self.carry.clear();
        let mut end = false;
        loop {
            let mut more = true;
            while length < fill && !end && more {
                match self.input.read(&mut buffer[length..fill], how, stopped) {
                    Ok(Got::Bytes(bytes)) => length += bytes,
                    Ok(Got::End) => end = true,
                    Ok(Got::NotYet) => more = false,
                    Ok(Got::Stopped) => return Ok(Filled::Stopped),
                    Err(why) => return self.fail(index, framing, &buffer[..length], why),
                }
            }
            let read = &buffer[..length];
            let whole = if end {
                self.last(framing, read)
            } else {
                framing.whole(read)
            };
            if whole > 0 {
                // A pipe that is at its end says so again; who typed it at a terminal need not.
                self.ended = end;
                self.keep(index, &read[whole..])?;
                return Ok(Filled::Whole(whole));
            }
            if end {
                self.ended = true;
                return Ok(Filled::End);
            }
            if !more && !how.patient {
                self.keep(index, read)?;
                return Ok(Filled::NotYet);
            }
            if !more {
                // Not a whole record yet: wait for it.
                let patient = How {
                    eager: false,
                    ..how
                };
                match self.input.read(&mut buffer[length..fill], patient, stopped) {
                    Ok(Got::Bytes(bytes)) => length += bytes,
                    Ok(Got::End) => end = true,
                    Ok(Got::NotYet | Got::Stopped) => return Ok(Filled::Stopped),
                    Err(why) => return self.fail(index, framing, &buffer[..length], why),
                }
                continue;
            }
            let announced = framing.announced(read);
            if length >= sizes.capacity || announced.is_some_and(|all| all > sizes.capacity as u64)
            {
                return Err(NbufError::Record {
                    input: index,
                    offset: self.position,
                    length: announced,
                    buffer: sizes.capacity,
                });
            }
            fill = fill.saturating_mul(2).min(sizes.capacity);
            ensure(buffer, fill).map_err(|why| self.error(index, why))?;
        }
    }

    /// Nothing more can be read. The whole records that were read are processed, and then the error is told. At the end of
    /// an input the last record may be short; here it is only cut off.
    fn fail(
        &mut self,
        index: usize,
        framing: &Framing,
        read: &[u8],
        why: io::Error,
    ) -> Result<Filled, NbufError> {
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
        self.failed = Some(error);
        Ok(Filled::Whole(whole))
    }

    /// Keeps bytes for the next buffer.
    fn keep(&mut self, index: usize, bytes: &[u8]) -> Result<(), NbufError> {
        if self.carry.try_reserve_exact(bytes.len()).is_err() {
            return Err(self.error(index, no_memory(bytes.len())));
        }
        self.carry.extend_from_slice(bytes);
        Ok(())
    }
}

enum Got {
    Bytes(usize),
    End,
    NotYet,
    Stopped,
}

impl Input<'_> {
    /// One read of an input that has only a next byte.
    fn read(&mut self, into: &mut [u8], how: How, stopped: &dyn Fn() -> bool) -> io::Result<Got> {
        loop {
            if stopped() {
                return Ok(Got::Stopped);
            }
            let bytes = match &mut self.kind {
                Kind::Descriptor(file) => {
                    if !descriptor::readable(&[file.as_fd()], !how.eager)?[0] {
                        if how.eager {
                            return Ok(Got::NotYet);
                        }
                        continue;
                    }
                    (&*file).read(into)
                }
                Kind::Reader(reader) => reader.read(into),
                // With a framing that has to be looked for, files are read from front to back.
                Kind::File { file, .. } => (&**file).read(into),
                Kind::Lent(_) => Ok(0),
            };
            match bytes {
                Ok(0) => return Ok(Got::End),
                Ok(bytes) if bytes > into.len() => {
                    let message = format!(
                        "it says that it read {bytes} bytes where {} were asked for",
                        into.len()
                    );
                    return Err(io::Error::new(io::ErrorKind::InvalidData, message));
                }
                Ok(bytes) => return Ok(Got::Bytes(bytes)),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                // Somebody made it not wait, or took what was there: poll again.
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                    if how.eager {
                        return Ok(Got::NotYet);
                    }
                }
                Err(why) => return Err(why),
            }
        }
    }
}
