//! `read`: `pread` into reused buffers.

use std::ops::Range;
use std::sync::Arc;

use isochrony_segment::Buffer;

use super::{DataPath, IoStrategy, StartError};
use crate::error::{ErrorContext, IoError};
use crate::scan::{
    BufferPool, Prefetcher, ReadOutcome, ScanSpec, SourceFiles, SparePool, TaskReader,
    bytes_present,
};
use crate::source::SampleSource;

pub(crate) struct ReadStrategy;

impl IoStrategy for ReadStrategy {
    fn name(&self) -> &'static str {
        "read"
    }

    fn piece_bytes(&self) -> u64 {
        512 << 10
    }

    fn data_path(&self) -> DataPath {
        DataPath::COPIED
    }

    fn reads_any_file(&self) -> bool {
        true
    }

    fn start(&self, scan: ScanSpec) -> Result<Arc<dyn Prefetcher>, StartError> {
        Ok(Arc::new(ReadScan {
            source: scan.source,
            spares: SparePool::default(),
        }))
    }
}

#[derive(Debug)]
struct ReadScan {
    source: Arc<dyn SampleSource>,
    spares: SparePool<Copier>,
}

impl Prefetcher for ReadScan {
    fn begin_task(self: Arc<Self>, _task: u64, _parts: &[Range<i64>]) -> Box<dyn TaskReader> {
        let copier = self.spares.take().unwrap_or_else(|| Copier {
            files: SourceFiles::new(&self.source),
            buffers: BufferPool::default(),
        });
        Box::new(ReadReader {
            scan: self,
            copier: Some(copier),
        })
    }
}

#[derive(Debug)]
struct ReadReader {
    scan: Arc<ReadScan>,
    /// Set until dropped.
    copier: Option<Copier>,
}

impl TaskReader for ReadReader {
    fn read(&mut self, range: &Range<i64>) -> Result<ReadOutcome, IoError> {
        let source = &self.scan.source;
        let copied = match &mut self.copier {
            Some(copier) => copier.copy(range)?,
            None => None,
        };
        match copied {
            Some(buffer) => ReadOutcome::copied(source, range, buffer),
            None => ReadOutcome::as_stored(source, range),
        }
    }
}

impl Drop for ReadReader {
    fn drop(&mut self) {
        self.scan.spares.put(self.copier.take());
    }
}

#[derive(Debug)]
struct Copier {
    files: SourceFiles,
    buffers: BufferPool,
}

impl Copier {
    /// None if a shard must be decoded.
    fn copy(&mut self, range: &Range<i64>) -> Result<Option<Buffer>, IoError> {
        let size = self.files.source().dtype().size() as u64;
        let bytes = (range.end - range.start).cast_unsigned() * size;
        let Ok(len) = usize::try_from(bytes) else {
            return Ok(None);
        };
        let mut buffer = self.buffers.take(len)?;
        let Some(memory) = buffer.get_mut() else {
            return Ok(None);
        };
        let mut at = 0;
        for span in self.files.spans(range) {
            let Some(shard) = self.files.shard(&span)? else {
                return Ok(None);
            };
            let room = &mut memory[at..at + span.len as usize];
            let have = shard
                .read_at(span.offset, room)
                .with_path("read", shard.path())?;
            if have < room.len() {
                return Err(IoError::MissingSamples {
                    path: shard.path().to_owned(),
                    have: bytes_present(shard.len(), span.offset + have as u64),
                    need: span.offset + span.len,
                });
            }
            at += room.len();
        }
        let view = buffer.slice(0..len);
        self.buffers.release(buffer);
        Ok(view)
    }
}
