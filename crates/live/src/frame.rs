//! Frames of samples on the wire: 48 bytes, then samples, all little-endian.
//!
//! ```text
//!  0  4  "ISOF"
//!  4  1  version, 1
//!  5  1  dtype: its place in DType::ALL
//!  6  2  flags: 1 the sender's clock was set before this frame; 2 nothing follows
//!  8  4  session: chosen anew whenever a sender begins to count anew
//! 12  4  samples
//! 16  8  index of the first sample, counted from the session's beginning
//! 24  8  civil time of the first sample, ns since 1970 (signed); the least number: not known
//! 32  8  samples right before the first that were never recorded: a gap, not a loss
//! 40  4  crc32c of the frame with this field zero
//! 44  4  zero
//! 48     samples
//! ```
//!
//! One UDP datagram is one frame. Over TCP and pipes frames follow one another.

use isochrony_segment::DType;

/// Bytes before the samples.
pub const HEADER: usize = 48;
/// Most bytes of a frame, unless the listener says otherwise.
pub const MAX_FRAME: usize = 1 << 20;

const MAGIC: [u8; 4] = *b"ISOF";
const VERSION: u8 = 1;
const STEP: u16 = 1;
const END: u16 = 2;
/// Where the checksum lies.
const CHECKSUM: usize = 40;
const UNKNOWN: i64 = i64::MIN;
/// Indices stay below, so that sums of them fit.
const MOST: u64 = 1 << 62;

/// What a frame says of its samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Type of the samples.
    pub dtype: DType,
    /// The sender's clock was set before this frame.
    pub step: bool,
    /// Nothing follows.
    pub end: bool,
    /// Changes when the sender begins to count anew.
    pub session: u32,
    /// Number of samples.
    pub samples: u32,
    /// Index of the first sample.
    pub first: u64,
    /// Civil time of the first sample, ns since 1970.
    pub time: Option<i64>,
    /// Samples right before the first that were never recorded.
    pub gap: u64,
}

/// Why bytes are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Fewer bytes than a header has, or than its samples need, or more.
    #[error("a frame of {expected} bytes was announced, {got} came")]
    Length {
        /// Bytes that the header announces; those of a header where not even that is whole.
        expected: usize,
        /// Bytes that came.
        got: usize,
    },
    /// Something else than a frame, or of another version.
    #[error("the bytes {got:02x?} begin no frame of version 1, which is \"ISOF\" and 1")]
    Magic {
        /// The first bytes.
        got: [u8; 5],
    },
    /// A dtype, flag or index that no frame has.
    #[error("{field}={got} is in no frame")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        got: u64,
    },
    /// Bytes were changed on the way.
    #[error("the frame says that its checksum is {expected:08x}, it is {got:08x}")]
    Checksum {
        /// In the frame.
        expected: u32,
        /// Of the frame.
        got: u32,
    },
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes
        .get(at..at + N)
        .and_then(|bytes| bytes.try_into().ok())
        .unwrap_or([0; N])
}

fn checksum(bytes: &[u8]) -> u32 {
    let sum = crc32c::crc32c(&bytes[..CHECKSUM]);
    let sum = crc32c::crc32c_append(sum, &[0; 4]);
    crc32c::crc32c_append(sum, &bytes[CHECKSUM + 4..])
}

impl Header {
    /// Bytes of the whole frame.
    #[must_use]
    pub fn frame_len(&self) -> usize {
        HEADER + self.samples as usize * self.dtype.size()
    }

    /// Appends the frame of these samples, in native order, to `out`; `samples` is set to how many there are.
    pub fn write(&self, samples: &[u8], out: &mut Vec<u8>) {
        let begin = out.len();
        let code = DType::ALL.iter().position(|&dtype| dtype == self.dtype);
        let count = (samples.len() / self.dtype.size()) as u32;
        out.extend(MAGIC);
        out.extend([VERSION, code.unwrap_or_default() as u8]);
        let flags = if self.step { STEP } else { 0 } | if self.end { END } else { 0 };
        out.extend(flags.to_le_bytes());
        out.extend(self.session.to_le_bytes());
        out.extend(count.to_le_bytes());
        out.extend(self.first.to_le_bytes());
        out.extend(self.time.unwrap_or(UNKNOWN).to_le_bytes());
        out.extend(self.gap.to_le_bytes());
        out.extend([0; 8]);
        out.extend(&samples[..count as usize * self.dtype.size()]);
        let sum = checksum(&out[begin..]);
        out[begin + CHECKSUM..begin + CHECKSUM + 4].copy_from_slice(&sum.to_le_bytes());
    }

