use std::any::Any;
use std::fmt;
use std::io;

use isochrony_bytes::BytesError;
pub use isochrony_runtime::Cause;
use isochrony_runtime::panic_message;

use crate::prefix::PrefixFault;
use crate::report::Report;

/// An error of an execution.
#[allow(missing_docs)] // The messages document the fields.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NbufError {
    /// Illegal option.
    #[error("{option}={got} is refused; give {legal}")]
    Option {
        option: &'static str,
        got: String,
        legal: String,
    },
    /// Too little memory.
    #[error(
        "memory={limit} bytes are too few: {workers} worker(s) with buffers of {buffer} bytes need {needed}; \
         give memory={needed} or more, fewer workers, or a smaller buffer or stride"
    )]
    Memory {
        limit: usize,
        workers: usize,
        buffer: usize,
        needed: usize,
    },
    /// Record larger than a buffer.
    #[error(
        "input {input}: the record at byte {offset} {}; \
         give more memory, fewer workers or a larger buffer, or check the framing",
        too_long(*length, *buffer)
    )]
    Record {
        input: usize,
        offset: u64,
        length: Option<u64>,
        buffer: usize,
    },
    /// Length prefix malformed or too large.
    #[error("input {input}: the length prefix at byte {offset} {fault}")]
    Prefix {
        input: usize,
        offset: u64,
        fault: PrefixFault,
    },
    /// Unreadable input.
    #[error(
        "cannot read input {input} ({name}) at byte {offset}: {why}{}",
        unfinished_record(*.unfinished)
    )]
    Read {
        input: usize,
        name: String,
        offset: u64,
        /// Bytes of an incomplete record before that.
        unfinished: u64,
        #[source]
        why: io::Error,
    },
    /// Failed or panicked processor.
    #[error("{}", failure(*offset, *length, why))]
    Process {
        offset: u64,
        length: u64,
        #[source]
        why: Cause,
    },
    /// Unwritable output.
    #[error("cannot write output {output} ({name}) after {written} bytes: {why}")]
    Write {
        output: usize,
        name: String,
        written: u64,
        #[source]
        why: io::Error,
    },
    /// Worker thread that cannot be started.
    #[error("worker thread {worker} cannot be started: {why}; set a smaller workers=")]
    Thread {
        worker: usize,
        #[source]
        why: io::Error,
    },
    /// Interrupted by the caller.
    #[error(
        "the run was interrupted, so the output is incomplete; run it again for the whole output"
    )]
    Interrupted,
}

fn too_long(length: Option<u64>, buffer: usize) -> String {
    length.map_or_else(
        || format!("does not end within a buffer of {buffer} bytes"),
        |length| format!("has {length} bytes, more than a buffer of {buffer} bytes holds"),
    )
}

fn span(offset: u64, length: u64) -> String {
    if length == 0 {
        return format!("byte {offset}");
    }
    format!("bytes {offset} to {}", offset + length)
}

/// Message of a failed processor, with range and remedy unless the cause has them.
fn failure(offset: u64, length: u64, why: &Cause) -> String {
    match why.downcast_ref::<BytesError>() {
        Some(native) if native.offset().is_some() => format!("processing failed: {why}"),
        Some(_) => format!("processing failed at {}: {why}", span(offset, length)),
        None => format!(
            "the given processor failed at {}: {why}; correct it, or the data there",
            span(offset, length)
        ),
    }
}

fn unfinished_record(bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        _ => format!(
            "; the last {bytes} bytes before that byte belong to an incomplete record and were not processed"
        ),
    }
}

impl NbufError {
    /// Stable error code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Option { .. } => "nbuf_option",
            Self::Memory { .. } => "nbuf_memory",
            Self::Record { .. } => "nbuf_record",
            Self::Prefix { .. } => "nbuf_prefix",
            Self::Read { .. } => "nbuf_read",
            Self::Process { .. } => "nbuf_process",
            Self::Write { .. } => "nbuf_write",
            Self::Thread { .. } => "nbuf_thread",
            Self::Interrupted => "nbuf_interrupted",
        }
    }

    /// Offset in the stream, or in a failed input or output.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        match self {
            Self::Record { offset, .. }
            | Self::Prefix { offset, .. }
            | Self::Read { offset, .. }
            | Self::Process { offset, .. } => Some(*offset),
            Self::Write { written, .. } => Some(*written),
            _ => None,
        }
    }

    /// The I/O error, if any.
    #[must_use]
    pub fn io(&self) -> Option<&io::Error> {
        match self {
            Self::Read { why, .. } | Self::Write { why, .. } | Self::Thread { why, .. } => {
                Some(why)
            }
            _ => None,
        }
    }
}

/// The error that ended an execution. Its text names partial outputs.
#[derive(Debug, thiserror::Error)]
#[error("{error}{}", self.partial())]
pub struct StreamFailure {
    /// The error.
    #[source]
    pub error: NbufError,
    /// Report, with partial outputs.
    pub report: Box<Report>,
}

