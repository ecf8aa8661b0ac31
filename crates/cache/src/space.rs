//! Quota, eviction, and recovery from dead processes.

use std::ops::Range;
use std::os::unix::fs::MetadataExt;

use crate::error::{CacheError, is_full};
use crate::folder::remove;
use crate::journal::{ObjectId, Op, OwnerId};
use crate::locks::{UnlinkOutcome, is_alive, unlink_unpinned};
use crate::state::StateGuard;

/// Evicted at least if a record or file does not fit.
pub(crate) const MIN_EVICTED_BYTES: u64 = 64 << 10;

impl StateGuard<'_> {
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

    /// Deletes unpinned objects; returns the bytes freed.
    pub(crate) fn evict(&mut self, bytes: u64) -> Result<u64, CacheError> {
        let inner = self.inner;
        let (mut freed, mut skipped, mut removed) = (0u64, Vec::new(), Vec::new());
        while freed < bytes
            && let Some(id) = self.index.queue.next_victim()
        {
            let state = &mut **self;
            // In either case it is not the next candidate.
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

    /// At opening: makes folder, index and quota agree.
    pub(crate) fn clean_up(&mut self) -> Result<(), CacheError> {
        self.remove_orphans()?;
        let quota = self.inner.settings.quota_bytes;
        let excess = (self.index.usage.allocated).saturating_sub(quota);
        self.evict(excess)?;
        Ok(())
    }

    /// Ends dead processes' reservations, if the disk is not full.
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

    /// Ends a dead owner's reservations; returns whether it is dead.
    pub(crate) fn reap_owner(&mut self, owner: OwnerId) -> Result<bool, CacheError> {
        if owner == self.owner.id || is_alive(&self.inner.folder, owner)? {
            return Ok(false);
        }
        if self.index.owners().contains(&owner) {
            self.commit(vec![Op::OwnerDied { owner }])?;
        }
        // Else the next process finds the file.
        let _ = remove(&self.inner.folder.owner(owner));
        Ok(true)
    }

    /// Deletes files unknown to the index, and forgets objects without a file. Also deletes files larger than in the
    /// index: a power cut may lose the record of their blocks.
    fn remove_orphans(&mut self) -> Result<(), CacheError> {
        let index = &self.index;
        (self.inner.folder).remove_orphans(|digest| index.find(digest).is_some())?;
        let mut removed = Vec::new();
        for (id, object) in &index.objects {
            let path = self.inner.folder.object(&object.digest);
            // Larger blocks round up, by less than a piece.
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

    /// Evicts and retries once if the journal does not fit.
    pub(crate) fn commit_or_evict(&mut self, ops: Vec<Op>, needed: u64) -> Result<(), CacheError> {
        match self.commit(ops.clone()) {
            Err(CacheError::Io { source, .. }) if is_full(&source) => {
                self.evict(needed.max(MIN_EVICTED_BYTES))?;
                (self.commit(ops)).map_err(|error| self.disk_error(error, needed))
            }
            result => result,
        }
    }

    /// If it fails, the next holder of the lock retries.
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
