//! Shard files, for strategies that bypass the source's mapping.

use std::ops::Range;
use std::sync::Arc;

use crate::error::IoError;
use crate::source::{FileRange, SampleSource, ShardFile, Shards};

#[derive(Debug)]
pub(crate) struct SourceFiles {
    source: Arc<dyn SampleSource>,
    shards: Box<dyn Shards>,
}

impl SourceFiles {
    pub(crate) fn new(source: &Arc<dyn SampleSource>) -> Self {
        Self {
            shards: source.shards(),
            source: source.clone(),
        }
    }

    pub(crate) fn source(&self) -> &Arc<dyn SampleSource> {
        &self.source
    }

    pub(crate) fn spans(&self, range: &Range<i64>) -> impl Iterator<Item = FileRange> + use<> {
        let size = self.source.dtype().size() as u64;
        let at = range.start.cast_unsigned() * size;
        let len = (range.end - range.start).cast_unsigned() * size;
        self.source.layout().spans(at, len)
    }

    /// None if the span must be decoded.
    pub(crate) fn shard(
        &mut self,
        span: &FileRange,
    ) -> Result<Option<Box<dyn ShardFile>>, IoError> {
        self.shards.open(span).map_err(IoError::Source)
    }
}
