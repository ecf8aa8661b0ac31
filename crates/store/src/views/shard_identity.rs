//! A view shard's header has the store and signal of its rows, checked on opening.

use std::ops::Range;
use std::path::Path;

use super::files::{Array, Files, SHARD_ROWS};
use super::{LEVELS, bucket, rows_stored};
use crate::StoreError;
use crate::engine::io::IoContext;
use crate::layout::shard::{HEADER_LEN, HeaderBlock, ShardHeader};
use crate::media::{Access, Kind, MediaFile};
use crate::version::FileVersion;

impl Files {
    pub(super) fn header(&self, array: Array, level: usize, shard: u64) -> ShardHeader {
        let folder = array.folder(self.dtype, level);
        let rows = format!("{} {}", self.owner.store, folder.display());
        ShardHeader {
            signal: self.owner.signal.0,
            shard,
            version: FileVersion::of_replacement(&rows),
        }
    }

    pub(super) fn check(
        &self,
        file: &dyn MediaFile,
        path: &Path,
        array: Array,
        level: usize,
        shard: u64,
    ) -> Result<(), StoreError> {
        let Some(at) = array.flat(self.dtype).header_at() else {
            return Ok(());
        };
        let mut bytes = [0; HEADER_LEN as usize];
        let count = file.read_at(at, &mut bytes).at("read", path)?;
        let expected = self.header(array, level, shard);
        let got = match HeaderBlock::decode(&bytes[..count]) {
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

    /// Rows up to `built` should be stored. `empty`: whether an index range has no samples.
    pub(crate) fn damage(
        &self,
        built: i64,
        empty: impl Fn(Range<i64>) -> bool,
    ) -> Result<Option<String>, StoreError> {
        let length = SHARD_ROWS;
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
                    let flat = array.flat(self.dtype);
                    if !matches!(found, Some(Kind::File(length)) if length > flat.payload_start) {
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
                    let index = flat.index();
                    let mut found = vec![0; index.len()];
                    file.read_at(0, &mut found).at("read", &path)?;
                    if found != index {
                        // Other programs rely on it.
                        let path = path.display();
                        return Ok(Some(format!("{path} does not begin with its index")));
                    }
                }
            }
        }
        Ok(None)
    }
}