    /// What the first [`HEADER`] bytes say, unchecked by the checksum, which is of the whole frame.
    ///
    /// # Errors
    /// [`FrameError`], all but a wrong checksum.
    pub fn read(bytes: &[u8]) -> Result<Self, FrameError> {
        let got = bytes.len();
        if got < HEADER {
            return Err(FrameError::Length {
                expected: HEADER,
                got,
            });
        }
        if bytes[..4] != MAGIC || bytes[4] != VERSION {
            return Err(FrameError::Magic {
                got: field(bytes, 0),
            });
        }
        let wrong = |field, got| Err(FrameError::Field { field, got });
        let Some(&dtype) = DType::ALL.get(usize::from(bytes[5])) else {
            return wrong("dtype", bytes[5].into());
        };
        let flags = u16::from_le_bytes(field(bytes, 6));
        if flags & !(STEP | END) != 0 {
            return wrong("flags", flags.into());
        }
        let zero = u32::from_le_bytes(field(bytes, CHECKSUM + 4));
        if zero != 0 {
            return wrong("the last field of the header", zero.into());
        }
        let samples = u32::from_le_bytes(field(bytes, 12));
        let first = u64::from_le_bytes(field(bytes, 16));
        if first >= MOST {
            return wrong("index", first);
        }
        let time = i64::from_le_bytes(field(bytes, 24));
        let gap = u64::from_le_bytes(field(bytes, 32));
        if gap > first {
            return wrong("gap", gap);
        }
        Ok(Self {
            dtype,
            step: flags & STEP != 0,
            end: flags & END != 0,
            session: u32::from_le_bytes(field(bytes, 8)),
            samples,
            first,
            time: (time != UNKNOWN).then_some(time),
            gap,
        })
    }

    /// The frame that `bytes` are, and its samples.
    ///
    /// # Errors
    /// [`FrameError`].
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), FrameError> {
        let header = Self::read(bytes)?;
        let (expected, got) = (header.frame_len(), bytes.len());
        if expected != got {
            return Err(FrameError::Length { expected, got });
        }
        let (expected, got) = (u32::from_le_bytes(field(bytes, CHECKSUM)), checksum(bytes));
        if expected != got {
            return Err(FrameError::Checksum { expected, got });
        }
        Ok((header, &bytes[HEADER..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_header() -> impl Strategy<Value = Header> {
        let dtype = (0..DType::ALL.len()).prop_map(|at| DType::ALL[at]);
        let rest = (any::<(bool, bool, u32)>(), 0..MOST, any::<Option<i64>>());
        (dtype, rest).prop_map(|(dtype, ((step, end, session), first, time))| Header {
            dtype,
            step,
            end,
            session,
            samples: 0,
            first,
            time: time.filter(|&time| time != UNKNOWN),
            gap: first / 3,
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn what_was_written_is_read(header in any_header(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let samples = bytes.len() / header.dtype.size();
            let payload = &bytes[..samples * header.dtype.size()];
            let mut frame = Vec::new();
            header.write(payload, &mut frame);
            let expected = Header { samples: samples as u32, ..header };
            prop_assert_eq!(Header::parse(&frame), Ok((expected, payload)));
            prop_assert_eq!(frame.len(), expected.frame_len());
        }

        #[test]
        fn a_changed_bit_is_no_frame(
            header in any_header(), bytes in prop::collection::vec(any::<u8>(), 0..64), at: prop::sample::Index, bit in 0u32..8,
        ) {
            let payload = &bytes[..bytes.len() / header.dtype.size() * header.dtype.size()];
            let mut frame = Vec::new();
            header.write(payload, &mut frame);
            let at = at.index(frame.len());
            frame[at] ^= 1u8 << bit;
            prop_assert!(Header::parse(&frame).is_err());
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..128)) {
            let _ = Header::parse(&bytes);
        }
    }

    #[test]
    fn bytes_on_the_wire_are_as_documented() {
        let header = Header {
            dtype: DType::I16,
            step: true,
            end: false,
            session: 0x0403_0201,
            samples: 2,
            first: 7,
            time: None,
            gap: 5,
        };
        let mut frame = Vec::new();
        header.write(&[1, 2, 3, 4], &mut frame);
        assert_eq!(&frame[..8], b"ISOF\x01\x02\x01\x00");
        assert_eq!(&frame[8..16], [1, 2, 3, 4, 2, 0, 0, 0]);
        assert_eq!(frame[16..24], 7u64.to_le_bytes());
        assert_eq!(frame[24..32], i64::MIN.to_le_bytes());
        assert_eq!(frame[32..40], 5u64.to_le_bytes());
        assert_eq!(&frame[48..], [1, 2, 3, 4]);
    }

    #[test]
    fn every_message_says_what_came_and_what_was_expected() {
        let examples: [(FrameError, &[&str]); 4] = [
            (
                FrameError::Length {
                    expected: 48,
                    got: 12,
                },
                &["48", "12"],
            ),
            (
                FrameError::Magic { got: *b"RIFF\0" },
                &["ISOF", "[52, 49, 46, 46, 00]"],
            ),
            (
                FrameError::Field {
                    field: "dtype",
                    got: 99,
                },
                &["dtype=99"],
            ),
            (
                FrameError::Checksum {
                    expected: 1,
                    got: 2,
                },
                &["00000001", "00000002"],
            ),
        ];
        for (error, words) in examples {
            let text = error.to_string();
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
    }
}
