//! Where samples lie on their disk, as the file system tells.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;

use super::files::Files;
use super::system::{self, Extent};
use crate::signal::Signal;

/// Looks up where samples of a signal lie. A file is asked for once.
#[derive(Debug)]
pub struct Positions {
    files: Files,
    /// By shard: its device and extents, if they are known.
    shards: HashMap<u64, Option<(u64, Vec<Extent>)>>,
}

impl Positions {
    pub(crate) fn new(signal: &Signal) -> Self {
        Self {
            files: Files::new(signal.clone()),
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
                let file = shard.file.as_os_file()?;
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

impl Signal {
    /// A look-up of where samples lie on their disk.
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
        Positions::new(self)
    }
}
