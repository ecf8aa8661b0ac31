//! Errors of processors.

/// An error of this crate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BytesError {
    /// Unknown processor name.
    #[error("there is no processor {name:?}; give one of {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The known names.
        known: String,
    },
    /// An illegal parameter of a processor.
    #[error("{processor}: {parameter}={got} must be {allowed}; change {parameter}")]
    Parameter {
        /// The processor.
        processor: String,
        /// The parameter.
        parameter: String,
        /// Its value.
        got: String,
        /// Its legal values.
        allowed: String,
    },
    /// Two results with the same name.
    #[error(
        "{name:?} is given twice; results are told apart by name, so give it once or name them yourself"
    )]
    NamedTwice {
        /// The name.
        name: String,
    },
    /// Two processors make output.
    #[error(
        "{first:?} and {second:?} both write output, but a stream has only one output; run them one after the other"
    )]
    TwoOutputs {
        /// The first.
        first: String,
        /// The second.
        second: String,
    },
    /// The part or state is of another chain.
    #[error(
        "the part or state belongs to another chain of processors; create both with the chain that uses them"
    )]
    Foreign,
    /// A buffer was joined twice, or before an earlier one.
    #[error(
        "got the buffer at byte {got}, expected the one at byte {expected}; join each buffer once, in stream order"
    )]
    OutOfOrder {
        /// Offset of the next buffer.
        expected: u64,
        /// Offset of this one.
        got: u64,
    },
    /// A buffer was joined with a part that scanned another.
    #[error(
        "the buffer at byte {offset} is joined with a part that scanned another buffer; scan this buffer with the part first"
    )]
    NotScanned {
        /// Offset of the buffer.
        offset: u64,
    },
    /// The stream ends within a sample.
    #[error(
        "{processor}: the stream ends inside a sample, with {bytes} of its {size} bytes at byte {offset}; check the dtype, or remove the incomplete sample"
    )]
    PartialSample {
        /// The processor.
        processor: &'static str,
        /// Where the sample begins.
        offset: u64,
        /// Bytes present.
        bytes: usize,
        /// Bytes of a sample.
        size: usize,
    },
    /// A sample is out of the output type's range.
    #[error(
        "{processor}: the sample at byte {offset} becomes {value}, which {dtype} cannot hold; choose a wider type, change scale or offset, or ask to saturate"
    )]
    OutOfRange {
        /// The processor.
        processor: &'static str,
        /// Where the sample begins.
        offset: u64,
        /// Its converted value.
        value: String,
        /// The output type.
        dtype: &'static str,
    },
    /// Malformed input.
    #[error(
        "{processor}: the buffer at byte {offset} cannot be decompressed: {reason}; check that the stream is complete and in this format"
    )]
    Corrupt {
        /// The processor.
        processor: &'static str,
        /// Offset in the compressed stream.
        offset: u64,
        /// The library's message.
        reason: String,
    },
    /// A compressed stream is truncated.
    #[error(
        "{processor}: the stream ends at byte {offset}, within a compressed frame, so it was cut off; fetch it again"
    )]
    CutOff {
        /// The processor.
        processor: &'static str,
        /// Length of the compressed stream.
        offset: u64,
    },
    /// Compression failed.
    #[error(
        "{processor}: the buffer at byte {offset} could not be compressed: {reason}; use smaller buffers, or a lower level"
    )]
    Compress {
        /// The processor.
        processor: &'static str,
        /// Offset of the buffer.
        offset: u64,
        /// The library's message.
        reason: String,
    },
}

