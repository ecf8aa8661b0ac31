//! Message frame between processes: a header, a control part, and a payload of samples.
//!
//! ```text
//!  "ISOT"  version u16  kind u16  control u64  payload u64 | control (postcard) | zeros | payload
//!                                                                               ^ a multiple of 64
//! ```
//!
//! The control part refers to the payload by offset and length. A receiver keeps the payload in one buffer, of which
//! samples and windows are slices. Numbers are little-endian. Messages are untrusted: all fields are checked before
//! use.

use isochrony_segment::{Buffer, BufferMut, has_free_memory};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A client and its workers are one installation, so versions must match.
pub(crate) const VERSION: u16 = 5;

const MAGIC: [u8; 4] = *b"ISOT";
const HEADER_LEN: usize = 24;
const ALIGNMENT: usize = 64;
const MAX_CONTROL: u64 = 1 << 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum MessageKind {
    Tasks = 1,
    Results = 2,
    Blocks = 3,
    Host = 4,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum MessageError {
    #[error("it does not begin as a message of Isochrony does")]
    NoMessage,
    #[error(
        "its format has version {found}, but this process reads version {VERSION}; install the same version of Isochrony on all hosts"
    )]
    OtherVersion { found: u16 },
    #[error("it is message {found}, where message {expected} is expected")]
    OtherKind { expected: u16, found: u16 },
    #[error("it has {found} of {expected} bytes")]
    Truncated { expected: u64, found: u64 },
    #[error("{bytes} bytes for it do not fit into memory")]
    NoMemory { bytes: u64 },
    #[error("{what} is malformed")]
    Malformed { what: &'static str },
}

pub(crate) const fn malformed(what: &'static str) -> MessageError {
    MessageError::Malformed { what }
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct PayloadRange {
    offset: u64,
    len: u64,
}

pub(crate) struct MessageWriter {
    payload: Vec<u8>,
}

impl MessageWriter {
    pub(crate) fn new() -> Self {
        Self {
            payload: Vec::new(),
        }
    }

    pub(crate) fn add<'a>(&mut self, parts: impl Iterator<Item = &'a [u8]>) -> PayloadRange {
        let offset = self.payload.len().next_multiple_of(ALIGNMENT);
        self.payload.resize(offset, 0);
        for part in parts {
            self.payload.extend_from_slice(part);
        }
        PayloadRange {
            offset: offset as u64,
            len: (self.payload.len() - offset) as u64,
        }
    }

    pub(crate) fn finish(
        self,
        kind: MessageKind,
        control: &impl Serialize,
    ) -> Result<Vec<u8>, MessageError> {
        let control = postcard::to_stdvec(control).map_err(|_| malformed("the control part"))?;
        let start = (HEADER_LEN + control.len()).next_multiple_of(ALIGNMENT);
        let mut message = Vec::with_capacity(start + self.payload.len());
        message.extend(MAGIC);
        message.extend(VERSION.to_le_bytes());
        message.extend((kind as u16).to_le_bytes());
        message.extend((control.len() as u64).to_le_bytes());
        message.extend((self.payload.len() as u64).to_le_bytes());
        message.extend(&control);
        message.resize(start, 0);
        message.extend(&self.payload);
        Ok(message)
    }
}

pub(crate) struct Payload(Buffer);

impl Payload {
    pub(crate) fn get(&self, range: PayloadRange) -> Result<Buffer, MessageError> {
        let ends = |range: PayloadRange| {
            let start = usize::try_from(range.offset).ok()?;
            let len = usize::try_from(range.len).ok()?;
            Some(start..start.checked_add(len)?)
        };
        let ends = ends(range).filter(|ends| ends.start.is_multiple_of(ALIGNMENT));
        ends.and_then(|ends| self.0.slice(ends))
            .ok_or(malformed("a range of its payload"))
    }
}

pub(crate) fn read<C: DeserializeOwned>(
    kind: MessageKind,
    message: &[u8],
) -> Result<(C, Payload), MessageError> {
    let header = message.get(..HEADER_LEN).ok_or(MessageError::NoMessage)?;
    if header[..4] != MAGIC {
        return Err(MessageError::NoMessage);
    }
    let short = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    if short(4) != VERSION {
        return Err(MessageError::OtherVersion { found: short(4) });
    }
    if short(6) != kind as u16 {
        return Err(MessageError::OtherKind {
            expected: kind as u16,
            found: short(6),
        });
    }
    let long = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&header[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let (control, payload) = (long(8), long(16));
    if control > MAX_CONTROL {
        return Err(malformed("the length of its control part"));
    }
    let start = (HEADER_LEN + control as usize).next_multiple_of(ALIGNMENT);
    let expected = (start as u64).saturating_add(payload);
    if expected != message.len() as u64 {
        return Err(MessageError::Truncated {
            expected,
            found: message.len() as u64,
        });
    }
    let control = postcard::from_bytes(&message[HEADER_LEN..][..control as usize])
        .map_err(|_| malformed("its control part"))?;
    let no_memory = || MessageError::NoMemory { bytes: payload };
    if !has_free_memory(payload) {
        return Err(no_memory());
    }
    let bytes = &message[start..];
    let mut buffer = BufferMut::zeroed(bytes.len()).map_err(|_| no_memory())?;
    buffer.bytes_mut().copy_from_slice(bytes);
    Ok((control, Payload(buffer.freeze())))
}
