//! What parent and worker process say to one another; the other half is `isochrony/_worker.py`.
//!
//! A message is its kind, the number of bytes behind it, and those bytes, in the machine's byte order.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use isochrony_segment::{DType, has_free_memory};

/// How long it waits before it looks whether the process is alive and the run goes on.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// Messages of so many bytes are sent at once; parts of longer ones are not copied for it.
const WHOLE: usize = 64 << 10;

/// What the parent says.
#[derive(Debug, Clone, Copy)]
#[repr(u32)]
pub(super) enum Say {
    /// A descriptor of memory follows.
    Memory = 1,
    /// A function: number, how it travels, itself.
    Function = 2,
    /// Call a function over a block.
    Call = 3,
    /// Call a function over the inputs of a tasklet.
    Run = 4,
    /// Functions of these numbers are not called any more.
    Forget = 5,
}

/// What a process answers.
#[derive(Debug)]
pub(super) enum Heard {
    Ready,
    Loaded,
    /// The result is in memory; `kept`: the function keeps what it was given.
    Done {
        kept: bool,
    },
    /// The result is something else than was promised: its type, its shape.
    Shape(String, Vec<usize>),
    Raised(Raised),
    /// A tasklet's function has returned; `kept` as above.
    Brought {
        kept: bool,
        /// Output, first and last sample that it wrote.
        written: Vec<[u64; 3]>,
        /// What it returned, pickled; None: nothing.
        returned: Option<Vec<u8>>,
    },
}

/// What a function raised.
#[derive(Debug)]
pub(super) struct Raised {
    pub(super) text: String,
    pub(super) name: String,
    pub(super) said: String,
    /// Empty if it could not be pickled.
    pub(super) pickled: Vec<u8>,
    /// The function keeps what it was given, or the process has not got the memory.
    pub(super) kept: bool,
}

/// A block to be worked on, and what is to come of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work<'a> {
    pub(crate) input: &'a [u8],
    pub(crate) dtype: DType,
    pub(crate) rows: usize,
    /// Values of a row; None: single values.
    pub(crate) columns: Option<usize>,
    pub(crate) stride: usize,
    pub(crate) wanted: DType,
    pub(crate) wanted_columns: Option<usize>,
}

impl Work<'_> {
    /// As sent: `place` is where the result lies in `size` bytes of memory.
    pub(super) fn message(&self, function: u64, place: u64, size: u64) -> Vec<u8> {
        let columns = |columns: Option<usize>| columns.map_or(-1, |columns| columns as i64);
        let mut bytes = Vec::with_capacity(88);
        bytes.extend(function.to_ne_bytes());
        bytes.extend((self.rows as u64).to_ne_bytes());
        bytes.extend(columns(self.columns).to_ne_bytes());
        bytes.extend((self.stride as u64).to_ne_bytes());
        bytes.extend(place.to_ne_bytes());
        bytes.extend(size.to_ne_bytes());
        bytes.extend(columns(self.wanted_columns).to_ne_bytes());
        for dtype in [self.dtype, self.wanted] {
            let mut name = [0; 16];
            let text = dtype.name().as_bytes();
            let len = text.len().min(name.len());
            name[..len].copy_from_slice(&text[..len]);
            bytes.extend(name);
        }
        bytes
    }
}

pub(super) fn say(to: &mut UnixStream, what: Say, parts: &[&[u8]]) -> io::Result<()> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let mut message = Vec::with_capacity(12 + len.min(WHOLE));
    message.extend((what as u32).to_ne_bytes());
    message.extend((len as u64).to_ne_bytes());
    for part in parts {
        if message.len() + part.len() > WHOLE {
            to.write_all(&message)?;
            message.clear();
            to.write_all(part)?;
        } else {
            message.extend_from_slice(part);
        }
    }
    to.write_all(&message)
}

/// The next answer; `look` is called now and then meanwhile, and what it returns ends the wait.
pub(super) fn hear<E: From<io::Error>>(
    from: &mut UnixStream,
    look: &mut dyn FnMut() -> Result<(), E>,
) -> Result<Heard, E> {
    let mut head = [0; 12];
    exactly(from, &mut head, look)?;
    let (kind, len) = head.split_at(4);
    let kind = u32::from_ne_bytes(kind.try_into().unwrap_or_default());
    let len = u64::from_ne_bytes(len.try_into().unwrap_or_default());
    let mut body = room_for(len)?;
    exactly(from, &mut body, look)?;
    heard(kind, &body).ok_or_else(|| garbled().into())
}

/// Zeros for a message of so many bytes, as its sender says.
fn room_for(len: u64) -> io::Result<Vec<u8>> {
    let no_memory = || {
        io::Error::new(
            io::ErrorKind::OutOfMemory,
            format!("a message of {len} bytes, for which there is no memory; return less"),
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

fn heard(kind: u32, body: &[u8]) -> Option<Heard> {
    Some(match kind {
        1 => Heard::Ready,
        2 => Heard::Loaded,
        3 => Heard::Done { kept: false },
        4 => Heard::Done { kept: true },
        5 => {
            let text = String::from_utf8_lossy(body);
            let mut lines = text.lines();
            let dtype = lines.next()?.to_owned();
            let shape: Option<_> = lines.map(|one| one.parse().ok()).collect();
            Heard::Shape(dtype, shape?)
        }
        6 => {
            let (kept, mut rest) = body.split_first()?;
            let mut lengths = [0; 3];
            for len in &mut lengths {
                let (first, behind) = rest.split_first_chunk()?;
                *len = usize::try_from(u64::from_ne_bytes(*first)).ok()?;
                rest = behind;
            }
            let mut texts = [const { String::new() }; 3];
            for (text, len) in texts.iter_mut().zip(lengths) {
                let (part, behind) = rest.split_at_checked(len)?;
                *text = String::from_utf8_lossy(part).into_owned();
                rest = behind;
            }
            let [text, name, said] = texts;
            Heard::Raised(Raised {
                text,
                name,
                said,
                pickled: rest.to_vec(),
                kept: *kept != 0,
            })
        }
        7 => {
            let (flags, rest) = body.split_first_chunk::<2>()?;
            let (count, rest) = rest.split_first_chunk()?;
            let bytes = usize::try_from(u64::from_ne_bytes(*count))
                .ok()?
                .checked_mul(24)?;
            let (written, pickled) = rest.split_at_checked(bytes)?;
            let number = |at: &[u8]| Some(u64::from_ne_bytes(at.try_into().ok()?));
            let written = written.chunks_exact(24).map(|one| {
                Some([
                    number(&one[..8])?,
                    number(&one[8..16])?,
                    number(&one[16..])?,
                ])
            });
            Heard::Brought {
                kept: flags[0] != 0,
                written: written.collect::<Option<_>>()?,
                returned: (flags[1] != 0).then(|| pickled.to_vec()),
            }
        }
        _ => return None,
    })
}

fn garbled() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a message that is none")
}

fn exactly<E: From<io::Error>>(
    from: &mut UnixStream,
    mut into: &mut [u8],
    look: &mut dyn FnMut() -> Result<(), E>,
) -> Result<(), E> {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    while !into.is_empty() {
        match from.read(into) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(got) => into = &mut into[got..],
            Err(error) if matches!(error.kind(), WouldBlock | TimedOut) => look()?,
            Err(error) if error.kind() == Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
