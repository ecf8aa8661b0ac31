//! Reading shards that cannot be mapped: sealed ones, and those that another program wrote.
//!
//! Inner chunks are decoded by `zarrs` and kept, up to 128 MiB for a store, in the order of their last use. A
//! sealed signal is read as its own `data/zarr.json` says; a flat one by what its metadata says, because whoever
//! replaced a shard of it had to keep to that.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use isochrony_segment::{Buffer, BufferMut};
use serde_json::Value;
use zarrs::array::{
    Array, ArrayBytes, ArrayMetadata, ArrayShardedReadableExt, ArrayShardedReadableExtCache,
    CodecOptions,
};
use zarrs::storage::byte_range::{ByteRangeIterator, InvalidByteRangeError};
use zarrs::storage::{Bytes, MaybeBytesIterator, ReadableStorageTraits, StorageError, StoreKey};

use self::chunks::Chunks;
use self::frames::Frames;
use self::shards::SealedShard;
use crate::engine::candidate::ArrayFolder;
use crate::engine::io::IoContext;
use crate::engine::recent::{Recent, open_file_limit};
use crate::error::StoreError;
use crate::layout::shard::{HEADER_LEN, HeaderBlock, ShardHeader};
use crate::layout::{self, zarr};
use crate::media::{Media, MediaFile, limits};
use crate::meta::SignalMeta;
use crate::op::SignalId;
use crate::seal::SHARD_CHUNKS;
use crate::version::FileVersion;

mod chunks;
mod frames;
mod shards;

/// The array `data` of a signal, as somebody wants to read it.
pub(crate) struct ArraySource<'a> {
    pub(crate) folder: &'a ArrayFolder,
    /// What its shards must say of themselves, if it is sealed.
    pub(crate) version: FileVersion,
}

/// A folder of a [`Media`] as `zarrs` sees it; for reading only. `zarrs` takes a missing shard for one of fill values;
/// nobody asks for shards without valid samples, so here it is an error.
#[derive(Debug)]
struct Folder {
    media: Arc<dyn Media>,
    place: ArrayFolder,
    id: SignalId,
    version: FileVersion,
    is_sealed: bool,
    /// Sealed shards that are open, of all signals. What replaces one has another version.
    shards: Arc<Recent<SealedShard>>,
    /// Why the last file could not be had.
    fault: Mutex<Option<StoreError>>,
}

impl Folder {
    /// Opens a shard and compares what it says of itself with what is wanted.
    fn open(&self, number: u64, path: PathBuf) -> Result<Arc<dyn MediaFile>, StoreError> {
        let wanted = ShardHeader {
            signal: self.id.0,
            shard: number,
            version: self.version,
        };
        let header = |file: &dyn MediaFile| {
            if !self.is_sealed {
                return Ok(HeaderBlock::None);
            }
            let mut bytes = [0; HEADER_LEN as usize];
            let count = file.read_at(0, &mut bytes)?;
            Ok(HeaderBlock::decode(&bytes[..count]))
        };
        match self.place.open(&*self.media, &path, &wanted, header)? {
            Some(file) => Ok(file),
            None => Err(StoreError::MissingSamples {
                path,
                have: 0,
                need: 1,
            }),
        }
    }

    /// A shard of a sealed array, which is opened and checked once.
    fn sealed(&self, number: u64) -> Result<Arc<SealedShard>, StoreError> {
        let key = (self.id, number, self.version);
        if let Some(shard) = self.shards.get(key) {
            return Ok(shard);
        }
        let path = layout::shard_file(&self.place.path, number);
        let shard = SealedShard::open(self.open(number, path.clone())?)
            .map_err(|reason| StoreError::Undecodable { path, reason })?;
        let shard = Arc::new(shard);
        self.shards.put(key, &shard);
        Ok(shard)
    }

