//! The identity of a shard of views: the store and the signal of its rows, stated in its header and checked whenever it is opened.

use std::ops::Range;
use std::path::Path;

use uuid::Uuid;

use super::files::{Array, CHUNK_ROWS, Files, SHARD_CHUNKS};
use super::{LEVELS, bucket, rows_stored};
use crate::StoreError;
use crate::engine::io::IoContext;
use crate::layout::shard::{HEADER_LEN, HeaderBlock, ShardHeader};
use crate::media::{Access, Kind, MediaFile};
use crate::op::SignalId;
use crate::version::FileVersion;

/// The signal whose view it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ViewOwner {
    pub(crate) store: Uuid,
    pub(crate) signal: SignalId,
}

impl Files {
    /// What a shard file must say of itself.
    pub(super) fn header(&self, array: Array, level: usize, shard: u64) -> ShardHeader {
        let folder = array.folder(self.dtype, level);
        let rows = format!("{} {}", self.owner.store, folder.display());
        ShardHeader {
            signal: self.owner.signal.0,
            shard,
            version: FileVersion::of_replacement(&rows),
        }
    }

    /// The header of a shard file.
    pub(super) fn header_block(
        &self,
        file: &dyn MediaFile,
        path: &Path,
        array: Array,
    ) -> Result<HeaderBlock, StoreError> {
        let Some(at) = array.flat(self.dtype).header_at() else {
            return Ok(HeaderBlock::None);
        };
        let mut bytes = [0; HEADER_LEN as usize];
        let count = file.read_at(at, &mut bytes).at("read", path)?;
        Ok(HeaderBlock::decode(&bytes[..count]))
    }

    /// Refuses a file that says that it is another shard.
    pub(super) fn check(
        &self,
        file: &dyn MediaFile,
        path: &Path,
        array: Array,
        level: usize,
        shard: u64,
    ) -> Result<(), StoreError> {
        let expected = self.header(array, level, shard);
        let got = match self.header_block(file, path, array)? {
            HeaderBlock::None => return Ok(()),
            HeaderBlock::Header(found) if found == expected => return Ok(()),
            HeaderBlock::Header(found) => found.to_string(),
            HeaderBlock::Damaged => "a shard with a damaged header".into(),
        };
        Err(StoreError::WrongShard {
            path: path.to_owned(),
            got,
            expected: expected.to_string(),
        })
    }

    /// What is wrong with a shard that must hold rows, as everything up to `built` is said to be stored. `empty` tells
    /// whether a range of indices has no samples.
    pub(crate) fn damage(
        &self,
        built: i64,
        empty: impl Fn(Range<i64>) -> bool,
    ) -> Result<Option<String>, StoreError> {
        let length = CHUNK_ROWS * SHARD_CHUNKS;
        for level in 0..LEVELS {
            let rows = rows_stored(self.dtype, level, built);
            let bucket = bucket(self.dtype, level);
            for shard in 0..rows.div_ceil(length) {
                let end = rows.min((shard + 1) * length);
                if empty((shard * length) as i64 * bucket..end as i64 * bucket) {
                    continue;
                }
                for array in Array::BOTH {
                    let path = self.folder.join(self.shard(array, level, shard));
                    let found = self.media.stat(&path).at("look at", &path)?;
                    let start = array.flat(self.dtype).payload_start;
                    if !matches!(found, Some(Kind::File(length)) if length > start) {
                        return Ok(Some(format!("{} is missing or too short", path.display())));
                    }
                    let file = self.media.open(&path, Access::Read).at("read", &path)?;
                    match self.check(&*file, &path, array, level, shard) {
                        Err(StoreError::WrongShard { got, expected, .. }) => {
                            let path = path.display();
                            return Ok(Some(format!("{path} is {got}, expected {expected}")));
                        }
                        other => other?,
                    }
                }
            }
        }
        Ok(None)
    }
}
