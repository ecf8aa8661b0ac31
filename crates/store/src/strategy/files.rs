//! The shard files of a signal, as strategies that go past the mapping need them.

use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use crate::error::StoreError;
use crate::layout::flat::{Flat, Span};
use crate::media::MediaFile;
use crate::signal::Signal;

/// A shard that is flat, so that its payload can be read as it lies.
#[derive(Debug, Clone)]
pub(crate) struct ShardFile {
    pub(crate) file: Arc<dyn MediaFile>,
    /// Where the store keeps it.
    pub(crate) path: PathBuf,
}

/// One that was found, and may have been closed since.
#[derive(Debug)]
struct OpenedFile {
    file: Weak<dyn MediaFile>,
    path: PathBuf,
}

/// Finds the files of a signal's samples; remembers the last one. The store keeps it open while it is among those used
/// last: there may be more scans than a process may have files open.
#[derive(Debug)]
pub(crate) struct Files {
    signal: Signal,
    flat: Flat,
    last: Option<(u64, Option<OpenedFile>)>,
}

impl Files {
    pub(crate) fn new(signal: Signal) -> Self {
        Self {
            flat: Flat::data(&signal.state().meta),
            signal,
            last: None,
        }
    }

    pub(crate) fn signal(&self) -> &Signal {
        &self.signal
    }

    /// Where samples lie: a span per shard.
    pub(crate) fn spans(&self, range: &Range<i64>) -> impl Iterator<Item = Span> + use<> {
        let size = self.signal.dtype().size() as u64;
        let at = range.start.cast_unsigned() * size;
        self.flat
            .spans(at, (range.end - range.start).cast_unsigned() * size)
    }

    /// The file of a shard that has the samples of a span; None if it must be decoded.
    pub(crate) fn shard(&mut self, span: &Span) -> Result<Option<ShardFile>, StoreError> {
        if let Some((shard, known)) = &self.last
            && *shard == span.shard
        {
            match known {
                None => return Ok(None),
                Some(known) => {
                    if let Some(file) = known.file.upgrade() {
                        let path = known.path.clone();
                        return Ok(Some(ShardFile { file, path }));
                    }
                }
            }
        }
        let backend = &self.signal.shared().backend;
        let (id, size) = (self.signal.id(), self.signal.dtype().size() as u64);
        let start = span.shard * self.flat.shard_bytes() + span.offset - self.flat.payload_start;
        // Opens the shard and looks at its index; that the samples are there is for who reads them to see.
        let state = self.signal.state();
        backend.read(state, (start / size).cast_signed(), 1)?;
        let file = backend.shard_file(state, span.shard)?;
        let file = match file {
            Some(file) => Some(ShardFile {
                file,
                path: backend.data_shard_path(id, span.shard)?,
            }),
            None => None,
        };
        let known = file.as_ref().map(|shard| OpenedFile {
            file: Arc::downgrade(&shard.file),
            path: shard.path.clone(),
        });
        self.last = Some((span.shard, known));
        Ok(file)
    }
}

/// Whether a file that was opened again is the same one.
pub(crate) fn is_same(one: &std::fs::File, other: &std::fs::File) -> bool {
    match (one.metadata(), other.metadata()) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}
