//! The interface between this crate and storage: samples in byte ranges of files.

use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use isochrony_segment::{DType, SigSeg, StreamId};

/// An error of a source.
pub type SourceError = Box<dyn Error + Send + Sync>;

/// Indexed samples of one type, with gaps, in shard files.
///
/// Called once per piece, never per sample.
pub trait SampleSource: fmt::Debug + Send + Sync {
    /// Name in reports.
    fn name(&self) -> &str;
    /// A path on its disk.
    fn folder(&self) -> &Path;
    /// Type of the samples.
    fn dtype(&self) -> DType;
    /// The stream of the segments.
    fn stream(&self) -> StreamId;
    /// Whether reads are requests to another machine.
    fn is_remote(&self) -> bool {
        false
    }
    /// Whether a scan opens the next shard in advance, as that takes requests.
    fn opens_ahead(&self) -> bool {
        self.is_remote()
    }
    /// Why samples must be decoded, such as "the signal is sealed with zstd"; `None` for raw samples.
    fn why_decoded(&self) -> Option<String>;
    /// End index.
    fn end(&self) -> i64;
    /// The first gap that overlaps `range`; may extend beyond it.
    fn gap_within(&self, range: Range<i64>) -> Option<Range<i64>>;
    /// Number of samples in a range. Must be fast despite many gaps.
    fn samples_within(&self, range: Range<i64>) -> i64;
    /// Layout of samples in shards.
    fn layout(&self) -> ShardLayout;
    /// A look-up of shard files.
    fn shards(&self) -> Box<dyn Shards>;
    /// Whether a range can be read; else [`read`](Self::read) says why.
    fn can_read(&self, range: &Range<i64>) -> bool;
    /// The samples of a gap-free range: mapped, decoded or copied.
    ///
    /// # Errors
    /// The source's own.
    fn read(&self, range: Range<i64>) -> Result<SigSeg, SourceError>;
    /// Keeps a scan's file open, within limits.
    fn keep_open(&self, file: &Arc<File>);
    /// Closes a file that a scan no longer needs.
    fn close(&self, file: &Arc<File>);
}

/// Looks up shard files. May cache the last one.
pub trait Shards: fmt::Debug + Send {
    /// The file of a span; None if its bytes must be decoded.
    ///
    /// # Errors
    /// The source's own.
    fn open(&mut self, span: &FileRange) -> Result<Option<Box<dyn ShardFile>>, SourceError>;
}

/// An open shard file whose payload is raw samples.
#[allow(clippy::len_without_is_empty)]
pub trait ShardFile: fmt::Debug + Send + Sync {
    /// Its path.
    fn path(&self) -> &Path;
    /// The operating system's file, if any.
    fn os_file(&self) -> Option<&File>;
    /// Its network file system.
    fn network(&self) -> Option<&'static str>;
    /// Reads `bytes` at `offset`; fewer only at the end of the file.
    ///
    /// # Errors
    /// The system's.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize>;
    /// As [`read_at`](Self::read_at), past memory caches, for bytes read once.
    ///
    /// # Errors
    /// The system's.
    fn read_once(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.read_at(offset, bytes)
    }
    /// Whether reads are requests to another machine.
    fn is_remote(&self) -> bool {
        false
    }
    /// Length in bytes.
    ///
    /// # Errors
    /// The system's.
    fn len(&self) -> io::Result<u64>;
    /// Reopens its path, for different flags.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::Unsupported`] without a system file.
    fn reopen(&self) -> io::Result<File>;
}

/// Layout of a byte array in shard files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardLayout {
    /// Payload bytes per shard.
    pub shard_bytes: u64,
    /// Payload offset in each file.
    pub payload_start: u64,
}

/// Bytes in one shard file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileRange {
    /// Shard number.
    pub shard: u64,
    /// Offset in its file.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

impl ShardLayout {
    /// The spans of payload bytes `start..start + len`, one per shard.
    pub fn spans(&self, start: u64, len: u64) -> impl Iterator<Item = FileRange> + use<> {
        let Self {
            shard_bytes,
            payload_start,
        } = *self;
        let end = start.saturating_add(len);
        let mut at = start;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (shard, within) = (at / shard_bytes, at % shard_bytes);
            let len = (end - at).min(shard_bytes - within);
            at += len;
            Some(FileRange {
                shard,
                offset: payload_start + within,
                len,
            })
        })
    }

    /// First array byte of a span.
    #[must_use]
    pub fn array_byte(&self, span: &FileRange) -> u64 {
        span.shard * self.shard_bytes + span.offset - self.payload_start
    }
}

/// Whether two files are the same.
#[must_use]
pub fn is_same(one: &File, other: &File) -> bool {
    match (one.metadata(), other.metadata()) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}
