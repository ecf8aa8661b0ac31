//! Where samples lie on their disk, as the file system tells.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use super::files::Files;
use crate::source::Source;
use crate::system::{self, Extent};

/// Looks up where samples of a source lie. A file is asked for once.
#[derive(Debug)]
pub struct Positions {
    files: Files,
    /// By shard: its device and extents, if they are known.
    shards: HashMap<u64, Option<(u64, Vec<Extent>)>>,
}

impl Positions {
    /// A look-up that knows nothing yet.
    #[must_use]
    pub fn new(source: &Arc<dyn Source>) -> Self {
        Self {
            files: Files::new(source),
            shards: HashMap::new(),
        }
    }

    /// The number of the device and the byte on it at which a sample lies, or the next one that is stored in its file.
    /// None: the file system does not say so (yet), the sample is compressed, or nothing is there.
    pub fn of(&mut self, index: i64) -> Option<(u64, u64)> {
        let one = index..index.checked_add(1)?;
        let span = self.files.spans(&one).next()?;
        if !self.shards.contains_key(&span.shard) {
            let found = self.files.shard(&span).ok().flatten();
            let found = found.and_then(|shard| {
                let file = shard.os_file()?;
                let device = file.metadata().ok()?.dev();
                Some((device, system::extents(file).ok()??))
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