impl StreamFailure {
    /// Names the partial outputs; empty if there are none or the error says it.
    #[must_use]
    pub fn partial(&self) -> String {
        let outputs = self.report.outputs.iter().filter(|one| one.bytes > 0);
        let held: Vec<_> = outputs
            .map(|one| format!("{} bytes in {}", one.bytes, one.name))
            .collect();
        if held.is_empty() || matches!(self.error, NbufError::Interrupted) {
            return String::new();
        }
        format!("; the output is incomplete: {}", held.join(", "))
    }
}

/// A processor error with its range in the stream.
#[derive(Debug)]
pub struct LocatedError {
    /// Offset in the stream.
    pub offset: u64,
    /// Length; 0: unknown.
    pub length: u64,
    /// The error.
    pub why: Cause,
}

impl fmt::Display for LocatedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", span(self.offset, self.length), self.why)
    }
}

impl std::error::Error for LocatedError {}

#[derive(Debug)]
pub(crate) struct PanicError(String);

impl PanicError {
    pub(crate) fn new(payload: &(dyn Any + Send)) -> Self {
        let message = panic_message(payload);
        Self(message.unwrap_or("a payload that is not text").to_owned())
    }
}

impl fmt::Display for PanicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it panicked with: {}", self.0)
    }
}

impl std::error::Error for PanicError {}

/// Nothing more will be written; to be passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoppedError;

impl fmt::Display for StoppedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the run was stopped")
    }
}

impl std::error::Error for StoppedError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_says_what_where_and_how_to_mend_it() {
        let full = || io::Error::from_raw_os_error(libc::ENOSPC);
        let examples: [(NbufError, &[&str]); 13] = [
            (
                NbufError::Option {
                    option: "stride",
                    got: "0".into(),
                    legal: "bytes from 1".into(),
                },
                &["stride=0", "bytes from 1"],
            ),
            (
                NbufError::Memory {
                    limit: 10,
                    workers: 3,
                    buffer: 8,
                    needed: 24,
                },
                &["memory=10", "3 worker", "memory=24"],
            ),
            (
                NbufError::Record {
                    input: 1,
                    offset: 77,
                    length: Some(5000),
                    buffer: 4096,
                },
                &["input 1", "byte 77", "5000 bytes", "4096", "more memory"],
            ),
            (
                NbufError::Record {
                    input: 0,
                    offset: 0,
                    length: None,
                    buffer: 4096,
                },
                &[
                    "does not end within a buffer of 4096 bytes",
                    "check the framing",
                ],
            ),
            (
                NbufError::Prefix {
                    input: 2,
                    offset: 18,
                    fault: PrefixFault::Overlong,
                },
                &["input 2", "byte 18 is not a varint", "check that"],
            ),
            (
                NbufError::Prefix {
                    input: 0,
                    offset: 5,
                    fault: PrefixFault::AboveLimit {
                        length: 9,
                        max_length: 8,
                    },
                },
                &[
                    "byte 5 gives a length of 9 bytes",
                    "max_length=8",
                    "larger max_length",
                ],
            ),
            (
                NbufError::Read {
                    input: 0,
                    name: "pipe".into(),
                    offset: 9,
                    unfinished: 2,
                    why: full(),
                },
                &[
                    "input 0 (pipe)",
                    "byte 9",
                    "No space",
                    "the last 2 bytes before that byte belong to an incomplete record",
                ],
            ),
            (
                NbufError::Process {
                    offset: 10,
                    length: 5,
                    why: "bad".into(),
                },
                &[
                    "the given processor failed at bytes 10 to 15: bad",
                    "correct it",
                ],
            ),
            (
                NbufError::Process {
                    offset: 10,
                    length: 0,
                    why: "bad".into(),
                },
                &["the given processor failed at byte 10: bad"],
            ),
            (
                // The cause names the offset.
                NbufError::Process {
                    offset: 10,
                    length: 0,
                    why: Box::new(BytesError::CutOff {
                        processor: "unzstd",
                        offset: 10,
                    }),
                },
                &["processing failed: unzstd: the stream ends at byte 10, within"],
            ),
            (
                NbufError::Write {
                    output: 2,
                    name: "file".into(),
                    written: 11,
                    why: full(),
                },
                &["output 2 (file)", "after 11 bytes", "No space"],
            ),
            (
                NbufError::Thread {
                    worker: 4,
                    why: full(),
                },
                &["worker thread 4", "smaller workers="],
            ),
            (NbufError::Interrupted, &["interrupted", "incomplete"]),
        ];
        let mut codes: Vec<_> = examples.iter().map(|(error, _)| error.code()).collect();
        for (error, words) in &examples {
            let text = error.to_string();
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
        codes.dedup();
        assert_eq!(codes.len(), 9, "a code for each kind");
    }
}