    /// The file of a shard and its length, as `zarrs` asks for it.
    fn file(&self, key: &StoreKey) -> Result<(Arc<dyn MediaFile>, u64), StorageError> {
        let number = key.as_str().rsplit('/').next();
        let number = number.and_then(|number| number.parse().ok());
        let number = number.unwrap_or(u64::MAX);
        let found = if self.is_sealed {
            self.sealed(number)
                .map(|shard| (Arc::clone(&shard.file), shard.len))
        } else {
            let path = self.place.path.join(key.as_str());
            self.open(number, path.clone()).and_then(|file| {
                let len = file.len().at("look at", &path)?;
                Ok((file, len))
            })
        };
        found.map_err(|error| {
            let message = error.to_string();
            *lock(&self.fault) = Some(error);
            StorageError::Other(message)
        })
    }
}

impl ReadableStorageTraits for Folder {
    fn get_partial_many<'a>(
        &'a self,
        key: &StoreKey,
        ranges: ByteRangeIterator<'a>,
    ) -> Result<MaybeBytesIterator<'a>, StorageError> {
        let (file, size) = self.file(key)?;
        Ok(Some(Box::new(ranges.map(move |range| {
            // A damaged index may ask for anything: nothing beyond the file is allocated.
            let (start, end) = (range.start(size), range.end(size));
            if start > end || end > size {
                return Err(InvalidByteRangeError::new(range, size).into());
            }
            let len = usize::try_from(end - start).unwrap_or(usize::MAX);
            let mut bytes = Vec::new();
            (bytes.try_reserve_exact(len))
                .map_err(|error| StorageError::Other(error.to_string()))?;
            bytes.resize(len, 0);
            let filled = file.read_at(start, &mut bytes)?;
            if filled < bytes.len() {
                return Err(InvalidByteRangeError::new(range, start + filled as u64).into());
            }
            Ok(Bytes::from(bytes))
        }))))
    }

    fn size_key(&self, key: &StoreKey) -> Result<Option<u64>, StorageError> {
        Ok(Some(self.file(key)?.1))
    }

    fn supports_get_partial(&self) -> bool {
        true
    }
}

/// One signal's `data`, with the shard indices read so far.
struct Decoder {
    path: PathBuf,
    folder: Arc<Folder>,
    array: Array<dyn ReadableStorageTraits>,
    indices: ArrayShardedReadableExtCache,
    chunk_bytes: usize,
    /// What chunks are compressed with; None if they are not.
    frames: Option<Frames>,
    /// Whether a chunk that is left out is one of zeros.
    fills_zeros: bool,
}

