//! Which tables a checkpoint writes to files, and which to the base of the next log.

use super::compact::CompactTables;
use super::io::IoContext;
use super::slot::SlotInner;
use crate::error::StoreError;
use crate::media::Media;
use crate::state::{GAPS, RUNS, Table};

/// A longer signal is not compact. Arrays take 0.2 MB of files: a fifth of so many samples, but half of 0.4 MB.
const MAX_SAMPLE_BYTES: u64 = 1 << 20;

/// Likewise full chunks; reached below 1 MiB only with short chunks.
const MAX_CHUNKS: u64 = 16;

#[derive(Debug, Default)]
pub(crate) struct CheckpointTables {
    pub(crate) arrays: Vec<Table>,
    /// In the next log's base: the signal stays compact.
    pub(crate) compact: Option<CompactTables>,
}

impl SlotInner {
    pub(crate) fn checkpoint_tables(
        &mut self,
        media: &dyn Media,
    ) -> Result<CheckpointTables, StoreError> {
        let was = self.base.compact.clone();
        let runs = self.folder.join(RUNS);
        // An interrupted checkpoint may have written arrays, which must not stay.
        let is_short = self.full_chunks() < MAX_CHUNKS
            && self.sample_bytes() < MAX_SAMPLE_BYTES
            && media.stat(&runs).at("look at", &runs)?.is_none();
        let Some(state) = self.committed_mut() else {
            return Ok(CheckpointTables {
                compact: was,
                ..CheckpointTables::default()
            });
        };
        let compact = match was {
            Some(_) if is_short => CompactTables::of(state),
            _ => None,
        };
        let mut arrays = match (&was, &compact) {
            // Unchanged tables are not in files either.
            (Some(_), None) => state.tables(),
            _ => state.changed_tables(),
        };
        arrays.retain(|table| compact.is_none() || table.name == GAPS);
        Ok(CheckpointTables { arrays, compact })
    }
}
