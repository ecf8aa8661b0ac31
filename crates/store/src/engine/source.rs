//! Reading samples: mapped shards, shared by all who read, or copies where mapping is not possible.
#![allow(unsafe_code)] // Mapping files and handing out views into the mappings.

use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use isochrony_segment::{Buffer, BufferKind, BufferMut, Owner};
use memmap2::{MmapOptions, MmapRaw};

use super::io::{IoContext, failed};
use super::recent::{Recent, ShardKey};
use crate::error::StoreError;
use crate::layout::flat::{Flat, IndexKind};
use crate::media::{Access, Media, MediaFile};
use crate::op::SignalId;

/// Most shards that are kept mapped; views handed out keep theirs beyond that.
const MAPPED: usize = 1024;

/// A shard file, mapped as long as it can ever get, whatever its length now.
///
/// Pages behind the end of the file must not be touched. `len` is a length that the file had; the engine never cuts a
/// file below committed samples, and those are all that is handed out. Somebody else who cuts the file kills readers of
/// what was cut (SIGBUS); no program can protect a mapping from that.
pub(crate) struct Mapping {
    raw: MmapRaw,
    file: Arc<dyn MediaFile>,
    len: AtomicU64,
}

impl Owner for Mapping {
    fn kind(&self) -> BufferKind {
        BufferKind::Mapped
    }
}

/// How a shard is read.
enum Shard {
    Mapped(Arc<Mapping>),
    /// A medium without mappings: copies.
    File(Arc<dyn MediaFile>),
    /// Another program wrote it.
    Foreign,
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources").finish_non_exhaustive()
    }
}

/// Open shards of a store.
pub(crate) struct Sources {
    /// What reads arrays that cannot be mapped.
    pub(crate) decoders: crate::decode::Decoders,
    open: Recent<Shard>,
}

impl Default for Sources {
    fn default() -> Self {
        Self {
            decoders: crate::decode::Decoders::default(),
            open: Recent::new(MAPPED),
        }
    }
}

impl Sources {
    /// Bytes of `[offset, offset + len)` of a shard's payload. `None` if another program wrote the shard, so that it
    /// must be decoded. `path` gives the candidates for the file, to be tried in order.
    pub(crate) fn read(
        &self,
        media: &dyn Media,
        key: ShardKey,
        flat: Flat,
        paths: impl FnOnce() -> Vec<std::path::PathBuf>,
        offset: u64,
        len: usize,
    ) -> Result<Option<Buffer>, StoreError> {
        let shard = match self.open.get(key) {
            Some(shard) => shard,
            None => {
                let shard = Arc::new(open(media, flat, &paths(), offset + len as u64)?);
                self.open.put(key, &shard);
                shard
            }
        };
        let need = offset + len as u64;
        match &*shard {
            Shard::Foreign => Ok(None),
            Shard::Mapped(mapping) => mapping.view(offset, len).map(Some).ok_or_else(|| {
                let have = mapping.len.load(Ordering::Relaxed);
                let path =
                    std::path::PathBuf::from(format!("shard {} of signal #{}", key.1, key.0.0));
                StoreError::MissingSamples { path, have, need }
            }),
            Shard::File(file) => {
                let path = Path::new("shard");
                let mut buffer = BufferMut::zeroed(len)?;
                let have = file.read_at(offset, buffer.bytes_mut()).at("read", path)?;
                if have < len {
                    return Err(StoreError::MissingSamples {
                        path: path.to_path_buf(),
                        have: offset + have as u64,
                        need,
                    });
                }
                Ok(Some(buffer.freeze()))
            }
        }
    }

    /// Bytes of a shard that is mapped already and long enough.
    pub(crate) fn mapped(&self, key: ShardKey, offset: u64, len: usize) -> Option<Buffer> {
        match &*self.open.get(key)? {
            Shard::Mapped(mapping) => mapping.view(offset, len),
            _ => None,
        }
    }

    /// The file of a shard that is open and flat.
    pub(crate) fn file(&self, key: ShardKey) -> Option<Arc<dyn MediaFile>> {
        match &*self.open.get(key)? {
            Shard::Mapped(mapping) => Some(mapping.file.clone()),
            Shard::File(file) => Some(file.clone()),
            Shard::Foreign => None,
        }
    }

    /// Forgets a signal's shards: their files were replaced or moved.
    pub(crate) fn forget(&self, id: SignalId) {
        self.decoders.forget(id);
        self.open.forget(id);
    }
}

impl Mapping {
    /// A view of committed bytes; `None` if the file is too short for them.
    fn view(self: &Arc<Self>, offset: u64, len: usize) -> Option<Buffer> {
        let end = offset.checked_add(len as u64)?;
        if end > self.len.load(Ordering::Relaxed) {
            // The file grew since.
            self.len.store(self.file.len().ok()?, Ordering::Relaxed);
            if end > self.len.load(Ordering::Relaxed) {
                return None;
            }
        }
        let offset = usize::try_from(offset).ok()?;
        if offset.checked_add(len)? > self.raw.len() {
            return None;
        }
        // SAFETY: `offset + len <= raw.len()` by the test above.
        let ptr = NonNull::new(unsafe { self.raw.as_mut_ptr().add(offset) })?;
        let owner: Arc<dyn Owner> = self.clone();
        // SAFETY: the mapping lives as long as `owner`. The file had `end` bytes at the last look, so the pages exist;
        // they hold committed samples, which nobody writes and behind which the engine never cuts the file (see
        // `Mapping`). All views derive from the pointer to the whole mapping, which is below `isize::MAX` bytes.
        Some(unsafe { Buffer::from_owner(owner, ptr, len) })
    }
}

fn open(
    media: &dyn Media,
    flat: Flat,
    paths: &[std::path::PathBuf],
    need: u64,
) -> Result<Shard, StoreError> {
    for path in paths {
        let file = match media.open(path, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error, "open", path)),
        };
        let mut index = vec![0; Flat::index_len(flat.chunks) as usize];
        let count = file.read_at(0, &mut index).at("read", path)?;
        match flat.index_kind(&index[..count]) {
            IndexKind::Flat => {}
            IndexKind::Foreign => return Ok(Shard::Foreign),
            IndexKind::Damaged => {
                return Err(StoreError::DamagedFile {
                    path: path.clone(),
                    offset: 0,
                    reason: "the shard's index is no index",
                });
            }
        }
        let len = file.len().at("look at", path)?;
        if len < need {
            return Err(StoreError::MissingSamples {
                path: path.clone(),
                have: len,
                need,
            });
        }
        let network = media.network(path).at("look at", path)?.is_some();
        let whole = usize::try_from(flat.full_len()).ok().filter(|_| !network);
        let (Some(os), Some(whole)) = (file.as_os_file(), whole) else {
            return Ok(Shard::File(file));
        };
        let raw = MmapOptions::new().len(whole).map_raw_read_only(os);
        let raw = raw.at("map", path)?;
        return Ok(Shard::Mapped(Arc::new(Mapping {
            raw,
            file,
            len: AtomicU64::new(len),
        })));
    }
    Err(StoreError::MissingSamples {
        path: paths.first().cloned().unwrap_or_default(),
        have: 0,
        need,
    })
}
