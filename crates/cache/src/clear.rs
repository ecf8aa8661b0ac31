//! Clearing a cache: deletes every unpinned object.

use serde::{Deserialize, Serialize};

use crate::error::CacheError;
use crate::journal::Op;
use crate::locks::{UnlinkOutcome, unlink_unpinned};
use crate::state::StateGuard;

/// Result of clearing a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ClearReport {
    /// Deleted objects.
    pub removed_objects: u64,
    /// Their bytes.
    pub removed_bytes: u64,
    /// Objects that are pinned.
    pub kept_objects: u64,
    /// Their bytes.
    pub kept_bytes: u64,
}

impl StateGuard<'_> {
    pub(crate) fn clear(&mut self) -> Result<ClearReport, CacheError> {
        let (mut cleared, mut removed) = (ClearReport::default(), Vec::new());
        for (id, object) in &self.index.objects {
            match unlink_unpinned(&self.inner.folder.object(&object.digest)) {
                UnlinkOutcome::Done => {
                    cleared.removed_objects += 1;
                    cleared.removed_bytes += object.allocated;
                    removed.push(Op::Removed {
                        object: *id,
                        evicted: false,
                    });
                }
                UnlinkOutcome::InUse => {
                    cleared.kept_objects += 1;
                    cleared.kept_bytes += object.allocated;
                }
            }
        }
        self.commit(removed)?;
        Ok(cleared)
    }
}
