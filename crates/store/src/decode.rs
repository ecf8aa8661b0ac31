//! Reads shards that cannot be mapped: sealed and foreign ones.
//!
//! Per store up to 128 MiB of decoded chunks are cached by last use; 32 MiB more are reused as buffers. The
//! compressor's library decodes sealed chunks in place, `zarrs` foreign ones. Decoding holds no lock.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use isochrony_segment::{Buffer, BufferMut};
use serde_json::Value;
use zarrs::array::{
    Array, ArrayBytes, ArrayMetadata, ArrayShardedReadableExt, ArrayShardedReadableExtCache,
    CodecOptions,
};
use zarrs::storage::ReadableStorageTraits;

use self::cached::SealedShardCache;
use self::chunks::Chunks;
use self::frames::{Decompressor, Frames};
use self::shards::SealedShard;
use self::storage::ArrayStorage;
use crate::engine::candidate::ArrayFolder;
use crate::engine::io::failed;
use crate::engine::shard_lru::{ShardLru, open_file_limit};
use crate::engine::vanished::is_of_server;
use crate::error::StoreError;
use crate::layout::shard::SEALED_SHARD_CHUNKS;
use crate::layout::zarr;
use crate::media::{Media, limits};
use crate::meta::SignalMeta;
use crate::mutex::lock;
use crate::op::SignalId;
use crate::state::SignalState;
use crate::version::FileVersion;

mod blosc;
pub(crate) mod cached;
mod chunks;
mod frames;
mod shards;
mod storage;

pub(crate) struct ArraySource<'a> {
    pub(crate) folder: &'a ArrayFolder,
    pub(crate) version: FileVersion,
    pub(crate) caching: Option<&'a dyn Fn() -> Option<SealedShardCache>>,
}

struct Decoder {
    path: PathBuf,
    folder: Arc<ArrayStorage>,
    array: Array<dyn ReadableStorageTraits>,
    indices: ArrayShardedReadableExtCache,
    sample_bytes: usize,
    chunk_bytes: usize,
    frames: Option<Frames>,
    /// Missing chunks are zeros.
    fills_zeros: bool,
}

impl Decoder {
    fn open(
        media: &Arc<dyn Media>,
        id: SignalId,
        source: &ArraySource<'_>,
        meta: &SignalMeta,
        shards: &Arc<ShardLru<SealedShard>>,
    ) -> Result<Self, StoreError> {
        let data = source.folder.path.as_path();
        let refuse = |reason: String| StoreError::Undecodable {
            path: data.join("zarr.json"),
            reason,
        };
        let metadata = if meta.codec.is_empty() {
            // Longer than any signal: later appends are included.
            zarr::data_array(meta, 1 << 60)
        } else {
            let path = data.join("zarr.json");
            let bytes = media.read(&path, limits::METADATA);
            let bytes = bytes.map_err(|error| match failed(error, "read", &path) {
                error if is_of_server(&error) => error,
                error => refuse(error.to_string()),
            })?;
            let bytes = bytes.ok_or_else(|| refuse("the file is missing".into()))?;
            let value: Value =
                serde_json::from_slice(&bytes).map_err(|error| refuse(error.to_string()))?;
            let expected = zarr::data_identity(id, source.version);
            let got = &value["attributes"]["isochrony"];
            // Absent in earlier versions.
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
        let folder = Arc::new(ArrayStorage {
            media: Arc::clone(media),
            place: source.folder.clone(),
            id,
            version: source.version,
            is_sealed: !meta.codec.is_empty(),
            format: meta.format,
            shards: Arc::clone(shards),
            caching: source.caching.and_then(|caching| caching()),
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
            sample_bytes: meta.format.size(),
            chunk_bytes: usize::try_from(meta.chunk_samples)
                .unwrap_or(usize::MAX)
                .saturating_mul(meta.format.size()),
            frames: Frames::of(meta),
            fills_zeros,
        })
    }

    /// Pads the array's end with the fill value. `room`: a buffer to reuse.
    fn chunk(
        &self,
        chunk: u64,
        room: Option<Buffer>,
        decompressor: &mut Decompressor,
    ) -> Result<Buffer, StoreError> {
        self.decode(chunk, room, decompressor).map_err(|error| {
            // A restored file must be opened again.
            self.folder.shards.remove_signal(self.folder.id);
            // More specific than the error of `zarrs`.
            lock(&self.folder.fault).take().unwrap_or(error)
        })
    }

    fn decode(
        &self,
        chunk: u64,
        room: Option<Buffer>,
        decompressor: &mut Decompressor,
    ) -> Result<Buffer, StoreError> {
        let refuse = |reason: String| StoreError::Undecodable {
            path: self.path.clone(),
            reason,
        };
        if let Some(frames) = self.frames {
            // Another size is damage, and nothing is allocated for it.
            let wrong = |reason: String| refuse(format!("chunk {chunk}: {reason}"));
            let shard = self.folder.sealed(chunk / SEALED_SHARD_CHUNKS)?;
            match shard.place_of(chunk % SEALED_SHARD_CHUNKS).map_err(wrong)? {
                Some(range) => {
                    let length = range.end - range.start;
                    frames::check_length(length, self.chunk_bytes).map_err(wrong)?;
                    let (frame, context) = decompressor.parts();
                    shard.read_into(range, frame).map_err(|error| {
                        error.at(&self.folder.shard_path(chunk / SEALED_SHARD_CHUNKS), wrong)
                    })?;
                    frames.check(frame, self.chunk_bytes).map_err(wrong)?;
                    let mut content = match room.filter(|room| room.len() == self.chunk_bytes) {
                        Some(room) => room,
                        None => BufferMut::zeroed(self.chunk_bytes)?.freeze(),
                    };
                    let decoded = frames.decode(frame, content.make_mut()?, context);
                    return decoded.map(|()| content).map_err(wrong);
                }
                None if self.fills_zeros => {
                    return Ok(BufferMut::zeroed(self.chunk_bytes)?.freeze());
                }
                None => {}
            }
        }
        let bytes: ArrayBytes<'static> = self
            .array
            .retrieve_subchunk_opt(
                &self.indices,
                &self.folder.format.place(chunk),
                &CodecOptions::default(),
            )
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

pub(crate) struct Decoders {
    open: Mutex<HashMap<SignalId, Arc<Decoder>>>,
    shards: Arc<ShardLru<SealedShard>>,
    chunks: Mutex<Chunks>,
    decompressors: Mutex<Vec<Decompressor>>,
}

impl Default for Decoders {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
            // Half the limit for flat files, which the store also keeps open.
            shards: Arc::new(ShardLru::new(open_file_limit() / 2)),
            chunks: Mutex::default(),
            decompressors: Mutex::default(),
        }
    }
}

impl std::fmt::Debug for Decoders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoders").finish_non_exhaustive()
    }
}

