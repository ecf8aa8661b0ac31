//! Reading shards that cannot be mapped: sealed ones, and those that another program wrote.
//!
//! Inner chunks are decoded by `zarrs` and kept, up to [`KEPT`] bytes for a store, in the order of their last use. A
//! sealed signal is read as its own `data/zarr.json` says; a flat one by what its metadata says, because whoever
//! replaced a shard of it had to keep to that.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use isochrony_segment::{Buffer, BufferMut};
use serde_json::Value;
use zarrs::array::{
    Array, ArrayBytes, ArrayMetadata, ArrayShardedReadableExt, ArrayShardedReadableExtCache,
    CodecOptions,
};
use zarrs::storage::byte_range::{ByteRangeIterator, InvalidByteRangeError};
use zarrs::storage::{Bytes, MaybeBytesIterator, ReadableStorageTraits, StorageError, StoreKey};

use crate::error::StoreError;
use crate::layout::zarr;
use crate::media::{Access, Media};
use crate::meta::SignalMeta;
use crate::op::SignalId;

/// Bytes of decoded chunks that are kept.
const KEPT: usize = 128 << 20;

/// A folder of a [`Media`] as `zarrs` sees it; for reading only.
#[derive(Debug)]
struct Folder {
    media: Arc<dyn Media>,
    path: PathBuf,
}

impl ReadableStorageTraits for Folder {
    fn get_partial_many<'a>(
        &'a self,
        key: &StoreKey,
        ranges: ByteRangeIterator<'a>,
    ) -> Result<MaybeBytesIterator<'a>, StorageError> {
        let path = self.path.join(key.as_str());
        let file = match self.media.open(&path, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let size = file.len()?;
        Ok(Some(Box::new(ranges.map(move |range| {
            // A damaged index may ask for anything: nothing beyond the file is allocated.
            let (start, end) = (range.start(size), range.end(size));
            if start > end || end > size {
                return Err(InvalidByteRangeError::new(range, size).into());
            }
            let mut bytes = vec![0; usize::try_from(end - start).unwrap_or(usize::MAX)];
            let filled = file.read_at(start, &mut bytes)?;
            if filled < bytes.len() {
                return Err(InvalidByteRangeError::new(range, start + filled as u64).into());
            }
            Ok(Bytes::from(bytes))
        }))))
    }

    fn size_key(&self, key: &StoreKey) -> Result<Option<u64>, StorageError> {
        match self.media.stat(&self.path.join(key.as_str()))? {
            Some(crate::media::Kind::File(size)) => Ok(Some(size)),
            _ => Ok(None),
        }
    }

    fn supports_get_partial(&self) -> bool {
        true
    }
}

/// One signal's `data`, with the shard indices read so far.
struct Decoder {
    path: PathBuf,
    array: Array<dyn ReadableStorageTraits>,
    indices: ArrayShardedReadableExtCache,
    chunk_bytes: usize,
}

impl Decoder {
    fn open(media: &Arc<dyn Media>, data: &Path, meta: &SignalMeta) -> Result<Self, StoreError> {
        let refuse = |reason: String| StoreError::Undecodable {
            path: data.join("zarr.json"),
            reason,
        };
        let metadata = if meta.codec.is_empty() {
            // Longer than any signal: samples appended later are within it.
            zarr::data_array(meta, 1 << 60)
        } else {
            let path = data.join("zarr.json");
            let bytes = media
                .read(&path)
                .map_err(|error| refuse(error.to_string()))?;
            let bytes = bytes.ok_or_else(|| refuse("the file is missing".into()))?;
            serde_json::from_slice::<Value>(&bytes).map_err(|error| refuse(error.to_string()))?
        };
        let metadata: ArrayMetadata =
            serde_json::from_value(metadata).map_err(|error| refuse(error.to_string()))?;
        let folder = Folder {
            media: Arc::clone(media),
            path: data.to_path_buf(),
        };
        let storage: Arc<dyn ReadableStorageTraits> = Arc::new(folder);
        let array = Array::new_with_metadata(storage, "/", metadata)
            .map_err(|error| refuse(error.to_string()))?;
        let indices = ArrayShardedReadableExtCache::new(&array);
        Ok(Self {
            path: data.to_path_buf(),
            array,
            indices,
            chunk_bytes: usize::try_from(meta.chunk_samples)
                .unwrap_or(usize::MAX)
                .saturating_mul(meta.dtype.size()),
        })
    }

    /// An inner chunk, padded with the fill value where the array ends within it.
    fn chunk(&self, chunk: u64) -> Result<Buffer, StoreError> {
        let refuse = |reason: String| StoreError::Undecodable {
            path: self.path.clone(),
            reason,
        };
        let bytes: ArrayBytes<'static> = self
            .array
            .retrieve_subchunk_opt(&self.indices, &[chunk], &CodecOptions::default())
            .map_err(|error| refuse(format!("chunk {chunk}: {error}")))?;
        let bytes = bytes
            .into_fixed()
            .map_err(|error| refuse(format!("chunk {chunk}: {error}")))?;
        if bytes.len() != self.chunk_bytes {
            let expected = self.chunk_bytes;
            return Err(refuse(format!(
                "chunk {chunk} has {} bytes, not {expected}",
                bytes.len()
            )));
        }
        Ok(Buffer::copy_of::<u8>(&bytes)?)
    }
}

