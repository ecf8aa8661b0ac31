//! Flat shards read through the cache of this host.
#![allow(unsafe_code)] // Handing out views into mappings.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use isochrony_cache::Mapping;
use isochrony_segment::{Buffer, BufferKind, Owner};
use uuid::Uuid;

use super::mapping::identity;
use crate::layout::flat::Flat;
use crate::media::{Media, MediaFile};
use crate::shard_cache::key::{first_sample, flat_key, full_chunks};
use crate::shard_cache::{CachedFile, FlatContent, ObjectKey, Origin, ShardCache};
use crate::state::SignalState;
use crate::version::{ContentHash, FileVersion};

pub(crate) struct CachedRequest {
    cache: Arc<ShardCache>,
    media: Arc<dyn Media>,
    key: ObjectKey,
    content: FlatContent,
}

impl CachedRequest {
    /// `None` without a full chunk, or without room for write marks, as fills would be undetectable. `crcs`: checksums
    /// of chunks.
    pub(crate) fn new(
        cache: Arc<ShardCache>,
        media: &Arc<dyn Media>,
        store: Uuid,
        state: &SignalState,
        shard: u64,
        crcs: impl FnOnce(Range<u64>) -> Vec<Option<u32>>,
    ) -> Option<Self> {
        let flat = Flat::data(&state.meta);
        flat.marks_at()?;
        let full = full_chunks(state, flat, shard);
        let first = shard.checked_mul(flat.chunks)?;
        if full == 0 {
            return None;
        }
        Some(Self {
            cache,
            media: Arc::clone(media),
            key: flat_key(store, state, shard),
            content: FlatContent {
                payload_start: flat.payload_start,
                chunk_bytes: flat.chunk_bytes,
                sample_bytes: state.meta.format.size(),
                first: first_sample(state, flat, shard),
                gaps: state.gaps.clone(),
                crcs: crcs(first..first + full),
            },
        })
    }

    pub(crate) fn open(
        self,
        file: &Arc<dyn MediaFile>,
        path: &Path,
        len: u64,
    ) -> std::io::Result<CachedFile> {
        let origin = match file.as_os_file() {
            None => Origin::Open(Arc::clone(file)),
            Some(os) => Origin::Reopened {
                media: self.media,
                path: path.to_path_buf(),
                identity: identity(os)?,
            },
        };
        let content = Box::new(self.content);
        Ok(CachedFile::new(self.cache, self.key, content, origin, len))
    }
}

/// Changes with a shard's content, and when more of it can be cached. Includes gaps: a snapshot's state has no write
/// marks.
pub(crate) fn shown_version(state: &SignalState, shard: u64) -> FileVersion {
    let flat = Flat::data(&state.meta);
    let first = first_sample(state, flat, shard);
    let behind = first_sample(state, flat, shard.saturating_add(1)).min(state.end);
    let mut hash = ContentHash::default();
    state.data.hash_content(shard, &mut hash);
    let missing = state.gaps.missing_within(first..behind);
    let full = full_chunks(state, flat, shard);
    // The file's own version is the lower half: another file always has another key.
    hash.add(&full.to_le_bytes());
    hash.add(&missing.to_le_bytes());
    FileVersion(u128::from(hash.0) << 64 | state.data.file(shard).0 & u128::from(u64::MAX))
}

struct CachedBytes {
    /// Pins the object.
    _mapping: Arc<Mapping>,
}

impl fmt::Debug for CachedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedBytes").finish_non_exhaustive()
    }
}

impl Owner for CachedBytes {
    fn kind(&self) -> BufferKind {
        BufferKind::Mapped
    }
}

/// `None` unless all is mapped from the cache.
pub(crate) fn cached_view(file: &CachedFile, offset: u64, len: usize) -> Option<Buffer> {
    let (mapping, range) = file.mapped(offset, len)?;
    let ptr = NonNull::from(mapping.slice(range).ok()?).cast();
    let owner: Arc<dyn Owner> = Arc::new(CachedBytes { _mapping: mapping });
    // SAFETY: `slice` gave `len` bytes at `ptr`, inside the mapping, which lives as long as `owner`. They belong to
    // present pieces, which no process of the cache writes or truncates (see `isochrony_cache::Mapping`).
    Some(unsafe { Buffer::from_owner(owner, ptr, len) })
}
