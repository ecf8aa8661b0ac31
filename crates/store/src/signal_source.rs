//! Signals as sources for I/O strategies: maps samples to bytes of shard files.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use isochrony_io::{
    FileRange, IoError, Positions, SampleSource, ShardFile, ShardLayout, Shards, SourceError,
};
use isochrony_segment::{DType, SigSeg, StreamId};

use crate::engine::io::failed;
use crate::error::StoreError;
use crate::layout::flat::Flat;
use crate::media::{Access, Media, MediaFile};
use crate::selection::Stretch;
use crate::signal::Signal;

impl From<IoError> for StoreError {
    fn from(error: IoError) -> Self {
        match error {
            IoError::System {
                action,
                path,
                source,
            } => failed(source, action, &path),
            IoError::MissingSamples { path, have, need } => {
                Self::MissingSamples { path, have, need }
            }
            IoError::DiskFull { action, path } => Self::DiskFull { action, path },
            IoError::TooLarge { what, bytes, limit } => Self::TooLarge { what, bytes, limit },
            IoError::UnknownStrategy { name, known } => Self::UnknownStrategy { name, known },
            IoError::RefusedCalibration { option, got, legal } => {
                Self::RefusedCalibration { option, got, legal }
            }
            IoError::Interrupted => Self::Interrupted {
                action: "read samples",
            },
            IoError::BadProfile { path, reason } => Self::BadProfile { path, reason },
            IoError::Segment(error) => Self::Segment(error),
            IoError::Source(error) => match error.downcast::<Self>() {
                Ok(own) => *own,
                Err(other) => failed(io::Error::other(other), "read", Path::new("")),
            },
            other => failed(io::Error::other(other), "read", Path::new("")),
        }
    }
}

impl Signal {
    pub(crate) fn source(&self) -> Arc<dyn SampleSource> {
        Arc::new(SignalSource {
            flat: Flat::data(&self.state().meta),
            signal: self.clone(),
        })
    }

    /// Looks up where samples are on disk.
    ///
    /// ```
    /// use isochrony_segment::DType;
    /// use isochrony_store::{CreateOptions, Mode, Store};
    /// use isochrony_time::Rate;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path().join("a.iso"), Mode::Create)?;
    /// let counts = store.create("counts", &CreateOptions::new(DType::I32, Rate::from_hz(100)?))?;
    /// counts.append(&vec![0i32; 1 << 20])?;
    /// store.commit(true)?;
    /// let mut positions = store.signal("counts")?.positions();
    /// // Not every file system tells.
    /// if let (Some(first), Some(second)) = (positions.of(0), positions.of(1)) {
    ///     assert_eq!((first.0, first.1 + 4), second);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn positions(&self) -> Positions {
        Positions::new(&self.source())
    }
}

pub(crate) fn ranges(parts: &[Stretch]) -> Vec<Range<i64>> {
    parts.iter().map(|part| part.range.clone()).collect()
}

#[derive(Debug)]
struct SignalSource {
    signal: Signal,
    flat: Flat,
}

impl SampleSource for SignalSource {
    fn name(&self) -> &str {
        self.signal.name()
    }

    fn folder(&self) -> &Path {
        self.signal.shared().backend.path()
    }

    fn dtype(&self) -> DType {
        self.signal.dtype()
    }

    fn stream(&self) -> StreamId {
        self.signal.stream()
    }

    fn is_remote(&self) -> bool {
        self.signal.shared().backend.media().is_remote()
    }

    fn opens_ahead(&self) -> bool {
        // Through a cache, opening fetches a piece of a shard that another host may read.
        self.is_remote() && !reads_through_cache(&self.signal)
    }

    fn why_decoded(&self) -> Option<String> {
        let (codec, format) = (self.signal.codec(), self.signal.format());
        if !codec.is_empty() {
            return Some(format!("the signal is sealed with {codec}"));
        }
        (!format.is_plain()).then(|| format!("its samples are stored as {format}"))
    }

    fn end(&self) -> i64 {
        self.signal.end_index()
    }

    fn gap_within(&self, range: Range<i64>) -> Option<Range<i64>> {
        let gap = self.signal.gaps().first_within(range)?;
        Some(gap.range())
    }

    fn samples_within(&self, range: Range<i64>) -> i64 {
        let missing = self.signal.gaps().missing_within(range.clone());
        range.end - range.start - missing
    }

    fn layout(&self) -> ShardLayout {
        self.flat.shard_layout()
    }

    fn shards(&self) -> Box<dyn Shards> {
        Box::new(SignalShards {
            signal: self.signal.clone(),
            flat: self.flat,
            last: None,
        })
    }

    fn can_read(&self, range: &Range<i64>) -> bool {
        self.signal.has_indices(range) && !self.signal.shared().backend.is_closed()
    }