impl BytesError {
    /// Stable code, in snake_case.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown_processor",
            Self::Parameter { .. } => "parameter",
            Self::NamedTwice { .. } => "named_twice",
            Self::TwoOutputs { .. } => "two_outputs",
            Self::Foreign => "foreign",
            Self::OutOfOrder { .. } => "out_of_order",
            Self::NotScanned { .. } => "not_scanned",
            Self::PartialSample { .. } => "partial_sample",
            Self::OutOfRange { .. } => "out_of_range",
            Self::Corrupt { .. } => "corrupt",
            Self::CutOff { .. } => "cut_off",
            Self::Compress { .. } => "compress",
        }
    }

    /// Offset in the stream. Of several errors, report the first in the stream.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        match self {
            Self::NotScanned { offset }
            | Self::PartialSample { offset, .. }
            | Self::OutOfRange { offset, .. }
            | Self::Corrupt { offset, .. }
            | Self::CutOff { offset, .. }
            | Self::Compress { offset, .. }
            | Self::OutOfOrder { got: offset, .. } => Some(*offset),
            Self::Unknown { .. }
            | Self::Parameter { .. }
            | Self::NamedTwice { .. }
            | Self::TwoOutputs { .. }
            | Self::Foreign => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_says_what_where_and_how_to_mend_it() {
        let processor = "stats";
        let examples: [(BytesError, &[&str]); 12] = [
            (
                BytesError::Unknown {
                    name: "sha3".into(),
                    known: "sha256, md5".into(),
                },
                &["\"sha3\"", "sha256, md5", "give one of"],
            ),
            (
                BytesError::Parameter {
                    processor: "zstd".into(),
                    parameter: "level".into(),
                    got: "99".into(),
                    allowed: "from -7 to 22".into(),
                },
                &["zstd", "level=99", "from -7 to 22", "change level"],
            ),
            (
                BytesError::NamedTwice { name: "md5".into() },
                &["\"md5\"", "twice", "give it once"],
            ),
            (
                BytesError::TwoOutputs {
                    first: "zstd".into(),
                    second: "gzip".into(),
                },
                &["\"zstd\"", "\"gzip\"", "one after the other"],
            ),
            (BytesError::Foreign, &["another chain", "create both"]),
            (
                BytesError::OutOfOrder {
                    expected: 4,
                    got: 8,
                },
                &["byte 8", "expected the one at byte 4", "in stream order"],
            ),
            (
                BytesError::NotScanned { offset: 8 },
                &["byte 8", "scan this buffer"],
            ),
            (
                BytesError::PartialSample {
                    processor,
                    offset: 12,
                    bytes: 1,
                    size: 4,
                },
                &["stats", "1 of its 4 bytes", "byte 12", "check the dtype"],
            ),
            (
                BytesError::OutOfRange {
                    processor: "convert",
                    offset: 6,
                    value: "300".into(),
                    dtype: "uint8",
                },
                &["convert", "byte 6", "300", "uint8", "saturate"],
            ),
            (
                BytesError::Corrupt {
                    processor: "unzstd",
                    offset: 5,
                    reason: "Unknown frame descriptor".into(),
                },
                &["unzstd", "byte 5", "Unknown frame", "check that"],
            ),
            (
                BytesError::CutOff {
                    processor: "unzstd",
                    offset: 9,
                },
                &["unzstd", "byte 9", "fetch it again"],
            ),
            (
                BytesError::Compress {
                    processor: "zstd",
                    offset: 3,
                    reason: "Allocation error".into(),
                },
                &["zstd", "byte 3", "Allocation error", "lower level"],
            ),
        ];
        for (at, (error, parts)) in examples.iter().enumerate() {
            // A new variant does not compile until it has an index here.
            let position = match error {
                BytesError::Unknown { .. } => 0,
                BytesError::Parameter { .. } => 1,
                BytesError::NamedTwice { .. } => 2,
                BytesError::TwoOutputs { .. } => 3,
                BytesError::Foreign => 4,
                BytesError::OutOfOrder { .. } => 5,
                BytesError::NotScanned { .. } => 6,
                BytesError::PartialSample { .. } => 7,
                BytesError::OutOfRange { .. } => 8,
                BytesError::Corrupt { .. } => 9,
                BytesError::CutOff { .. } => 10,
                BytesError::Compress { .. } => 11,
            };
            assert_eq!(position, at);
            let text = error.to_string();
            for part in *parts {
                assert!(text.contains(part), "{text:?} lacks {part:?}");
            }
            assert!(
                error
                    .code()
                    .chars()
                    .all(|c| c == '_' || c.is_ascii_lowercase())
            );
        }
    }
}
