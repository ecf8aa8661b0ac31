//! Space: quota, eviction, and what dead processes left.

use std::ops::Range;
use std::os::unix::fs::MetadataExt;

use crate::error::CacheError;
use crate::folder::remove;
use crate::journal::{ObjectId, Op, OwnerId};
use crate::locks::{UnlinkOutcome, is_alive, unlink_unpinned};
use crate::state::StateGuard;

/// What is evicted at least when the disk has no room for a record of the journal or for a new file.
pub(crate) const MIN_EVICTED_BYTES: u64 = 64 << 10;

impl StateGuard<'_> {
    /// Makes room for `needed` bytes more within the quota.
    pub(crate) fn make_room(&mut self, needed: u64) -> Result<(), CacheError> {
        let quota = self.inner.settings.quota_bytes;
        let excess = |locked: &Self| {
            (locked.index.usage.allocated.saturating_add(needed)).saturating_sub(quota)
        };
        if excess(self) == 0 {
            return Ok(());
        }
        if needed <= quota {
            let bytes = excess(self);
            self.evict(bytes)?;
        }
        match excess(self) {
            0 => Ok(()),
            _ => Err(CacheError::CacheFull {
                path: self.inner.folder.root.clone(),
                needed_bytes: needed,
                allocated_bytes: self.index.usage.allocated,
                quota_bytes: quota,
            }),
        }
    }

    /// Unlinks unpinned objects until `bytes` are free, and says how many are.
    pub(crate) fn evict(&mut self, bytes: u64) -> Result<u64, CacheError> {
        let inner = self.inner;
        let (mut freed, mut skipped, mut removed) = (0u64, Vec::new(), Vec::new());
        while freed < bytes
            && let Some(id) = self.index.queue.next_victim()
        {
            let state = &mut **self;
            // Either way it is no candidate of the next turn.
            if state.index.queue.pin(&id).is_err() {
                break;
            }
            skipped.push(id);
            let Some(object) = state.index.objects.get(&id) else {
                continue;
            };
            let path = inner.folder.object(&object.digest);
            if unlink_unpinned(&path) == UnlinkOutcome::Done {
                freed += object.allocated;
                removed.push(Op::Removed {
                    object: id,
                    evicted: true,
                });
            }
        }
        for id in &skipped {
            // It was pinned above.
            let _ = self.index.queue.unpin(id);
        }
        if !removed.is_empty() {
            self.commit(removed)?;
        }
        Ok(freed)
    }

    /// At opening: brings the folder in line with the index and the quota.
    pub(crate) fn clean_up(&mut self) -> Result<(), CacheError> {
        self.remove_orphans()?;
        let quota = self.inner.settings.quota_bytes;
        let excess = (self.index.usage.allocated).saturating_sub(quota);
        self.evict(excess)?;
        Ok(())
    }

    /// Ends the reservations of processes that died; on a full disk those that can be recorded.
    pub(crate) fn reap(&mut self) -> Result<(), CacheError> {
        let mut known = self.index.owners();
        known.extend(self.inner.folder.owner_ids()?);
        known.sort_unstable();
        known.dedup();
        for owner in known {
            match self.reap_owner(owner) {
                Err(CacheError::Io { source, .. }) if is_full(&source) => {}
                result => drop(result?),
            }
        }
        Ok(())
    }

    /// Ends the reservations of a process if it died, and says whether it did.
    pub(crate) fn reap_owner(&mut self, owner: OwnerId) -> Result<bool, CacheError> {
        if owner == self.owner.id || is_alive(&self.inner.folder, owner)? {
            return Ok(false);
        }
        if self.index.owners().contains(&owner) {
            self.commit(vec![Op::OwnerDied { owner }])?;
        }
        // Failing leaves a file that the next one finds.
        let _ = remove(&self.inner.folder.owner(owner));
        Ok(true)
    }

    /// Unlinks files that the index does not know, and forgets objects that have no file. An object whose file takes more than
    /// the index says goes, too: a power cut may keep blocks of a reservation and lose the record of it.
    fn remove_orphans(&mut self) -> Result<(), CacheError> {
        let index = &self.index;
        (self.inner.folder).remove_orphans(|digest| index.find(digest).is_some())?;
        let mut removed = Vec::new();
        for (id, object) in &index.objects {
            let path = self.inner.folder.object(&object.digest);
            // File systems with larger blocks round up, by less than a piece.
            let most = object.allocated + object.extent.piece_bytes;
            let is_gone = match std::fs::metadata(&path) {
                Ok(file) if file.blocks() * 512 < most => false,
                Ok(_) => unlink_unpinned(&path) == UnlinkOutcome::Done,
                Err(error) => error.kind() == std::io::ErrorKind::NotFound,
            };
            if is_gone {
                removed.push(Op::Removed {
                    object: *id,
                    evicted: false,
                });
            }
        }
        self.commit_if_room(removed)
    }

    /// Commits; if the disk has no room for the journal, evicts something and tries once more.
    pub(crate) fn commit_or_evict(&mut self, ops: Vec<Op>, needed: u64) -> Result<(), CacheError> {
        match self.commit(ops.clone()) {
            Err(CacheError::Io { source, .. }) if is_full(&source) => {
                self.evict(needed.max(MIN_EVICTED_BYTES))?;
                (self.commit(ops)).map_err(|error| self.disk_error(error, needed))
            }
            result => result,
        }
    }

    /// Ends reservations of this cache. If that cannot be recorded, the next holder of the lock tries again.
    pub(crate) fn release(&mut self, object: ObjectId, runs: &[Range<u32>]) {
        let owner = self.owner.id;
        let Some(known) = self.index.objects.get(&object) else {
            return;
        };
        let reserved = known.reserved_by(owner, runs);
        let released = (reserved.iter())
            .map(|run| Op::Released {
                object,
                first: run.start,
                count: run.end - run.start,
                owner,
            })
            .collect();
        if self.commit(released).is_err() {
            self.unreleased
                .extend(reserved.into_iter().map(|run| (object, run)));
        }
    }

    /// The error of a system call, as one about a full disk if that is what it is.
    pub(crate) fn disk_error(&self, error: CacheError, needed: u64) -> CacheError {
        match &error {
            CacheError::Io { source, .. } if is_full(source) => CacheError::DiskFull {
                path: self.inner.folder.root.clone(),
                needed_bytes: needed,
                allocated_bytes: self.index.usage.allocated,
                quota_bytes: self.inner.settings.quota_bytes,
            },
            _ => error,
        }
    }
}

/// Whether the system said that there is no space.
pub(crate) fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}
