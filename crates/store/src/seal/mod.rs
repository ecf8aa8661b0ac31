//! Sealing: compresses the samples of a finished signal, readable by any Zarr reader.
//!
//! A Zarr array has one codec chain, so all of `data` is rewritten in the engine's `tmp/`, synced, and replaces the old
//! array by one operation of a commit. Existing segments keep the old files. Gap samples become zero. Checksums are of
//! decoded chunks and stay.

mod codec;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use serde_json::{Value, json};
use zarrs::array::{Array, ArrayBytes, ArrayMetadata, CodecOptions};
use zarrs::storage::store::MemoryStore;
use zarrs::storage::{ReadableStorageTraits, WritableStorageTraits};

use crate::backend::Backend;
use crate::engine::crc;
use crate::engine::io::IoContext;
use crate::error::StoreError;
use crate::layout::flat::{Flat, parse_index};
use crate::layout::shard::{HEADER_LEN, SEALED_SHARD_CHUNKS, ShardHeader};
use crate::layout::{data_shard_file, data_shards, zarr};
use crate::media::{Access, Media, MediaFile, Site};
use crate::op::Op;
use crate::sample_format::SampleFormat;
use crate::state::SignalState;
use crate::store::Store;
use crate::version::FileVersion;
use crate::views::Samples;
use crate::views::stored::StoredSamples;

pub use codec::{BloscCompressor, Codec};

/// Result of sealing or unsealing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed {
    /// All samples, without gaps.
    pub raw_bytes: u64,
    /// Files of `data`.
    pub stored_bytes: u64,
}

impl Sealed {
    /// Raw per stored bytes.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.raw_bytes as f64 / self.stored_bytes.max(1) as f64
    }
}

impl Store {
    /// Compresses a signal, which cannot change until it is [unsealed](Self::unseal); sealing again recompresses. First
    /// commits all pending changes.
    ///
    /// Memory: some 200 MB. Disk: the compressed samples, until the old ones are removed.
    ///
    /// # Errors
    /// [`StoreError::InvalidCodec`], [`StoreError::NoSuchSignal`], [`StoreError::ReadOnly`], [`StoreError::DiskFull`]
    /// and others of commits. The signal is unchanged.
    pub fn seal(&self, name: &str, codec: Codec) -> Result<Sealed, StoreError> {
        codec.check()?;
        let action = "seal a signal";
        let sealed = self.rewrite(action, name, Some(codec));
        self.shared().backend.explain(action, sealed)
    }

    /// Rewrites a signal uncompressed, so that it can grow. Of an unsealed one, this repairs foreign shards.
    ///
    /// # Errors
    /// As [`seal`](Self::seal).
    pub fn unseal(&self, name: &str) -> Result<Sealed, StoreError> {
        let action = "unseal a signal";
        let unsealed = self.rewrite(action, name, None);
        self.shared().backend.explain(action, unsealed)
    }

    fn rewrite(
        &self,
        action: &'static str,
        name: &str,
        codec: Option<Codec>,
    ) -> Result<Sealed, StoreError> {
        let shared = self.shared();
        let engine = shared.backend.engine_in_place(action)?;
        let _alone = shared.gate.write().unwrap_or_else(PoisonError::into_inner);
        let id = self.id_of(name)?;
        shared.views.before_commit()?;
        engine.commit(true)?;
        shared.views.after_commit(&shared.backend, true);
        let state = engine.state(id)?;
        let samples = StoredSamples::new(&shared.backend, &state)?;
        let media = engine.media();
        let (tmp, path) = engine.new_tmp();
        let written = match codec {
            Some(codec) => {
                let version = FileVersion::of_replacement(&tmp);
                write_sealed(media, &path, &state, &samples, version, codec)
            }
            None => write_flat(&**media, &path, &state, &samples),
        };
        let queued = written.and_then(|bytes| {
            let codec = codec.map_or(String::new(), |codec| codec.name().to_owned());
            engine.queue(Op::ReplaceData { id, tmp, codec })?;
            engine.commit(true)?;
            Ok(bytes)
        });
        if queued.is_err() {
            // The next recovery removes remaining files.
            let _ = engine.rollback();
            let _ = media.remove_all(&path);
        }
        Ok(Sealed {
            raw_bytes: state.sample_count().unsigned_abs() * state.meta.format.size() as u64,
            stored_bytes: queued?,
        })
    }
}