/// Decoded chunks by signal and number, with the time of their last use.
#[derive(Default)]
struct Chunks {
    clock: u64,
    bytes: usize,
    kept: HashMap<(SignalId, u64), (u64, Buffer)>,
}

impl Chunks {
    fn get(&mut self, key: (SignalId, u64)) -> Option<Buffer> {
        self.clock += 1;
        let (used, buffer) = self.kept.get_mut(&key)?;
        *used = self.clock;
        Some(buffer.clone())
    }

    fn put(&mut self, key: (SignalId, u64), buffer: Buffer) {
        self.bytes += buffer.len();
        if let Some((_, old)) = self.kept.insert(key, (self.clock, buffer)) {
            self.bytes -= old.len();
        }
        // Chunks are large and thus few: looking at all of them costs nothing beside decoding one.
        while self.bytes > KEPT && self.kept.len() > 1 {
            let oldest = self
                .kept
                .iter()
                .min_by_key(|(_, (used, _))| *used)
                .map(|(key, _)| *key);
            if let Some((_, old)) = oldest.and_then(|key| self.kept.remove(&key)) {
                self.bytes -= old.len();
            }
        }
    }

    fn forget(&mut self, id: SignalId) {
        self.kept.retain(|(signal, _), _| *signal != id);
        self.bytes = self.kept.values().map(|(_, buffer)| buffer.len()).sum();
    }
}

/// Decoding for all signals of a store.
#[derive(Default)]
pub(crate) struct Decoders {
    open: Mutex<HashMap<SignalId, Arc<Decoder>>>,
    chunks: Mutex<Chunks>,
}

impl std::fmt::Debug for Decoders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoders").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Decoders {
    /// Bytes of samples `[start, start + count)` of the signal whose array `data` is the folder `data`. Within one
    /// inner chunk they are a view of it.
    pub(crate) fn read(
        &self,
        media: &Arc<dyn Media>,
        id: SignalId,
        data: &Path,
        meta: &SignalMeta,
        start: i64,
        count: usize,
    ) -> Result<Buffer, StoreError> {
        let decoder = self.decoder(media, id, data, meta)?;
        let size = meta.dtype.size();
        let (mut at, end) = (
            start.max(0).cast_unsigned() as usize * size,
            (start.max(0).cast_unsigned() as usize + count) * size,
        );
        let whole = decoder.chunk_bytes;
        let chunk = (at / whole) as u64;
        if end <= (at / whole + 1) * whole {
            let buffer = self.chunk(&decoder, id, chunk)?;
            let part = buffer.slice(at % whole..at % whole + (end - at));
            return part.ok_or(StoreError::Undecodable {
                path: decoder.path.clone(),
                reason: "a chunk is too short".into(),
            });
        }
        let mut out = BufferMut::zeroed(end - at)?;
        let mut filled = 0;
        while at < end {
            let within = at % whole;
            let take = (whole - within).min(end - at);
            let buffer = self.chunk(&decoder, id, (at / whole) as u64)?;
            out.bytes_mut()[filled..filled + take]
                .copy_from_slice(&buffer.bytes()[within..within + take]);
            filled += take;
            at += take;
        }
        Ok(out.freeze())
    }

    fn decoder(
        &self,
        media: &Arc<dyn Media>,
        id: SignalId,
        data: &Path,
        meta: &SignalMeta,
    ) -> Result<Arc<Decoder>, StoreError> {
        if let Some(decoder) = lock(&self.open)
            .get(&id)
            .filter(|decoder| decoder.path == data)
        {
            return Ok(Arc::clone(decoder));
        }
        let decoder = Arc::new(Decoder::open(media, data, meta)?);
        lock(&self.open).insert(id, Arc::clone(&decoder));
        lock(&self.chunks).forget(id);
        Ok(decoder)
    }

    fn chunk(&self, decoder: &Decoder, id: SignalId, chunk: u64) -> Result<Buffer, StoreError> {
        if let Some(buffer) = lock(&self.chunks).get((id, chunk)) {
            return Ok(buffer);
        }
        // Two readers may decode one chunk at the same time; neither waits for the other.
        let buffer = decoder.chunk(chunk)?;
        lock(&self.chunks).put((id, chunk), buffer.clone());
        Ok(buffer)
    }

    /// Forgets a signal: its files were replaced or moved.
    pub(crate) fn forget(&self, id: SignalId) {
        lock(&self.open).remove(&id);
        lock(&self.chunks).forget(id);
    }
}