    fn read(&self, range: Range<i64>) -> Result<SigSeg, SourceError> {
        Ok(self.signal.read(range)?)
    }

    fn keep_open(&self, file: &Arc<File>) {
        if let Ok(sources) = self.signal.shared().backend.sources() {
            sources.keep_open(self.signal.id(), file);
        }
    }

    fn close(&self, file: &Arc<File>) {
        if let Ok(sources) = self.signal.shared().backend.sources() {
            sources.close(file);
        }
    }
}

/// Bytes of remote shards whose heads are prefetched, and bounds on their number.
const BYTES_AHEAD: u64 = 64 << 20;
const SHARDS_AHEAD: (u64, u64) = (2, 8);

/// Remembers the last shard. The store keeps recent ones open: there may be more scans than file descriptors.
#[derive(Debug)]
struct SignalShards {
    signal: Signal,
    flat: Flat,
    last: Option<(u64, Option<LastShard>)>,
}

#[derive(Debug)]
struct LastShard {
    file: Weak<dyn MediaFile>,
    path: PathBuf,
}

impl Shards for SignalShards {
    fn open(&mut self, span: &FileRange) -> Result<Option<Box<dyn ShardFile>>, SourceError> {
        Ok(match self.find(span)? {
            Some(shard) => Some(Box::new(shard)),
            None => None,
        })
    }
}

impl SignalShards {
    fn find(&mut self, span: &FileRange) -> Result<Option<FlatShard>, StoreError> {
        let backend = &self.signal.shared().backend;
        let media = backend.media();
        let flat_shard = |file, path| FlatShard {
            file,
            path,
            media: media.clone(),
        };
        if let Some((shard, known)) = &self.last
            && *shard == span.shard
        {
            match known {
                None => return Ok(None),
                Some(known) => {
                    if let Some(file) = known.file.upgrade() {
                        return Ok(Some(flat_shard(file, known.path.clone())));
                    }
                }
            }
        }
        let (id, size) = (self.signal.id(), self.signal.format().size() as u64);
        let start = self.flat.shard_layout().array_byte(span);
        // Opening checks the index; reading checks that the samples exist.
        let state = self.signal.state();
        let is_open = media.is_remote() && backend.shard_file(state, span.shard)?.is_some();
        if !is_open {
            self.prefetch_heads(&*media, span.shard)?;
            backend.read(state, (start / size).cast_signed(), 1)?;
        }
        let found = match backend.shard_file(state, span.shard)? {
            Some(file) => {
                let path = backend.data_shard_path(id, span.shard)?;
                Some(flat_shard(file, path))
            }
            None => None,
        };
        let last = found.as_ref().map(|shard| LastShard {
            file: Arc::downgrade(&shard.file),
            path: shard.path.clone(),
        });
        self.last = Some((span.shard, last));
        Ok(found)
    }

    /// Without this, opening each remote shard would wait for several requests.
    fn prefetch_heads(&self, media: &dyn Media, first: u64) -> Result<(), StoreError> {
        if !media.is_remote() {
            return Ok(());
        }
        let backend = &self.signal.shared().backend;
        let bytes = self.signal.end_index().cast_unsigned() * self.signal.format().size() as u64;
        let shards = bytes.div_ceil(self.flat.shard_bytes());
        let (least, most) = SHARDS_AHEAD;
        let ahead = match reads_through_cache(&self.signal) {
            // Other hosts read the next ones.
            true => 1,
            false => (BYTES_AHEAD / self.flat.shard_bytes()).clamp(least, most),
        };
        for shard in first..shards.min(first + ahead) {
            media.prefetch_ends(&backend.data_shard_path(self.signal.id(), shard)?);
        }
        Ok(())
    }
}

fn reads_through_cache(signal: &Signal) -> bool {
    let sources = signal.shared().backend.sources();
    sources.is_ok_and(|sources| sources.cache().is_some())
}

#[derive(Debug)]
struct FlatShard {
    file: Arc<dyn MediaFile>,
    path: PathBuf,
    media: Arc<dyn Media>,
}

impl ShardFile for FlatShard {
    fn path(&self) -> &Path {
        &self.path
    }

    fn os_file(&self) -> Option<&File> {
        self.file.as_os_file()
    }

    fn network(&self) -> Option<&'static str> {
        self.media.network_of(&*self.file).ok().flatten()
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, bytes)
    }

    fn read_once(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.file.read_once(offset, bytes)
    }

    fn is_remote(&self) -> bool {
        self.file.is_remote()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn reopen(&self) -> io::Result<File> {
        let file = self.media.open(&self.path, Access::Read)?;
        let file = file.as_os_file();
        file.ok_or(io::ErrorKind::Unsupported)?.try_clone()
    }
}