/// Checksums of chunks that a new gap of a sealed signal covers in part. The engine does this for flat signals.
pub(crate) fn checksums_after_gap(
    backend: &Backend,
    state: &SignalState,
    gap: &Range<i64>,
) -> Result<Vec<Op>, StoreError> {
    let length = state.meta.chunk_samples.max(1).cast_signed();
    let size = state.meta.format.size();
    let mut after = state.clone();
    after.gaps.set_gap(gap.clone());
    let samples = StoredSamples::new(backend, &after)?;
    let mut ops = Vec::new();
    let (first, last) = (gap.start / length, (gap.end - 1) / length);
    for chunk in std::iter::once(first).chain((last > first).then_some(last)) {
        let range = chunk * length..(chunk + 1) * length;
        if range.end > state.end {
            continue;
        }
        let mut bytes = vec![0; length.cast_unsigned() as usize * size];
        samples.visit(range.clone(), &mut |index, part| {
            let at = (index - range.start).cast_unsigned() as usize * size;
            bytes[at..at + part.len()].copy_from_slice(part);
            Ok(())
        })?;
        if let Some(crc) = crc::masked(&mut bytes, range.start, size, &after.gaps) {
            let (id, chunk) = (state.id, chunk.cast_unsigned());
            ops.push(Op::Crc { id, chunk, crc });
        }
    }
    Ok(ops)
}

fn sealed_array(state: &SignalState, version: FileVersion, codec: Codec) -> Value {
    let meta = &state.meta;
    let mut array = zarr::data_array(meta, state.end);
    array["attributes"]["isochrony"] = zarr::data_identity(state.id, version);
    let shard = meta.chunk_samples * SEALED_SHARD_CHUNKS;
    array["chunk_grid"]["configuration"]["chunk_shape"] = json!(meta.format.shape(shard));
    let sharding = &mut array["codecs"][0]["configuration"];
    sharding["index_location"] = "end".into();
    if let Some(codecs) = sharding["codecs"].as_array_mut() {
        codecs.push(codec.metadata(meta.format.size()));
    }
    array
}

/// Expected `zarr.json`, with the compression level of `found`, the current file.
pub(crate) fn described(state: &SignalState, found: Option<&[u8]>) -> Value {
    let found: Option<Value> = found.and_then(|found| serde_json::from_slice(found).ok());
    let stated = found
        .as_ref()
        .and_then(|found| Codec::from_metadata(&found["codecs"][0]["configuration"]["codecs"][1]));
    let codec = stated
        .filter(|codec| codec.name() == state.meta.codec)
        .or_else(|| state.meta.codec.parse().ok())
        .unwrap_or_default();
    let mut array = sealed_array(state, state.data.array(), codec);
    // Earlier versions do not state the array's owner.
    if found.is_some_and(|found| found["attributes"]["isochrony"].is_null()) {
        array["attributes"] = json!({});
    }
    array
}

fn write_sealed(
    media: &Arc<dyn Media>,
    path: &Path,
    state: &SignalState,
    samples: &StoredSamples<'_>,
    version: FileVersion,
    codec: Codec,
) -> Result<u64, StoreError> {
    let undecodable = |reason: String| StoreError::Undecodable {
        path: path.to_path_buf(),
        reason,
    };
    let metadata = sealed_array(state, version, codec);
    let parsed: ArrayMetadata =
        serde_json::from_value(metadata.clone()).map_err(|error| undecodable(error.to_string()))?;
    let encoder = Arc::new(MemoryStore::new());
    let array = Array::new_with_metadata(Arc::clone(&encoder), "/", parsed)
        .map_err(|error| undecodable(error.to_string()))?;
    let size = state.meta.format.size();
    let length = (state.meta.chunk_samples * SEALED_SHARD_CHUNKS).cast_signed();
    // Store zeros too: a shard without a file must mean a gap, or a lost one would go unnoticed.
    let options = CodecOptions::default().with_store_empty_chunks(true);
    let mut out = Folder::create(&**media, path, state.meta.format)?;
    let mut raw = vec![0u8; length.cast_unsigned() as usize * size];
    for shard in 0..state.end.div_euclid(length) + 1 {
        let range = shard * length..state.end.min((shard + 1) * length);
        if range.is_empty() || samples.missing(range.clone()) == range.end - range.start {
            continue;
        }
        raw.fill(0);
        samples.visit(range.clone(), &mut |index, bytes| {
            let at = (index - range.start).cast_unsigned() as usize * size;
            raw[at..at + bytes.len()].copy_from_slice(bytes);
            Ok(())
        })?;
        let number = shard.cast_unsigned();
        array
            .store_chunk_opt(
                &state.meta.format.place(number),
                ArrayBytes::new_flen(raw.as_slice()),
                &options,
            )
            .map_err(|error| undecodable(error.to_string()))?;
        let key = array.chunk_key(&state.meta.format.place(number));
        if let Some(bytes) = encoder
            .get(&key)
            .map_err(|error| undecodable(error.to_string()))?
        {
            let header = ShardHeader {
                signal: state.id.0,
                shard: number,
                version,
            };
            let (body, index) = behind_header(&bytes)
                .ok_or_else(|| undecodable("the encoder's index is not valid".into()))?;
            let file = out.open(number, HEADER_LEN + bytes.len() as u64)?;
            file.write(0, &header.encode())?;
            file.write(HEADER_LEN, body)?;
            file.write(HEADER_LEN + body.len() as u64, &index)?;
            file.close()?;
            encoder
                .erase(&key)
                .map_err(|error| undecodable(error.to_string()))?;
        }
    }
    out.finish(&metadata)
}

