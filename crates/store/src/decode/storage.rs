//! Access of `zarrs` to an array's folder and shards.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use zarrs::storage::byte_range::{ByteRangeIterator, InvalidByteRangeError};
use zarrs::storage::{Bytes, MaybeBytesIterator, ReadableStorageTraits, StorageError, StoreKey};

use super::cached::SealedShardCache;
use super::shards::SealedShard;
use crate::engine::candidate::ArrayFolder;
use crate::engine::io::{IoContext, failed};
use crate::engine::shard_lru::ShardLru;
use crate::error::StoreError;
use crate::layout;
use crate::layout::shard::{HEADER_LEN, HeaderBlock, ShardHeader};
use crate::media::{Media, MediaFile};
use crate::mutex::lock;
use crate::op::SignalId;
use crate::sample_format::SampleFormat;
use crate::version::FileVersion;

/// For `zarrs` a missing shard is fill values; here it is an error.
pub(super) struct ArrayStorage {
    pub(super) media: Arc<dyn Media>,
    pub(super) place: ArrayFolder,
    pub(super) id: SignalId,
    pub(super) version: FileVersion,
    pub(super) is_sealed: bool,
    pub(super) format: SampleFormat,
    /// Shards of all signals. A replacement has another version.
    pub(super) shards: Arc<ShardLru<SealedShard>>,
    pub(super) caching: Option<SealedShardCache>,
    pub(super) fault: Mutex<Option<StoreError>>,
}

impl std::fmt::Debug for ArrayStorage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArrayStorage")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

impl ArrayStorage {
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

    pub(super) fn shard_path(&self, number: u64) -> PathBuf {
        layout::data_shard_file(&self.place.path, self.format, number)
    }

    pub(super) fn sealed(&self, number: u64) -> Result<Arc<SealedShard>, StoreError> {
        let key = (self.id, number, self.version);
        if let Some(shard) = self.shards.get(key) {
            return Ok(shard);
        }
        let path = self.shard_path(number);
        let mut file = self.open(number, path.clone())?;
        if let Some(caching) = &self.caching {
            let cached = caching.open(&self.media, &file, &path, number, self.version);
            if let Some(cached) = cached.at("read", &path)? {
                file = Arc::new(cached);
            }
        }
        let shard = SealedShard::open(file).map_err(|error| {
            let undecodable = |reason| StoreError::Undecodable {
                path: path.clone(),
                reason,
            };
            error.at(&path, undecodable)
        });
        let shard = Arc::new(shard?);
        self.shards.put(key, &shard);
        Ok(shard)
    }

    fn file(&self, key: &StoreKey) -> Result<(Arc<dyn MediaFile>, u64), StorageError> {
        let number = key.as_str().rsplit('/').next();
        let number = number.and_then(|name| layout::data_shard_number(self.format, name));
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

impl ReadableStorageTraits for ArrayStorage {
    fn get_partial_many<'a>(
        &'a self,
        key: &StoreKey,
        ranges: ByteRangeIterator<'a>,
    ) -> Result<MaybeBytesIterator<'a>, StorageError> {
        let (file, size) = self.file(key)?;
        let name = key.as_str().to_owned();
        Ok(Some(Box::new(ranges.map(move |range| {
            // A damaged index may ask for anything: allocate nothing beyond the file.
            let (start, end) = (range.start(size), range.end(size));
            if start > end || end > size {
                return Err(InvalidByteRangeError::new(range, size).into());
            }
            let len = usize::try_from(end - start).unwrap_or(usize::MAX);
            let mut bytes = Vec::new();
            (bytes.try_reserve_exact(len))
                .map_err(|error| StorageError::Other(error.to_string()))?;
            bytes.resize(len, 0);
            let filled = file.read_at(start, &mut bytes).map_err(|error| {
                let message = error.to_string();
                let path = self.place.path.join(&name);
                *lock(&self.fault) = Some(failed(error, "read", &path));
                StorageError::Other(message)
            })?;
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
