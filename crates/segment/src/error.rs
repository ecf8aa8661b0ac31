//! Errors of segments.

use crate::DType;

/// Says what is wrong, where, and how to fix it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// Text that is not an element type.
    #[error(
        "unknown dtype {text:?}; write a NumPy spelling such as \"<i2\", \"int16\", \"f4\" or \
         \"complex64\" (NumPy counts bytes: \"i2\" is a 16-bit integer)"
    )]
    UnknownDType {
        /// The text.
        text: String,
    },
    /// An element type that signals cannot have.
    #[error(
        "dtype {text:?} is not supported; convert to one of bool, int8, int16, int32, int64, uint8, \
         uint16, uint32, float32, float64, complex64, complex128"
    )]
    UnsupportedDType {
        /// The text.
        text: String,
    },
    /// An unsupported complex type.
    #[error(
        "dtype {text:?} is not supported; complex samples are stored as \"ci16\" (complex_int16: pairs of int16), \
         \"complex64\" or \"complex128\": convert to one of these"
    )]
    UnsupportedComplex {
        /// The text.
        text: String,
    },
    /// Samples accessed as another type.
    #[error("samples are {got}, but {expected} was asked for; ask for {got} or convert first")]
    DTypeMismatch {
        /// Type expected.
        expected: DType,
        /// Type of the samples.
        got: DType,
    },
    /// A buffer that is not a whole number of samples.
    #[error(
        "{bytes} bytes are not a whole number of {dtype} samples of {size} bytes; drop the last {rest} \
         bytes or correct the dtype", rest = bytes % dtype.size(), size = dtype.size()
    )]
    PartialSample {
        /// Bytes of the buffer.
        bytes: usize,
        /// Element type.
        dtype: DType,
    },
    /// Joined segments that are not adjacent.
    #[error(
        "cannot append the segment that starts at index {next_start} of {next_stream:?} to the one that \
         ends at {end} of {stream:?}: only a segment that starts at {end} is adjacent; keep the two \
         apart where there is a gap"
    )]
    NotAdjacent {
        /// Stream of the first segment.
        stream: String,
        /// End of the first segment.
        end: i64,
        /// Stream of the second segment.
        next_stream: String,
        /// Start of the second segment.
        next_start: i64,
    },
    /// Joined segments of different streams.
    #[error(
        "cannot append a segment of {next_stream:?} (stream id {next_id}) to one of {stream:?} (stream id \
         {id}); segments join only within one stream: same name, timebase, rate and calibration"
    )]
    StreamMismatch {
        /// Stream of the first segment.
        stream: String,
        /// Its id.
        id: u32,
        /// Stream of the second segment.
        next_stream: String,
        /// Its id.
        next_id: u32,
    },
    /// A range outside the segment.
    #[error(
        "samples {start}..{end} of {stream:?} were asked for, but the segment holds {have_start}..{have_end}; \
         give a range within it, whose start is not above its end"
    )]
    OutOfRange {
        /// Name of the stream.
        stream: String,
        /// Start of the range.
        start: i64,
        /// End of the range.
        end: i64,
        /// Start of the segment.
        have_start: i64,
        /// End of the segment.
        have_end: i64,
    },
    /// A segment beyond the largest index.
    #[error(
        "a segment of {len} samples that starts at index {start} would end beyond 2^63 - 1; lower its start index"
    )]
    IndexOverflow {
        /// First index.
        start: i64,
        /// Length in samples.
        len: u64,
    },
    /// A calibration that is not invertible.
    #[error(
        "calibration scale={scale}, offset={offset} is unusable; scale must be finite and not zero, offset finite"
    )]
    InvalidCalibration {
        /// Units per count.
        scale: f64,
        /// Value of zero counts.
        offset: f64,
    },
    /// The system did not provide the memory.
    #[error(
        "cannot allocate {bytes} bytes for samples; ask for a shorter range or process it in windows"
    )]
    OutOfMemory {
        /// Size of the allocation.
        bytes: usize,
    },
}

