//! Reading samples and checksums with the writer; where a range of samples lies.

use std::path::Path;
use std::sync::Arc;

use isochrony_segment::Buffer;

use super::io::IoContext;
use super::slot::SlotInner;
use super::{Engine, refuse_removed};
use crate::error::StoreError;
use crate::layout;
use crate::layout::flat::Flat;
use crate::media::{Media, MediaFile};
use crate::op::SignalId;

impl Engine {
    /// Bytes of samples `[start, start + count)`, which must lie in one shard and below the signal's end (pending
    /// samples included). Zero-copy where the medium can be mapped.
    ///
    /// # Errors
    /// [`StoreError::MissingSamples`], [`StoreError::DamagedFile`], or what the system says.
    pub fn read(&self, id: SignalId, start: i64, count: usize) -> Result<Buffer, StoreError> {
        let shared = &*self.shared;
        let slot = shared.existing(id)?;
        let mut slot = slot.lock();
        refuse_removed(&slot)?;
        let state = slot.state(&*shared.media)?;
        let bounds = Bounds::new(&state.name, state.end, start, count)?;
        let meta = state.meta.clone();
        let decode = |slot: &SlotInner| {
            let folder = slot.data_folder(&shared.root);
            let decoders = &shared.sources.decoders;
            decoders.read(&shared.media, id, &folder, &meta, start, count)
        };
        if !meta.codec.is_empty() {
            return decode(&slot);
        }
        let flat = Flat::data(&meta);
        let place = bounds.place(flat, meta.dtype.size());
        let path = || vec![slot.data_shard(&shared.root, place.shard)];
        let key = (id, place.shard);
        let found =
            shared
                .sources
                .read(&*shared.media, key, flat, path, place.offset, place.len)?;
        found.map_or_else(|| decode(&slot), Ok)
    }

    /// Samples per shard file of a signal's `data`: no buffer of `read` spans a multiple of it.
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`].
    pub fn shard_samples(&self, id: SignalId) -> Result<i64, StoreError> {
        let slot = self.shared.existing(id)?;
        let slot = slot.lock();
        Ok(shard_samples(&slot.base.meta))
    }

    /// Samples need not be in the files from here on: a scratch signal keeps some in memory.
    pub(crate) fn expect_less(&self) {
        self.shared.handles.expect_less();
    }

    /// The open file of a flat shard that was read from lately.
    pub(crate) fn shard_file(&self, id: SignalId, shard: u64) -> Option<Arc<dyn MediaFile>> {
        self.shared.sources.file((id, shard))
    }

    /// Checksum of a full chunk of `data` as of the last commit, if known.
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`], or what the system says.
    pub fn chunk_crc(&self, id: SignalId, chunk: u64) -> Result<Option<u32>, StoreError> {
        let slot = self.shared.existing(id)?;
        let slot = slot.lock();
        match slot.crcs.get(&chunk) {
            Some(crc) => Ok(Some(*crc)),
            None => stored_crc(&*self.shared.media, &slot.folder, chunk),
        }
    }
}

/// A range of samples that a signal has.
pub(super) struct Bounds {
    pub(super) start: i64,
    pub(super) count: usize,
}

/// Where it lies.
pub(super) struct Place {
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

    pub(super) fn place(&self, flat: Flat, sample_bytes: usize) -> Place {
        let at = self.start.cast_unsigned() * sample_bytes as u64;
        Place {
            shard: at / flat.shard_bytes(),
            offset: flat.payload_start + at % flat.shard_bytes(),
            len: self.count * sample_bytes,
        }
    }
}

pub(super) fn shard_samples(meta: &crate::meta::SignalMeta) -> i64 {
    let samples = meta
        .chunk_samples
        .max(1)
        .saturating_mul(meta.shard_chunks.max(1));
    i64::try_from(samples).unwrap_or(i64::MAX)
}

/// A checksum from the array `crc`.
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
