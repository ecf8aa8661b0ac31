//! Messages between parent and worker process; the other half is `isochrony/workers/process.py`.
//!
//! A message is its kind (u32), length of its body (u64) and body, in native byte order. Both sides belong to one
//! installation, so there is no version.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use isochrony_segment::has_free_memory;

use crate::error::{ProcessError, RemoteException};
use crate::records::{RecordPiece, RecordResult};

/// How often a waiting thread checks the process and the execution.
pub(crate) const RESPONSE_WAIT: Duration = Duration::from_millis(50);

/// Longer messages are not copied; others are sent by one system call.
pub(crate) const MAX_COPIED: usize = 64 << 10;

const HEADER_LEN: usize = 12;

/// `PIECE` in `nbuffering/record_calls.py`.
const PIECE_LEN: u64 = 24;

/// Length of a piece that is the record.
const RECORD_ITSELF: u64 = u64::MAX;

/// Called every [`RESPONSE_WAIT`]. An error ends the wait.
pub(crate) type InterruptCheck<'a> = &'a mut dyn FnMut() -> Result<(), ProcessError>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Request {
    /// Its descriptor follows.
    Memory = 1,
    /// Number, encoding and payload.
    LoadFunction = 2,
    CallBlock = 3,
    CallTasklet = 4,
    /// Numbers of functions.
    ForgetFunctions = 5,
    CallRecords = 6,
}

