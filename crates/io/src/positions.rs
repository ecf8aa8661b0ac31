use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use isochrony_system::blocks::{Extent, extents};

use crate::scan::SourceFiles;
use crate::source::SampleSource;

/// Sample positions on disk. Asks the file system once per file.
#[derive(Debug)]
pub struct Positions {
    files: SourceFiles,
    shards: HashMap<u64, Option<(u64, Vec<Extent>)>>,
}

impl Positions {
    /// An empty look-up.
    #[must_use]
    pub fn new(source: &Arc<dyn SampleSource>) -> Self {
        Self {
            files: SourceFiles::new(source),
            shards: HashMap::new(),
        }
    }

    /// Device number and byte offset of a sample, or of the next one in its file. None if the file system cannot tell
    /// (yet), or the sample is compressed or does not exist.
    pub fn of(&mut self, index: i64) -> Option<(u64, u64)> {
        let one = index..index.checked_add(1)?;
        let span = self.files.spans(&one).next()?;
        if !self.shards.contains_key(&span.shard) {
            let found = self.files.shard(&span).ok().flatten();
            let found = found.and_then(|shard| {
                let file = shard.os_file()?;
                let device = file.metadata().ok()?.dev();
                Some((device, extents(file).ok()??))
            });
            self.shards.insert(span.shard, found);
        }
        let (device, extents) = self.shards.get(&span.shard)?.as_ref()?;
        let place = extents.partition_point(|one| one.logical + one.length <= span.offset);
        let extent = extents.get(place)?;
        let within = span.offset.saturating_sub(extent.logical);
        Some((*device, extent.physical + within))
    }
}
