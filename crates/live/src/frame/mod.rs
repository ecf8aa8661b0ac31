//! Wire frames: a header of 56 bytes, then samples, all little-endian.
//!
//! ```text
//!  0  4  "ISOF"
//!  4  1  version, 2
//!  5  1  dtype: its place in DType::ALL
//!  6  2  flags: 1 the sender's clock was set before this frame; 2 nothing follows; 4 the sender stopped before all
//!        was sent (with 2); 8 the times are exact
//!  8  4  session: new whenever the sender restarts its index
//! 12  4  samples
//! 16  8  index of the first sample, counted from the session's beginning
//! 24  8  civil time of the first sample, whole ns since 1970 (signed, rounded down); i64::MIN: unknown
//! 32  8  samples right before the first that were never recorded: a gap, not a loss
//! 40  4  crc32c of the frame with this field zero
//! 44  4  fraction of the civil time, in 2^-32 ns
//! 48  8  duration of the frame's samples less their nominal duration, in 2^-32 ns (signed)
//! 56     samples
//! ```
//!
//! Version 1 is still read: 48 bytes of header, flags 1 and 2 only, zeros in bytes 44 to 48, times in whole
//! nanoseconds.
//!
//! A UDP datagram is one frame. Over TCP and pipes frames are concatenated. A [`SenderDescription`] is the payload of a
//! frame.

mod description;

pub use description::{DESCRIPTION_TAG, MAX_DESCRIPTION_BYTES, SenderDescription};

use isochrony_segment::DType;
use isochrony_time::Fixed;

/// Header bytes in version 2, which is written.
pub const HEADER_LEN: usize = 56;
/// Header bytes in version 1, the minimum.
pub const HEADER_LEN_V1: usize = 48;
/// Default limit of a frame.
pub const MAX_FRAME_BYTES: usize = 1 << 20;

const MAGIC: [u8; 4] = *b"ISOF";
const VERSION: u8 = 2;
const FLAG_CLOCK_STEP: u16 = 1;
const FLAG_END: u16 = 2;
const FLAG_TRUNCATED: u16 = 4;
const FLAG_EXACT: u16 = 8;
const CHECKSUM_OFFSET: usize = 40;
const UNKNOWN_TIME: i64 = i64::MIN;
/// Sums of indices do not overflow.
const MAX_INDEX: u64 = 1 << 62;

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Sample dtype.
    pub dtype: DType,
    /// The sender's clock was set before it.
    pub step: bool,
    /// Nothing follows.
    pub end: bool,
    /// With `end`: the sender stopped early.
    pub truncated: bool,
    /// Changes when the sender restarts its index.
    pub session: u32,
    /// Number of samples.
    pub samples: u32,
    /// Index of the first sample.
    pub first: u64,
    /// Civil time of the first sample, ns since 1970.
    pub time: Option<Fixed>,
    /// Time and drift are exactly the recording's.
    pub exact: bool,
    /// Actual minus nominal duration, in 2^-32 ns.
    pub drift: i64,
    /// Unrecorded samples right before the first.
    pub gap: u64,
}

/// Why bytes are not a frame.
#[allow(missing_docs)] // The messages document the fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Too few or too many bytes.
    #[error(
        "the frame header announces {expected} bytes, but the frame has {got}; send each frame whole"
    )]
    Length {
        /// Announced bytes, or those of a header.
        expected: usize,
        got: usize,
    },
    /// Not a frame, or unknown version.
    #[error(
        "not a frame: the data starts with the bytes {got:02x?}, not with \"ISOF\" and version 1 or 2; send with isochrony send, or listen with the framing that the sender uses, such as raw"
    )]
    Magic {
        /// First bytes.
        got: [u8; 5],
    },
    /// Illegal dtype, flag, index or description.
    #[error("the frame has an illegal field {field}={got}; correct the sender")]
    Field {
        field: &'static str,
        /// Value, or length of a description.
        got: u64,
    },
    /// Corrupted in transmission.
    #[error(
        "the frame was damaged on its way: its header states checksum {expected:08x}, its bytes give {got:08x}; send it again"
    )]
    Checksum { expected: u32, got: u32 },
}

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes
        .get(at..at + N)
        .and_then(|bytes| bytes.try_into().ok())
        .unwrap_or([0; N])
}

fn checksum(bytes: &[u8]) -> u32 {
    let sum = crc32c::crc32c(&bytes[..CHECKSUM_OFFSET]);
    let sum = crc32c::crc32c_append(sum, &[0; 4]);
    crc32c::crc32c_append(sum, &bytes[CHECKSUM_OFFSET + 4..])
}

fn header_len(version: u8) -> Option<usize> {
    match version {
        1 => Some(HEADER_LEN_V1),
        2 => Some(HEADER_LEN),
        _ => None,
    }
}

impl FrameHeader {
    /// A header without a time.
    #[must_use]
    pub fn new(dtype: DType, session: u32, first: u64) -> Self {
        Self {
            dtype,
            step: false,
            end: false,
            truncated: false,
            session,
            samples: 0,
            first,
            time: None,
            exact: false,
            drift: 0,
            gap: 0,
        }
    }

