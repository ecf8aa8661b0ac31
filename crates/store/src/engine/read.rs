//! Reads samples and checksums through the writer, and locates ranges of samples.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use isochrony_segment::Buffer;

use super::Engine;
use super::cached::CachedRequest;
use super::candidate::ArrayFolder;
use super::io::IoContext;
use super::proofs::Proofs;
use super::source::{ShardRequest, Sources};
use super::table_stamps::TableStamps;
use crate::decode::ArraySource;
use crate::decode::cached::SealedShardCache;
use crate::error::StoreError;
use crate::layout;
use crate::layout::flat::Flat;
use crate::layout::shard::ShardHeader;
use crate::media::{Media, MediaFile};
use crate::op::SignalId;
use crate::state::SignalState;

impl Engine {
    /// Bytes of samples `[start, start + count)`, pending ones included, in one shard and below the signal's end.
    /// Zero-copy if mapped.
    ///
    /// # Errors
    /// As [`read_as`](Self::read_as).
    pub fn read(&self, id: SignalId, start: i64, count: usize) -> Result<Buffer, StoreError> {
        self.read_as(&*self.state(id)?, start, count)
    }

    /// As [`read`](Self::read), as a state of the signal shows them.
    ///
    /// # Errors
    /// [`StoreError::SamplesReplaced`], [`StoreError::MissingSamples`], [`StoreError::WrongShard`],
    /// [`StoreError::DamagedFile`], [`StoreError::Io`].
    pub fn read_as(
        &self,
        state: &SignalState,
        start: i64,
        count: usize,
    ) -> Result<Buffer, StoreError> {
        let shared = &*self.shared;
        let bounds = Bounds::new(&state.name, state.end, start, count)?;
        let place = bounds.place(Flat::data(&state.meta), state.meta.format.size());
        let slot = shared.existing(state.id)?;
        slot.lock().refuse_removed()?;
        let decoders = &shared.sources.decoders;
        if let Some(buffer) = decoders.read_again(state, start, count)? {
            return Ok(buffer);
        }
        let mut slot = slot.lock();
        slot.refuse_removed()?;
        let key = (state.id, place.shard, state.data.file(place.shard));
        if let Some(buffer) = shared.sources.mapped(key, place.offset, place.len) {
            return Ok(buffer);
        }
        let now = slot.state(&*shared.media)?.clone();
        let shown = shown(state, &now, place.shard);
        let folders = vec![
            ArrayFolder::own(slot.data_folder(&shared.root)),
            ArrayFolder::own(slot.folder.join("data")),
        ];
        let replacement = slot.replaced.get(&place.shard);
        let replacement = replacement.map(|tmp| layout::tmp_folder(&shared.root).join(tmp));
        let known = |chunk: u64| {
            let crc = slot.crcs.get(&chunk).copied();
            crc.or_else(|| stored_crc(&*shared.media, &slot.folder, chunk).ok()?)
        };
        // Pending changes may invalidate checksums.
        let proofs = slot.ops.is_empty().then(|| Proofs {
            state: &now,
            stretches: slot.base.tail_stretch().into_iter().collect(),
            chunk_crc: &known,
        });
        let files = Files {
            folders,
            replacement,
            proofs: proofs.as_ref(),
            cached: None,
            sealed: None,
        };
        let read = (shared.sources).read_shown(&shared.media, state, shown, &bounds, files);
        read.map_err(|error| explain(error, state, &now, &bounds, place.shard))
    }

