//! Errors of processors.

/// An error of this crate.
#[allow(missing_docs)] // The messages document the fields.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BytesError {
    /// Unknown processor name.
    #[error("there is no processor {name:?}; give one of {known}")]
    Unknown { name: String, known: String },
    /// An illegal parameter of a processor.
    #[error("{processor}: {parameter}={got} is refused; give {allowed}")]
    Parameter {
        processor: String,
        parameter: String,
        got: String,
        allowed: String,
    },
    /// A processor's name lacks its argument.
    #[error("{processor} needs {missing}; write {form}")]
    MissingArgument {
        processor: String,
        missing: &'static str,
        form: String,
    },
    /// A processor's name has an argument that it does not take.
    #[error("{processor} takes no argument, got {argument:?}; write {form}")]
    UnexpectedArgument {
        processor: String,
        argument: String,
        form: String,
    },
    /// An option that the processor does not have.
    #[error("{processor} has no option {option:?}; write {form}")]
    UnknownOption {
        processor: String,
        option: String,
        form: String,
    },
    /// Patterns that cannot be searched for.
    #[error("{processor}: {fault}; give {allowed}")]
    Patterns {
        processor: String,
        fault: String,
        allowed: String,
    },
    /// Two results with the same name. [`Chain::new`](crate::Chain::new) names them otherwise.
    #[error("{name:?} is given twice, but results are told apart by name; give it once")]
    NamedTwice { name: String },
    /// Two processors make output.
    #[error(
        "{first:?} and {second:?} both write output, but a stream has only one output; run them one after the other"
    )]
    TwoOutputs { first: String, second: String },
    /// The part or state is of another chain.
    #[error(
        "the part or state belongs to another chain of processors; create both with the chain that uses them"
    )]
    OtherChain,
    /// A buffer was joined twice, or before an earlier one.
    #[error(
        "got the buffer at byte {got}, expected the one at byte {expected}; join each buffer once, in stream order"
    )]
    OutOfOrder { expected: u64, got: u64 },
    /// A buffer was joined with a part that scanned another.
    #[error(
        "the buffer at byte {offset} is joined with a part that scanned another buffer; scan this buffer with the part first"
    )]
    NotScanned { offset: u64 },
    /// The stream ends within a sample.
    #[error(
        "{processor}: the stream ends inside a sample, with {bytes} of its {size} bytes at byte {offset}; check the dtype, or remove the incomplete sample"
    )]
    PartialSample {
        processor: &'static str,
        offset: u64,
        bytes: usize,
        size: usize,
    },
    /// A sample is out of the output type's range.
    #[error(
        "{processor}: the sample at byte {offset} becomes {value}, which {dtype} cannot hold; choose a wider type, change scale or offset, or ask to saturate"
    )]
    OutOfRange {
        processor: &'static str,
        offset: u64,
        value: String,
        dtype: &'static str,
    },
    /// Malformed input.
    #[error(
        "{processor}: the buffer at byte {offset} cannot be decompressed: {reason}; check that the stream is complete and in this format"
    )]
    Corrupt {
        processor: &'static str,
        offset: u64,
        reason: String,
    },
    /// A compressed stream is truncated.
    #[error(
        "{processor}: the stream ends at byte {offset}, within a compressed frame, so it was cut off; fetch it again"
    )]
    CutOff {
        processor: &'static str,
        offset: u64,
    },
    /// Compression failed.
    #[error(
        "{processor}: the buffer at byte {offset} could not be compressed: {reason}; use smaller buffers, or a lower level"
    )]
    Compress {
        processor: &'static str,
        offset: u64,
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
            Self::MissingArgument { .. } => "missing_argument",
            Self::UnexpectedArgument { .. } => "unexpected_argument",
            Self::UnknownOption { .. } => "unknown_option",
            Self::Patterns { .. } => "patterns",
            Self::NamedTwice { .. } => "named_twice",
            Self::TwoOutputs { .. } => "two_outputs",
            Self::OtherChain => "other_chain",
            Self::OutOfOrder { .. } => "out_of_order",
            Self::NotScanned { .. } => "not_scanned",
            Self::PartialSample { .. } => "partial_sample",
            Self::OutOfRange { .. } => "out_of_range",
            Self::Corrupt { .. } => "corrupt",
            Self::CutOff { .. } => "cut_off",
            Self::Compress { .. } => "compress",
        }
    }

    /// Offset of the error in the stream; of several errors callers report the one with the smallest.
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
            | Self::MissingArgument { .. }
            | Self::UnexpectedArgument { .. }
            | Self::UnknownOption { .. }
            | Self::Patterns { .. }
            | Self::NamedTwice { .. }
            | Self::TwoOutputs { .. }
            | Self::OtherChain => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_says_what_where_and_how_to_mend_it() {
        let processor = "stats";
        let examples: [(BytesError, &[&str]); 16] = [
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
                &["zstd: level=99 is refused", "give from -7 to 22"],
            ),
            (
                BytesError::MissingArgument {
                    processor: processor.into(),
                    missing: "a dtype",
                    form: "stats:DTYPE".into(),
                },
                &["stats needs a dtype", "write stats:DTYPE"],
            ),
            (
                BytesError::UnexpectedArgument {
                    processor: "md5".into(),
                    argument: "x".into(),
                    form: "md5".into(),
                },
                &["md5 takes no argument, got \"x\"", "write md5"],
            ),
            (
                BytesError::UnknownOption {
                    processor: "unzstd".into(),
                    option: "level".into(),
                    form: "unzstd[,window=LOG]".into(),
                },
                &[
                    "unzstd has no option \"level\"",
                    "write unzstd[,window=LOG]",
                ],
            ),
            (
                BytesError::Patterns {
                    processor: "find".into(),
                    fault: "a pattern is empty".into(),
                    allowed: "patterns of 1 to 65536 bytes".into(),
                },
                &["find: a pattern is empty", "give patterns of 1 to"],
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
            (BytesError::OtherChain, &["another chain", "create both"]),
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
                BytesError::MissingArgument { .. } => 2,
                BytesError::UnexpectedArgument { .. } => 3,
                BytesError::UnknownOption { .. } => 4,
                BytesError::Patterns { .. } => 5,
                BytesError::NamedTwice { .. } => 6,
                BytesError::TwoOutputs { .. } => 7,
                BytesError::OtherChain => 8,
                BytesError::OutOfOrder { .. } => 9,
                BytesError::NotScanned { .. } => 10,
                BytesError::PartialSample { .. } => 11,
                BytesError::OutOfRange { .. } => 12,
                BytesError::Corrupt { .. } => 13,
                BytesError::CutOff { .. } => 14,
                BytesError::Compress { .. } => 15,
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