    /// Appends a frame of these samples (native byte order); ignores `self.samples`. A time outside 1678 to 2262
    /// becomes unknown.
    pub fn write(&self, samples: &[u8], out: &mut Vec<u8>) {
        let begin = out.len();
        let code = DType::ALL.iter().position(|&dtype| dtype == self.dtype);
        let count = (samples.len() / self.dtype.size()) as u32;
        let time = self
            .time
            .and_then(|time| Some((time.floor_i64()?, time.frac())));
        let time = time.filter(|&(ns, _)| ns != UNKNOWN_TIME);
        let exact = self.exact && time.is_some();
        let flags = [
            (self.step, FLAG_CLOCK_STEP),
            (self.end, FLAG_END),
            (self.end && self.truncated, FLAG_TRUNCATED),
            (exact, FLAG_EXACT),
        ];
        let flags = flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag);
        let (ns, fraction) = time.unwrap_or((UNKNOWN_TIME, 0));
        let drift = if exact { self.drift } else { 0 };
        out.extend(MAGIC);
        out.extend([VERSION, code.unwrap_or_default() as u8]);
        out.extend(flags.sum::<u16>().to_le_bytes());
        out.extend(self.session.to_le_bytes());
        out.extend(count.to_le_bytes());
        out.extend(self.first.to_le_bytes());
        out.extend(ns.to_le_bytes());
        out.extend(self.gap.to_le_bytes());
        out.extend([0; 4]);
        out.extend(fraction.to_le_bytes());
        out.extend(drift.to_le_bytes());
        out.extend(&samples[..count as usize * self.dtype.size()]);
        let sum = checksum(&out[begin..]);
        out[begin + CHECKSUM_OFFSET..begin + CHECKSUM_OFFSET + 4]
            .copy_from_slice(&sum.to_le_bytes());
    }

    /// Length of the frame that starts here, unverified; None: too few bytes.
    ///
    /// # Errors
    /// No frame starts here.
    pub fn frame_len(bytes: &[u8]) -> Result<Option<usize>, FrameError> {
        let known = bytes.len().min(MAGIC.len());
        let version = bytes.get(4).copied();
        if bytes[..known] != MAGIC[..known] || version.is_some_and(|one| header_len(one).is_none())
        {
            return Err(FrameError::Magic {
                got: bytes_at(bytes, 0),
            });
        }
        match version.and_then(header_len) {
            Some(header) if bytes.len() >= header => {
                let read = Self::read(bytes)?;
                Ok(Some(header + read.samples as usize * read.dtype.size()))
            }
            _ => Ok(None),
        }
    }

    /// Reads a header without verifying the checksum.
    ///
    /// # Errors
    /// All except a wrong checksum.
    pub fn read(bytes: &[u8]) -> Result<Self, FrameError> {
        let got = bytes.len();
        if got < HEADER_LEN_V1 {
            return Err(FrameError::Length {
                expected: HEADER_LEN_V1,
                got,
            });
        }
        let (version, header) = match header_len(bytes[4]) {
            Some(header) if bytes[..4] == MAGIC => (bytes[4], header),
            _ => {
                return Err(FrameError::Magic {
                    got: bytes_at(bytes, 0),
                });
            }
        };
        if got < header {
            return Err(FrameError::Length {
                expected: header,
                got,
            });
        }
        let wrong = |field, got| Err(FrameError::Field { field, got });
        let Some(&dtype) = DType::ALL.get(usize::from(bytes[5])) else {
            return wrong("dtype", bytes[5].into());
        };
        let flags = u16::from_le_bytes(bytes_at(bytes, 6));
        let known = if version == 1 {
            FLAG_CLOCK_STEP | FLAG_END
        } else {
            FLAG_CLOCK_STEP | FLAG_END | FLAG_TRUNCATED | FLAG_EXACT
        };
        let has = |flag: u16| flags & flag != 0;
        let ns = i64::from_le_bytes(bytes_at(bytes, 24));
        let untimed = ns == UNKNOWN_TIME;
        if flags & !known != 0
            || has(FLAG_TRUNCATED) && !has(FLAG_END)
            || has(FLAG_EXACT) && untimed
        {
            return wrong("flags", flags.into());
        }
        let fraction = u32::from_le_bytes(bytes_at(bytes, 44));
        if fraction != 0 && (version == 1 || untimed) {
            return wrong("fraction of the time", fraction.into());
        }
        let drift = if version == 1 {
            0
        } else {
            i64::from_le_bytes(bytes_at(bytes, 48))
        };
        if drift != 0 && !has(FLAG_EXACT) {
            return wrong("drift", drift.cast_unsigned());
        }
        let first = u64::from_le_bytes(bytes_at(bytes, 16));
        if first >= MAX_INDEX {
            return wrong("index", first);
        }
        let gap = u64::from_le_bytes(bytes_at(bytes, 32));
        if gap > first {
            return wrong("gap", gap);
        }
        Ok(Self {
            dtype,
            step: has(FLAG_CLOCK_STEP),
            end: has(FLAG_END),
            truncated: has(FLAG_TRUNCATED),
            session: u32::from_le_bytes(bytes_at(bytes, 8)),
            samples: u32::from_le_bytes(bytes_at(bytes, 12)),
            first,
            time: (!untimed).then(|| Fixed::from_parts(ns, fraction)),
            exact: has(FLAG_EXACT),
            drift,
            gap,
        })
    }

    /// Reads and verifies a whole frame.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), FrameError> {
        let header = Self::read(bytes)?;
        let before = header_len(bytes[4]).unwrap_or(HEADER_LEN);
        let (expected, got) = (
            before + header.samples as usize * header.dtype.size(),
            bytes.len(),
        );
        if expected != got {
            return Err(FrameError::Length { expected, got });
        }
        let (expected, got) = (
            u32::from_le_bytes(bytes_at(bytes, CHECKSUM_OFFSET)),
            checksum(bytes),
        );
        if expected != got {
            return Err(FrameError::Checksum { expected, got });
        }
        Ok((header, &bytes[before..]))
    }
}

#[cfg(test)]
mod tests;