impl Decoder {
    fn open(
        media: &Arc<dyn Media>,
        id: SignalId,
        source: &ArraySource<'_>,
        meta: &SignalMeta,
        shards: &Arc<Recent<SealedShard>>,
    ) -> Result<Self, StoreError> {
        let data = source.folder.path.as_path();
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
                .read(&path, limits::METADATA)
                .map_err(|error| refuse(error.to_string()))?;
            let bytes = bytes.ok_or_else(|| refuse("the file is missing".into()))?;
            let value: Value =
                serde_json::from_slice(&bytes).map_err(|error| refuse(error.to_string()))?;
            let expected = zarr::data_identity(id, source.version);
            let got = &value["attributes"]["isochrony"];
            // Earlier versions left none.
            if !got.is_null() && *got != expected {
                return Err(StoreError::WrongShard {
                    path,
                    got: got.to_string(),
                    expected: expected.to_string(),
                });
            }
            frames::check_layout(&value, meta).map_err(|reason| refuse(reason.into()))?;
            value
        };
        let fills_zeros = metadata["fill_value"] == zarr::data_array(meta, 0)["fill_value"];
        let metadata: ArrayMetadata =
            serde_json::from_value(metadata).map_err(|error| refuse(error.to_string()))?;
        let folder = Arc::new(Folder {
            media: Arc::clone(media),
            place: source.folder.clone(),
            id,
            version: source.version,
            is_sealed: !meta.codec.is_empty(),
            shards: Arc::clone(shards),
            fault: Mutex::new(None),
        });
        let storage: Arc<dyn ReadableStorageTraits> = folder.clone();
        let array = Array::new_with_metadata(storage, "/", metadata)
            .map_err(|error| refuse(error.to_string()))?;
        let indices = ArrayShardedReadableExtCache::new(&array);
        Ok(Self {
            path: data.to_path_buf(),
            folder,
            array,
            indices,
            chunk_bytes: usize::try_from(meta.chunk_samples)
                .unwrap_or(usize::MAX)
                .saturating_mul(meta.dtype.size()),
            frames: Frames::of(meta),
            fills_zeros,
        })
    }

    /// An inner chunk, padded with the fill value where the array ends within it.
    fn chunk(&self, chunk: u64) -> Result<Buffer, StoreError> {
        self.decode(chunk).map_err(|error| {
            // Should somebody restore the file, it is opened anew.
            self.folder.shards.forget(self.folder.id);
            // What kept the file from being read says more than what `zarrs` makes of it.
            lock(&self.folder.fault).take().unwrap_or(error)
        })
    }

    fn decode(&self, chunk: u64) -> Result<Buffer, StoreError> {
        let refuse = |reason: String| StoreError::Undecodable {
            path: self.path.clone(),
            reason,
        };
        if let Some(frames) = self.frames {
            // The size of a decoded chunk is known: what claims another one is damage, and nothing is allocated for it.
            let failed = |reason: String| refuse(format!("chunk {chunk}: {reason}"));
            let shard = self.folder.sealed(chunk / SHARD_CHUNKS)?;
            match shard.place_of(chunk % SHARD_CHUNKS).map_err(failed)? {
                Some(range) => {
                    let length = range.end - range.start;
                    frames::check_length(length, self.chunk_bytes).map_err(failed)?;
                    let encoded = shard.read(range).map_err(failed)?;
                    let decoded = frames.decode(&encoded, self.chunk_bytes);
                    if let Some(decoded) = decoded.map_err(failed)? {
                        return Ok(decoded);
                    }
                }
                None if self.fills_zeros => {
                    return Ok(BufferMut::zeroed(self.chunk_bytes)?.freeze());
                }
                None => {}
            }
        }
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

/// Decoding for all signals of a store.
pub(crate) struct Decoders {
    open: Mutex<HashMap<SignalId, Arc<Decoder>>>,
    shards: Arc<Recent<SealedShard>>,
    chunks: Mutex<Chunks>,
}

impl Default for Decoders {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
            // Half as many as flat ones, which a store also has open.
            shards: Arc::new(Recent::new(open_file_limit() / 2)),
            chunks: Mutex::default(),
        }
    }
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
    /// Bytes of samples `[start, start + count)` of a signal. Within one inner chunk they are a view of it.
    pub(crate) fn read(
        &self,
        media: &Arc<dyn Media>,
        id: SignalId,
        source: &ArraySource<'_>,
        meta: &SignalMeta,
        start: i64,
        count: usize,
    ) -> Result<Buffer, StoreError> {
        let decoder = self.decoder(media, id, source, meta)?;
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
        source: &ArraySource<'_>,
        meta: &SignalMeta,
    ) -> Result<Arc<Decoder>, StoreError> {
        let is_open = |decoder: &&Arc<Decoder>| {
            let folder = &decoder.folder;
            folder.place == *source.folder && folder.version == source.version
        };
        if let Some(decoder) = lock(&self.open).get(&id).filter(is_open) {
            return Ok(Arc::clone(decoder));
        }
        let decoder = Arc::new(Decoder::open(media, id, source, meta, &self.shards)?);
        lock(&self.open).insert(id, Arc::clone(&decoder));
        lock(&self.chunks).forget(id);
        Ok(decoder)
    }

    fn chunk(&self, decoder: &Decoder, id: SignalId, chunk: u64) -> Result<Buffer, StoreError> {
        let key = (id, decoder.folder.version, chunk);
        if let Some(buffer) = lock(&self.chunks).get(key) {
            return Ok(buffer);
        }
        // Two readers may decode one chunk at the same time; neither waits for the other.
        let buffer = decoder.chunk(chunk)?;
        lock(&self.chunks).put(key, buffer.clone());
        Ok(buffer)
    }

    /// Forgets a signal: its files were replaced or moved.
    pub(crate) fn forget(&self, id: SignalId) {
        lock(&self.open).remove(&id);
        self.shards.forget(id);
        lock(&self.chunks).forget(id);
    }
}
