//! Open shards of sealed arrays, with their indices.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::engine::io::failed;
use crate::error::StoreError;
use crate::layout::flat::Flat;
use crate::layout::shard::SEALED_SHARD_CHUNKS;
use crate::media::MediaFile;

#[derive(Debug)]
pub(super) enum ShardError {
    Io(io::Error),
    Damaged(String),
}

impl ShardError {
    /// `damaged` converts a description of invalid content.
    pub(super) fn at(self, path: &Path, damaged: impl FnOnce(String) -> StoreError) -> StoreError {
        match self {
            Self::Io(error) => failed(error, "read", path),
            Self::Damaged(reason) => damaged(reason),
        }
    }
}

impl From<io::Error> for ShardError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

#[derive(Debug)]
pub(super) struct SealedShard {
    pub(super) file: Arc<dyn MediaFile>,
    pub(super) len: u64,
    index_at: u64,
    index: Vec<(u64, u64)>,
}

impl SealedShard {
    pub(super) fn open(file: Arc<dyn MediaFile>) -> Result<Self, ShardError> {
        let damaged = |reason: String| Err(ShardError::Damaged(reason));
        let len = file.len()?;
        let index_len = Flat::index_len(SEALED_SHARD_CHUNKS);
        let Some(index_at) = len.checked_sub(index_len) else {
            return damaged(format!("the shard has {len} bytes, too few for an index"));
        };
        let bytes = read(&*file, index_at..len)?;
        let (entries, sum) = bytes.split_at(bytes.len() - 4);
        if crc32c::crc32c(entries).to_le_bytes() != sum {
            return damaged("the shard's index does not have its checksum".into());
        }
        let numbers = entries.chunks_exact(8).map(|bytes| {
            bytes
                .iter()
                .rev()
                .fold(0, |number, byte| number << 8 | u64::from(*byte))
        });
        let numbers: Vec<u64> = numbers.collect();
        let index = numbers.chunks_exact(2).map(|pair| (pair[0], pair[1]));
        let index = index.collect();
        Ok(Self {
            file,
            len,
            index_at,
            index,
        })
    }

    /// `None` if omitted, as a chunk of zeros.
    pub(super) fn place_of(&self, chunk: u64) -> Result<Option<Range<u64>>, String> {
        let entry = usize::try_from(chunk)
            .ok()
            .and_then(|at| self.index.get(at));
        let Some(&(offset, length)) = entry else {
            return Err("the shard's index has no such chunk".into());
        };
        if offset == u64::MAX && length == u64::MAX {
            return Ok(None);
        }
        match offset.checked_add(length) {
            Some(end) if end <= self.index_at => Ok(Some(offset..end)),
            _ => Err(format!(
                "the index says that it has {length} bytes from {offset}, in a shard of {}",
                self.len
            )),
        }
    }

    /// The caller has checked the length of `bytes`.
    pub(super) fn read_into(
        &self,
        range: Range<u64>,
        bytes: &mut Vec<u8>,
    ) -> Result<(), ShardError> {
        read_into(&*self.file, range, bytes)
    }
}

fn read(file: &dyn MediaFile, range: Range<u64>) -> Result<Vec<u8>, ShardError> {
    let mut bytes = Vec::new();
    read_into(file, range, &mut bytes)?;
    Ok(bytes)
}

fn read_into(
    file: &dyn MediaFile,
    range: Range<u64>,
    bytes: &mut Vec<u8>,
) -> Result<(), ShardError> {
    let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    bytes
        .try_reserve_exact(len.saturating_sub(bytes.len()))
        .map_err(|error| ShardError::Damaged(error.to_string()))?;
    bytes.resize(len, 0);
    let count = file.read_at(range.start, bytes)?;
    match count == len {
        true => Ok(()),
        false => Err(ShardError::Damaged(format!(
            "its shard ends at {}, within it",
            range.start + count as u64
        ))),
    }
}
