//! What is read: samples in byte ranges of files. The seam between this crate and whoever stores them.

use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use isochrony_segment::{DType, SigSeg, StreamId};

/// An error of a source, in the source's own type.
pub type SourceError = Box<dyn Error + Send + Sync>;

/// A recording as strategies see it: indexed samples of one type, some missing (gaps), over shard files.
///
/// Asked once per piece, never per sample.
pub trait SampleSource: fmt::Debug + Send + Sync {
    /// Its name in reports.
    fn name(&self) -> &str;
    /// A path on the disk that it lies on.
    fn folder(&self) -> &Path;
    /// Type of the samples.
    fn dtype(&self) -> DType;
    /// What its segments have in common.
    fn stream(&self) -> StreamId;
    /// Whether each read of a file is a request to another machine.
    fn is_remote(&self) -> bool {
        false
    }
    /// Whether a scan opens the shard behind the one that it reads: that takes some requests.
    fn opens_ahead(&self) -> bool {
        self.is_remote()
    }
    /// Why its samples must be decoded, such as "the signal is sealed with zstd"; `None` if the files hold them raw.
    fn why_decoded(&self) -> Option<String>;
    /// Index after the last sample.
    fn end(&self) -> i64;
    /// The first gap that reaches into `range`, perhaps beyond it.
    fn gap_within(&self, range: Range<i64>) -> Option<Range<i64>>;
    /// How many samples a range has. Must be fast with many gaps.
    fn samples_within(&self, range: Range<i64>) -> i64;
    /// How samples are laid over shards.
    fn layout(&self) -> ShardLayout;
    /// A look-up of shard files.
    fn shards(&self) -> Box<dyn Shards>;
    /// Whether a range can be read; [`read`](Self::read) says why not.
    fn can_read(&self, range: &Range<i64>) -> bool;
    /// The samples of a gap-free range: mapped where files are mapped, else decoded or copied.
    ///
    /// # Errors
    /// The source's own.
    fn read(&self, range: Range<i64>) -> Result<SigSeg, SourceError>;
    /// Keeps a file open that a scan opened; may close it again, to limit open files.
    fn keep_open(&self, file: &Arc<File>);
    /// Closes a file that a scan no longer needs.
    fn close(&self, file: &Arc<File>);
}

/// Looks up the shard files of a source. May remember the last one.
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
    /// Where it lies.
    fn path(&self) -> &Path;
    /// The operating system's file, if any.
    fn os_file(&self) -> Option<&File>;
    /// The network file system that it lies on, if any.
    fn network(&self) -> Option<&'static str>;
    /// Reads up to `bytes.len()` bytes at `offset`; fewer only at the end of the file.
    ///
    /// # Errors
    /// The system's.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize>;
    /// As [`read_at`](Self::read_at), for bytes that are read once: past what is kept in memory.
    ///
    /// # Errors
    /// The system's.
    fn read_once(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.read_at(offset, bytes)
    }
    /// Whether each read is a request to another machine.
    fn is_remote(&self) -> bool {
        false
    }
    /// Length in bytes.
    ///
    /// # Errors
    /// The system's.
    fn len(&self) -> io::Result<u64>;
    /// Opens its path once more, with flags of its own.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::Unsupported`] where there is no file of the system's.
    fn reopen(&self) -> io::Result<File>;
}

/// How an array of bytes is cut into shard files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardLayout {
    /// Payload bytes of a full shard.
    pub shard_bytes: u64,
    /// Offset of the payload in each file.
    pub payload_start: u64,
}

/// Bytes in one shard file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileRange {
    /// Number of the shard.
    pub shard: u64,
    /// Offset in its file.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

impl ShardLayout {
    /// The spans of payload bytes `start..start + len`, one per shard, in order.
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

    /// The byte of the array at which a span begins.
    #[must_use]
    pub fn array_byte(&self, span: &FileRange) -> u64 {
        span.shard * self.shard_bytes + span.offset - self.payload_start
    }
}

/// Whether two open files are the same file.
#[must_use]
pub fn is_same(one: &File, other: &File) -> bool {
    match (one.metadata(), other.metadata()) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}
