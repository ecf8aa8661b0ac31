//! Shards that are read through the cache of this host: what the engine knows of their content.
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
use crate::shard_cache::{CachedFile, FlatContent, ObjectKey, Origin, ShardCache};
use crate::state::SignalState;
use crate::version::{ContentHash, FileVersion};

/// A flat shard to be read through a cache.
pub(crate) struct CachedRequest {
    cache: Arc<ShardCache>,
    media: Arc<dyn Media>,
    key: ObjectKey,
    content: FlatContent,
}

impl CachedRequest {
    /// A shard as the newest state of a signal shows it; `None` if it has no full chunk, or no room for write marks, without
    /// which nothing tells that a gap was filled. `crcs` gives the checksums of chunks.
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

    /// The file of the shard, of which an open one was found right.
    pub(crate) fn open(
        self,
        file: &Arc<dyn MediaFile>,
        path: &Path,
        len: u64,
    ) -> std::io::Result<CachedFile> {
        let origin = match file.as_os_file() {
            None => Origin::Held(Arc::clone(file)),
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

/// The object that a shard of a flat array is.
pub(crate) fn flat_key(store: Uuid, state: &SignalState, shard: u64) -> ObjectKey {
    ObjectKey::Shard {
        store: store.into_bytes(),
        signal: state.id.0,
        shard,
        content_version: state.data.content_version(shard),
    }
}

fn first_sample(state: &SignalState, flat: Flat, shard: u64) -> i64 {
    let length = flat.shard_bytes() / state.meta.format.size() as u64;
    shard.saturating_mul(length).cast_signed()
}

/// Bytes of the full chunks of a flat shard.
pub(crate) fn full_bytes(state: &SignalState, shard: u64) -> u64 {
    let flat = Flat::data(&state.meta);
    full_chunks(state, flat, shard) * flat.chunk_bytes
}

/// Chunks of a shard that are full.
fn full_chunks(state: &SignalState, flat: Flat, shard: u64) -> u64 {
    let within = (state.end - first_sample(state, flat, shard)).max(0);
    let chunks = within.cast_unsigned() / state.meta.chunk_samples.max(1);
    chunks.min(flat.chunks)
}

/// Changes with the content of a shard as a state shows it, and when more of it can be cached. A state that was read from a
/// snapshot does not know of write marks, so its gaps count.
pub(crate) fn shown_version(state: &SignalState, shard: u64) -> FileVersion {
    let flat = Flat::data(&state.meta);
    let first = first_sample(state, flat, shard);
    let behind = first_sample(state, flat, shard.saturating_add(1)).min(state.end);
    let mut hash = ContentHash::default();
    state.data.hash_content(shard, &mut hash);
    let missing = state.gaps.missing_within(first..behind);
    let full = full_chunks(state, flat, shard);
    // The file's own version in the lower half: what has another file has another key in any case.
    hash.add(&full.to_le_bytes());
    hash.add(&missing.to_le_bytes());
    FileVersion(u128::from(hash.0) << 64 | state.data.file(shard).0 & u128::from(u64::MAX))
}

/// Keeps a mapped object of the cache.
struct CachedBytes {
    /// Keeps the object pinned.
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

/// A view of bytes of a shard as they are mapped in the cache; `None` if not all of them can be.
pub(crate) fn cached_view(file: &CachedFile, offset: u64, len: usize) -> Option<Buffer> {
    let (mapping, range) = file.mapped(offset, len)?;
    let ptr = NonNull::from(mapping.slice(range).ok()?).cast();
    let owner: Arc<dyn Owner> = Arc::new(CachedBytes { _mapping: mapping });
    // SAFETY: `slice` gave `len` bytes at `ptr`, inside the mapping, which lives as long as `owner`. They are of present pieces,
    // which no process of the cache writes to or truncates (see `isochrony_cache::Mapping`).
    Some(unsafe { Buffer::from_owner(owner, ptr, len) })
}