impl SegmentError {
    /// Stable snake_case name of the variant.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownDType { .. } => "unknown_dtype",
            Self::UnsupportedDType { .. } => "unsupported_dtype",
            Self::UnsupportedComplex { .. } => "unsupported_complex",
            Self::DTypeMismatch { .. } => "dtype_mismatch",
            Self::PartialSample { .. } => "partial_sample",
            Self::NotAdjacent { .. } => "not_adjacent",
            Self::StreamMismatch { .. } => "stream_mismatch",
            Self::OutOfRange { .. } => "out_of_range",
            Self::IndexOverflow { .. } => "index_overflow",
            Self::InvalidCalibration { .. } => "invalid_calibration",
            Self::OutOfMemory { .. } => "out_of_memory",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With required parts of the messages.
    fn examples() -> Vec<(SegmentError, &'static [&'static str])> {
        let text = || "x".to_string();
        vec![
            (
                SegmentError::UnknownDType { text: "i16".into() },
                &["\"i16\"", "int16", "i2"],
            ),
            (
                SegmentError::UnsupportedDType {
                    text: "uint64".into(),
                },
                &["\"uint64\"", "int64"],
            ),
            (
                SegmentError::UnsupportedComplex { text: "ci8".into() },
                &["\"ci8\"", "\"ci16\"", "complex_int16", "complex64"],
            ),
            (
                SegmentError::DTypeMismatch {
                    expected: DType::F32,
                    got: DType::I16,
                },
                &["float32", "int16", "convert"],
            ),
            (
                SegmentError::PartialSample {
                    bytes: 7,
                    dtype: DType::I16,
                },
                &[
                    "7 bytes",
                    "int16 samples of 2 bytes",
                    "drop the last 1 bytes",
                ],
            ),
            (
                SegmentError::NotAdjacent {
                    stream: text(),
                    end: 10,
                    next_stream: text(),
                    next_start: 12,
                },
                &["starts at index 12", "ends at 10", "gap"],
            ),
            (
                SegmentError::StreamMismatch {
                    stream: text(),
                    id: 3,
                    next_stream: "y".into(),
                    next_id: 4,
                },
                &["\"x\"", "\"y\"", "id 3", "id 4", "same name"],
            ),
            (
                SegmentError::OutOfRange {
                    stream: text(),
                    start: 1,
                    end: 9,
                    have_start: 2,
                    have_end: 8,
                },
                &["1..9", "2..8", "\"x\"", "within"],
            ),
            (
                SegmentError::IndexOverflow {
                    start: i64::MAX,
                    len: 2,
                },
                &["2 samples", "9223372036854775807", "lower"],
            ),
            (
                SegmentError::InvalidCalibration {
                    scale: 0.0,
                    offset: 1.5,
                },
                &["scale=0", "offset=1.5", "finite"],
            ),
            (
                SegmentError::OutOfMemory { bytes: 99 },
                &["99 bytes", "shorter"],
            ),
        ]
    }

    /// A new variant does not compile without an index here.
    fn position(error: &SegmentError) -> usize {
        match error {
            SegmentError::UnknownDType { .. } => 0,
            SegmentError::UnsupportedDType { .. } => 1,
            SegmentError::UnsupportedComplex { .. } => 2,
            SegmentError::DTypeMismatch { .. } => 3,
            SegmentError::PartialSample { .. } => 4,
            SegmentError::NotAdjacent { .. } => 5,
            SegmentError::StreamMismatch { .. } => 6,
            SegmentError::OutOfRange { .. } => 7,
            SegmentError::IndexOverflow { .. } => 8,
            SegmentError::InvalidCalibration { .. } => 9,
            SegmentError::OutOfMemory { .. } => 10,
        }
    }

    #[test]
    fn every_message_says_what_where_and_how_to_mend_it() {
        for (at, (error, parts)) in examples().iter().enumerate() {
            assert_eq!(position(error), at);
            let message = error.to_string();
            for part in *parts {
                assert!(message.contains(part), "{message:?} lacks {part:?}");
            }
        }
    }

    #[test]
    fn codes_are_snake_case_and_distinct() {
        let mut codes: Vec<_> = examples().iter().map(|(error, _)| error.code()).collect();
        let count = codes.len();
        assert!(
            codes
                .iter()
                .all(|c| c.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
        );
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), count);
    }
}