/// `keeps_memory`: the function keeps a reference to its input, or the process has no memory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Response {
    Ready,
    Loaded,
    BlockDone {
        keeps_memory: bool,
    },
    /// Unexpected dtype or shape of the result.
    UnexpectedResult {
        dtype: String,
        shape: Vec<usize>,
    },
    /// The receiver sets `pid` and `while_loading`.
    Raised {
        keeps_memory: bool,
        exception: RemoteException,
    },
    TaskletDone {
        keeps_memory: bool,
        written: Vec<WrittenRange>,
        /// Pickled; None: nothing.
        returned: Option<Vec<u8>>,
    },
    RecordsDone {
        keeps_memory: bool,
        /// The receiver sets `pid` of the failure.
        result: RecordResult,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WrittenRange {
    pub(crate) output: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

pub(crate) fn send(socket: &mut UnixStream, request: Request, parts: &[&[u8]]) -> io::Result<()> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let mut message = Vec::with_capacity(HEADER_LEN + len.min(MAX_COPIED));
    message.extend((request as u32).to_ne_bytes());
    message.extend((len as u64).to_ne_bytes());
    for part in parts {
        if message.len() + part.len() > MAX_COPIED {
            socket.write_all(&message)?;
            message.clear();
            socket.write_all(part)?;
        } else {
            message.extend_from_slice(part);
        }
    }
    socket.write_all(&message)
}

pub(crate) fn receive(
    socket: &mut UnixStream,
    check: InterruptCheck<'_>,
) -> Result<Response, ProcessError> {
    let mut header = [0; HEADER_LEN];
    read_exact(socket, &mut header, check)?;
    let mut fields = Fields(&header);
    let (Some(kind), Some(len)) = (fields.u32(), fields.u64()) else {
        return Err(ProcessError::invalid_message());
    };
    let mut body = allocate(len)?;
    read_exact(socket, &mut body, check)?;
    decode(kind, &body).ok_or_else(ProcessError::invalid_message)
}

/// A zeroed body. `len` is untrusted.
fn allocate(len: u64) -> io::Result<Vec<u8>> {
    let no_memory = || {
        io::Error::new(
            io::ErrorKind::OutOfMemory,
            format!("a message of {len} bytes does not fit into memory; return less"),
        )
    };
    let size = usize::try_from(len).map_err(|_| no_memory())?;
    if !has_free_memory(len) {
        return Err(no_memory());
    }
    let mut body = Vec::new();
    body.try_reserve_exact(size).map_err(|_| no_memory())?;
    body.resize(size, 0);
    Ok(body)
}

pub(crate) fn decode(kind: u32, body: &[u8]) -> Option<Response> {
    let mut fields = Fields(body);
    Some(match kind {
        1 => Response::Ready,
        2 => Response::Loaded,
        3 | 4 => Response::BlockDone {
            keeps_memory: kind == 4,
        },
        5 => {
            let text = String::from_utf8_lossy(body);
            let mut lines = text.lines();
            Response::UnexpectedResult {
                dtype: lines.next()?.to_owned(),
                shape: lines.map(|len| len.parse().ok()).collect::<Option<_>>()?,
            }
        }
        6 => {
            let keeps_memory = fields.flag()?;
            Response::Raised {
                keeps_memory,
                exception: fields.exception()?,
            }
        }
        7 => {
            let (keeps_memory, has_returned) = (fields.flag()?, fields.flag()?);
            let mut ranges = Fields(fields.ranges()?);
            let written = std::iter::from_fn(|| ranges.range());
            Response::TaskletDone {
                keeps_memory,
                written: written.collect(),
                returned: has_returned.then(|| fields.0.to_vec()),
            }
        }
        8 => {
            let (keeps_memory, has_accumulator) = (fields.flag()?, fields.flag()?);
            let has_failure = fields.flag()?;
            let completed = fields.u64()?;
            let piece_bytes = fields.u64()?.checked_mul(PIECE_LEN)?;
            let (accumulator_bytes, bytes) = (fields.u64()?, fields.u64()?);
            let mut pieces = Fields(fields.bytes(piece_bytes)?);
            let pieces = std::iter::from_fn(|| pieces.piece()).collect();
            let accumulator = fields.bytes(accumulator_bytes)?.to_vec();
            let bytes = fields.bytes(bytes)?.to_vec();
            let failure = if has_failure {
                Some(fields.exception()?)
            } else {
                None
            };
            let result = RecordResult {
                pieces,
                bytes,
                accumulator: has_accumulator.then_some(accumulator),
                failure,
                completed,
            };
            Response::RecordsDone {
                keeps_memory,
                result,
            }
        }
        _ => return None,
    })
}

struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, len: u64) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(len).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }

    fn flag(&mut self) -> Option<bool> {
        Some(self.bytes(1)?[0] != 0)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.bytes(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.bytes(8)?.try_into().ok()?))
    }

    fn text(&mut self, len: u64) -> Option<String> {
        let bytes = self.bytes(len)?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Follows its length.
    fn ranges(&mut self) -> Option<&'a [u8]> {
        let len = self.u64()?.checked_mul(size_of::<WrittenRange>() as u64)?;
        self.bytes(len)
    }

    /// The exception, to the end.
    fn exception(&mut self) -> Option<RemoteException> {
        let lengths = [self.u64()?, self.u64()?, self.u64()?];
        let [traceback, class, message] = lengths.map(|len| self.text(len));
        Some(RemoteException {
            pid: 0,
            while_loading: false,
            traceback: traceback?,
            class: class?,
            message: message?,
            pickled: self.0.to_vec(),
        })
    }

    fn piece(&mut self) -> Option<RecordPiece> {
        Some(RecordPiece {
            record: self.u64()?,
            output: self.u64()?,
            length: Some(self.u64()?).filter(|length| *length != RECORD_ITSELF),
        })
    }

    fn range(&mut self) -> Option<WrittenRange> {
        Some(WrittenRange {
            output: self.u64()?,
            start: self.u64()?,
            end: self.u64()?,
        })
    }
}

fn read_exact(
    socket: &mut UnixStream,
    mut into: &mut [u8],
    check: InterruptCheck<'_>,
) -> Result<(), ProcessError> {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    while !into.is_empty() {
        match socket.read(into) {
            Ok(0) => return Err(ProcessError::Died),
            Ok(len) => into = &mut into[len..],
            // The read timeout is one interval.
            Err(error) if matches!(error.kind(), WouldBlock | TimedOut) => check()?,
            Err(error) if error.kind() == Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