impl Decoders {
    /// Samples `[start, start + count)`; a view if within one chunk.
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
        self.samples(&decoder, start, count)
    }

    /// Reads a sealed signal whose array is open, without looking up files. `None` if not open or failed; the lookup
    /// finds the reason. Errors are those of a server, or an interrupt.
    pub(crate) fn read_again(
        &self,
        state: &SignalState,
        start: i64,
        count: usize,
    ) -> Result<Option<Buffer>, StoreError> {
        if state.meta.codec.is_empty() {
            return Ok(None);
        }
        let Some(decoder) = lock(&self.open).get(&state.id).cloned() else {
            return Ok(None);
        };
        if !decoder.folder.is_sealed || decoder.folder.version != state.data.array() {
            return Ok(None);
        }
        match self.samples(&decoder, start, count) {
            Ok(buffer) => Ok(Some(buffer)),
            Err(error) if is_of_server(&error) => Err(error),
            Err(_) => Ok(None),
        }
    }

    fn samples(&self, decoder: &Decoder, start: i64, count: usize) -> Result<Buffer, StoreError> {
        if count == 0 {
            return Ok(BufferMut::zeroed(0)?.freeze());
        }
        let size = decoder.sample_bytes;
        let (mut at, end) = (
            start.max(0).cast_unsigned() as usize * size,
            (start.max(0).cast_unsigned() as usize + count) * size,
        );
        let whole = decoder.chunk_bytes;
        let chunk = (at / whole) as u64;
        if end <= (at / whole + 1) * whole {
            let buffer = self.chunk(decoder, chunk)?;
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
            let buffer = self.chunk(decoder, (at / whole) as u64)?;
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
        lock(&self.chunks).remove_signal(id);
        Ok(decoder)
    }

    fn chunk(&self, decoder: &Decoder, chunk: u64) -> Result<Buffer, StoreError> {
        let key = (decoder.folder.id, decoder.folder.version, chunk);
        let room = {
            let mut chunks = lock(&self.chunks);
            if let Some(buffer) = chunks.get(key) {
                return Ok(buffer);
            }
            chunks.take_buffer(decoder.chunk_bytes)
        };
        // Readers may decode the same chunk twice rather than wait.
        let mut decompressor = lock(&self.decompressors).pop().unwrap_or_default();
        let decoded = decoder.chunk(chunk, room, &mut decompressor);
        lock(&self.decompressors).push(decompressor);
        let buffer = decoded?;
        lock(&self.chunks).put(key, buffer.clone());
        Ok(buffer)
    }

    pub(crate) fn close_files(&self) {
        lock(&self.open).clear();
        self.shards.clear();
    }

    pub(crate) fn remove_signal(&self, id: SignalId) {
        lock(&self.open).remove(&id);
        self.shards.remove_signal(id);
        lock(&self.chunks).remove_signal(id);
    }
}