/// Moves a shard's index from the end to before its chunks.
fn behind_header(shard: &[u8]) -> Option<(&[u8], Vec<u8>)> {
    let index_len = usize::try_from(Flat::index_len(SEALED_SHARD_CHUNKS)).ok()?;
    let (body, index) = shard.split_at_checked(shard.len().checked_sub(index_len)?)?;
    let mut moved = Vec::with_capacity(index.len());
    for (offset, length) in parse_index(index)? {
        // Omitted chunks have neither offset nor length.
        let offset = match offset {
            u64::MAX => u64::MAX,
            offset => offset.checked_add(HEADER_LEN)?,
        };
        moved.extend(offset.to_le_bytes());
        moved.extend(length.to_le_bytes());
    }
    moved.extend(crc32c::crc32c(&moved).to_le_bytes());
    Some((body, moved))
}

fn write_flat(
    media: &dyn Media,
    path: &Path,
    state: &SignalState,
    samples: &StoredSamples<'_>,
) -> Result<u64, StoreError> {
    let flat = Flat::data(&state.meta);
    let size = state.meta.format.size() as u64;
    let length = (flat.shard_bytes() / size).cast_signed();
    let index = flat.index();
    let mut out = Folder::create(media, path, state.meta.format)?;
    for shard in 0..state.end.div_euclid(length) + 1 {
        let range = shard * length..state.end.min((shard + 1) * length);
        if range.is_empty() || samples.missing(range.clone()) == range.end - range.start {
            continue;
        }
        let used = (range.end - range.start).cast_unsigned() * size;
        let file = out.open(shard.cast_unsigned(), flat.file_len(used))?;
        file.write(0, &index)?;
        samples.visit(range.clone(), &mut |at, bytes| {
            file.write(
                flat.payload_start + (at - range.start).cast_unsigned() * size,
                bytes,
            )
        })?;
        file.close()?;
    }
    let metadata = zarr::data_array(&state.meta, state.end);
    out.finish(&metadata)
}

struct Folder<'a> {
    media: &'a dyn Media,
    path: &'a Path,
    format: SampleFormat,
    bytes: u64,
}

struct Shard {
    path: PathBuf,
    file: Arc<dyn MediaFile>,
}

impl Shard {
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.file.write_at(offset, bytes).at("write", &self.path)
    }

    fn close(self) -> Result<(), StoreError> {
        self.file.sync(Site::ReplacementFile).at("sync", &self.path)
    }
}

impl<'a> Folder<'a> {
    fn create(
        media: &'a dyn Media,
        path: &'a Path,
        format: SampleFormat,
    ) -> Result<Self, StoreError> {
        let shards = data_shards(path, format);
        media.make_folder(path).at("create", path)?;
        if shards != path {
            media.make_folder(&shards).at("create", &shards)?;
        }
        Ok(Self {
            media,
            path,
            format,
            bytes: 0,
        })
    }

    fn open(&mut self, shard: u64, len: u64) -> Result<Shard, StoreError> {
        let path = data_shard_file(self.path, self.format, shard);
        let file = self
            .media
            .open(&path, Access::CreateNew)
            .at("create", &path)?;
        file.set_len(len).at("extend", &path)?;
        self.bytes += len;
        Ok(Shard { path, file })
    }

    fn finish(self, metadata: &Value) -> Result<u64, StoreError> {
        let path = self.path.join("zarr.json");
        let file = self
            .media
            .open(&path, Access::CreateNew)
            .at("create", &path)?;
        file.write_at(0, &zarr::to_bytes(metadata))
            .at("write", &path)?;
        file.sync(Site::ReplacementFile).at("sync", &path)?;
        let tmp = self.path.parent().unwrap_or(self.path);
        for folder in [&*data_shards(self.path, self.format), self.path, tmp] {
            self.media
                .sync_folder(folder, Site::ReplacementFolder)
                .at("sync", folder)?;
        }
        Ok(self.bytes)
    }
}