    /// Samples per shard: no buffer of `read` spans a multiple of it.
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`].
    pub fn shard_samples(&self, id: SignalId) -> Result<i64, StoreError> {
        let slot = self.shared.existing(id)?;
        let slot = slot.lock();
        Ok(slot.base.meta.shard_samples())
    }

    pub(crate) fn allow_missing_samples(&self) {
        self.shared.handles.allow_missing_samples();
    }

    pub(crate) fn allow_overwrites(&self) {
        self.shared.handles.allow_overwrites();
    }

    pub(crate) fn shard_file(&self, state: &SignalState, shard: u64) -> Option<Arc<dyn MediaFile>> {
        let version = state.data.file(shard);
        let media = &*self.shared.media;
        self.shared.sources.file(media, (state.id, shard, version))
    }

    /// At the last checkpoint; `None` if unknown to the log.
    pub(crate) fn table_stamps(&self, id: SignalId) -> Result<Option<TableStamps>, StoreError> {
        let slot = self.shared.existing(id)?;
        let slot = slot.lock();
        Ok(slot.base.tables)
    }

    pub(crate) fn sources(&self) -> &Sources {
        &self.shared.sources
    }

    /// Committed checksum of a full chunk, if known.
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`], [`StoreError::Io`].
    pub fn chunk_crc(&self, id: SignalId, chunk: u64) -> Result<Option<u32>, StoreError> {
        let slot = self.shared.existing(id)?;
        let slot = slot.lock();
        match slot.crcs.get(&chunk) {
            Some(crc) => Ok(Some(*crc)),
            None => stored_crc(&*self.shared.media, &slot.folder, chunk),
        }
    }
}

pub(super) struct Bounds {
    pub(super) start: i64,
    pub(super) count: usize,
}

pub(super) struct ShardRange {
    pub(super) shard: u64,
    pub(super) offset: u64,
    pub(super) len: usize,
}

impl Bounds {
    pub(super) fn new(
        signal: &str,
        have_end: i64,
        start: i64,
        count: usize,
    ) -> Result<Self, StoreError> {
        let end = i64::try_from(count)
            .ok()
            .and_then(|count| start.checked_add(count));
        match end {
            Some(end) if start >= 0 && end <= have_end => Ok(Self { start, count }),
            _ => Err(StoreError::OutOfBounds {
                signal: signal.into(),
                start,
                end: end.unwrap_or(i64::MAX),
                have_start: 0,
                have_end,
            }),
        }
    }

    pub(super) fn place(&self, flat: Flat, sample_bytes: usize) -> ShardRange {
        let at = self.start.cast_unsigned() * sample_bytes as u64;
        ShardRange {
            shard: at / flat.shard_bytes(),
            offset: flat.payload_start + at % flat.shard_bytes(),
            len: self.count * sample_bytes,
        }
    }
}

/// State whose files a read uses: `now`, unless samples of the shard were replaced or removed since `handle`. Sealing
/// and unsealing change only files.
pub(super) fn shown<'a>(
    handle: &'a SignalState,
    now: &'a SignalState,
    shard: u64,
) -> &'a SignalState {
    match now.data.has_content_of(&handle.data, shard) {
        true => now,
        false => handle,
    }
}

/// `SamplesReplaced`, if that explains the error.
pub(super) fn explain(
    error: StoreError,
    handle: &SignalState,
    now: &SignalState,
    bounds: &Bounds,
    shard: u64,
) -> StoreError {
    let may_be = matches!(
        error,
        StoreError::MissingSamples { .. }
            | StoreError::WrongShard { .. }
            | StoreError::Undecodable { .. }
            | StoreError::DamagedFile { .. }
    );
    if !may_be || now.data.has_content_of(&handle.data, shard) {
        return error;
    }
    StoreError::SamplesReplaced {
        signal: handle.name.to_string(),
        start: bounds.start,
        end: bounds.start.saturating_add_unsigned(bounds.count as u64),
    }
}

pub(super) type CachedShown<'a> = dyn Fn(&SignalState) -> Option<CachedRequest> + 'a;

pub(super) type SealedShown<'a> = dyn Fn(&SignalState) -> Option<SealedShardCache> + 'a;

pub(super) struct Files<'a> {
    pub(super) folders: Vec<ArrayFolder>,
    pub(super) replacement: Option<PathBuf>,
    pub(super) proofs: Option<&'a Proofs<'a>>,
    pub(super) cached: Option<&'a CachedShown<'a>>,
    pub(super) sealed: Option<&'a SealedShown<'a>>,
}

