//! Removes useless view files: shards that a power cut may have torn, and levels of few rows.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::files::{Array, Files, SHARD_ROWS};
use super::{LEVELS, Samples, bucket, rows_stored};
use crate::StoreError;
use crate::engine::io::IoContext;

impl Files {
    /// Most short signals have none.
    pub(crate) fn are_there(&self) -> Result<bool, StoreError> {
        let found = self.media.stat(&self.folder);
        Ok(found.at("look at", &self.folder)?.is_some())
    }

    /// Removes shards without durable rows, whose heads may be torn. Rows of samples below `synced` are durable, except
    /// `stale` ones.
    pub(crate) fn remove_unsynced(
        &mut self,
        synced: i64,
        stale: &[(i64, i64)],
        samples: &dyn Samples,
    ) -> Result<(), StoreError> {
        for level in 0..LEVELS {
            let rows = rows_stored(self.dtype, level, synced);
            let bucket = bucket(self.dtype, level);
            for array in Array::BOTH {
                for shard in self.shards(array, level)? {
                    let first = shard.saturating_mul(SHARD_ROWS).min(rows);
                    let end = rows.min(first + SHARD_ROWS);
                    let range = first as i64 * bucket..end as i64 * bucket;
                    if holds_rows(range, stale, samples) {
                        continue;
                    }
                    let name = self.shard(array, level, shard);
                    let folder = name.parent().unwrap_or(&name);
                    let path = self.folder.join(folder);
                    self.media.remove_all(&path).at("remove", &path)?;
                    self.unsynced.remove(&name);
                    self.new_folders.retain(|new| !new.starts_with(folder));
                    // In a gap nothing replaces it, and it must not reappear after the next power cut.
                    self.new_folders
                        .extend(folder.parent().map(Path::to_path_buf));
                }
            }
        }
        Ok(())
    }

    /// Removes levels with too few rows, of version 1 of the record, which nothing would update.
    pub(crate) fn remove_short_levels(&mut self, built: i64) -> Result<(), StoreError> {
        for level in 0..LEVELS {
            if rows_stored(self.dtype, level, built) > 0 {
                continue;
            }
            let name = PathBuf::from(bucket(self.dtype, level).to_string());
            let path = self.folder.join(&name);
            if self.media.stat(&path).at("look at", &path)?.is_some() {
                self.media.remove_all(&path).at("remove", &path)?;
                self.unsynced.retain(|shard| !shard.starts_with(&name));
                self.new_folders.retain(|new| !new.starts_with(&name));
            }
        }
        Ok(())
    }
}

/// Whether samples outside gaps have durable, unchanged rows.
fn holds_rows(range: Range<i64>, stale: &[(i64, i64)], samples: &dyn Samples) -> bool {
    let mut parts = vec![range];
    for &(start, end) in stale {
        let rest = |part: &Range<i64>| {
            [
                part.start..part.end.min(start),
                part.start.max(end)..part.end,
            ]
        };
        parts = parts.iter().flat_map(rest).collect();
        parts.retain(|part| part.start < part.end);
    }
    (parts.into_iter()).any(|part| samples.missing(part.clone()) < part.end - part.start)
}