impl Sources {
    /// Reads from the files of `shown`, which has the same samples.
    pub(super) fn read_shown(
        &self,
        media: &Arc<dyn Media>,
        handle: &SignalState,
        shown: &SignalState,
        bounds: &Bounds,
        files: Files<'_>,
    ) -> Result<Buffer, StoreError> {
        let Files {
            folders,
            replacement,
            proofs,
            cached,
            sealed,
        } = files;
        let caching = || sealed.and_then(|sealed| sealed(shown));
        let meta = &shown.meta;
        let flat = Flat::data(meta);
        let place = bounds.place(flat, meta.format.size());
        let decode = |folders: &[ArrayFolder]| {
            let mut unread = None;
            for folder in folders {
                match media.stat(&folder.path).at("look at", &folder.path) {
                    Ok(Some(_)) => {}
                    Ok(None) => continue,
                    // The right one may be in another folder.
                    Err(error) => {
                        unread.get_or_insert(error);
                        continue;
                    }
                }
                let source = ArraySource {
                    folder,
                    version: shown.data.array(),
                    caching: sealed.map(|_| &caching as &dyn Fn() -> Option<SealedShardCache>),
                };
                match (self.decoders).read(
                    media,
                    shown.id,
                    &source,
                    meta,
                    bounds.start,
                    bounds.count,
                ) {
                    Err(error @ StoreError::WrongShard { .. }) => _ = unread.get_or_insert(error),
                    other => return other,
                }
            }
            Err(unread.unwrap_or_else(|| StoreError::MissingSamples {
                path: folders
                    .first()
                    .map(|folder| folder.path.clone())
                    .unwrap_or_default(),
                have: 0,
                need: place.offset + place.len as u64,
            }))
        };
        if !meta.codec.is_empty() {
            return decode(&folders);
        }
        let wanted = || ShardRequest {
            header: ShardHeader {
                signal: shown.id.0,
                shard: place.shard,
                version: shown.data.file(place.shard),
            },
            mark: shown.data.mark(place.shard).map(|mark| mark.last),
            flat,
            format: meta.format,
            folders: folders.clone(),
            replacement: replacement.clone(),
            cached: cached.and_then(|cached| cached(shown)),
        };
        let key = self.key(handle, place.shard);
        let found = self.read(&**media, key, wanted, proofs, (place.offset, place.len))?;
        found.map_or_else(|| decode(&folders), Ok)
    }
}

/// `None` where the array `crc` has none.
pub(super) fn stored_crcs(
    media: &dyn Media,
    folder: &Path,
    chunks: Range<u64>,
) -> Vec<Option<u32>> {
    let flat = Flat::side();
    let mut crcs = Vec::new();
    for span in flat.spans(chunks.start * 4, (chunks.end - chunks.start) * 4) {
        let path = layout::shard_file(&folder.join("crc"), span.shard);
        let mut bytes = vec![0; span.len as usize];
        let read = media.open(&path, crate::media::Access::Read);
        let count = read.and_then(|file| file.read_at(span.offset, &mut bytes));
        bytes[count.unwrap_or(0)..].fill(0);
        let stored = bytes.chunks_exact(4).map(|crc| {
            let crc = u32::from_le_bytes([crc[0], crc[1], crc[2], crc[3]]);
            (crc != 0).then_some(crc)
        });
        crcs.extend(stored);
    }
    crcs
}

pub(super) fn stored_crc(
    media: &dyn Media,
    folder: &Path,
    chunk: u64,
) -> Result<Option<u32>, StoreError> {
    let flat = Flat::side();
    let at = chunk.saturating_mul(4);
    let path = layout::shard_file(&folder.join("crc"), at / flat.shard_bytes());
    let file = match media.open(&path, crate::media::Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).at("open", &path),
    };
    let mut bytes = [0; 4];
    let offset = flat.payload_start + at % flat.shard_bytes();
    let count = file.read_at(offset, &mut bytes).at("read", &path)?;
    Ok((count == 4).then(|| u32::from_le_bytes(bytes)))
}
