//! Concatenates all rows of an execution into one table.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_schema::ArrowError;
use arrow_select::concat::{concat, concat_batches};

use super::Fields;

/// Smaller blocks are concatenated: a block costs more memory than its rows.
const BLOCK_ROWS: usize = 8192;

#[derive(Debug)]
pub(crate) struct Gatherer {
    fields: Fields,
    large: Vec<RecordBatch>,
    small: Vec<RecordBatch>,
    small_rows: usize,
}

impl Gatherer {
    pub(crate) fn new(fields: Fields) -> Self {
        Self {
            fields,
            large: Vec::new(),
            small: Vec::new(),
            small_rows: 0,
        }
    }

    pub(crate) fn push(&mut self, batch: RecordBatch) -> Result<(), ArrowError> {
        self.small_rows += batch.num_rows();
        self.small.push(batch);
        if self.small_rows >= BLOCK_ROWS {
            self.concat_small()?;
        }
        Ok(())
    }

    fn concat_small(&mut self) -> Result<(), ArrowError> {
        self.small_rows = 0;
        let joined = concat_batches(self.fields.schema(), &self.small)?;
        self.small.clear();
        self.large.push(joined);
        Ok(())
    }

    /// By column, so only one column is in memory twice.
    pub(crate) fn finish(mut self) -> Result<RecordBatch, ArrowError> {
        let schema = self.fields.schema();
        self.large.append(&mut self.small);
        if self.large.len() < 2 {
            let only = self.large.pop();
            return Ok(only.unwrap_or_else(|| RecordBatch::new_empty(Arc::clone(schema))));
        }
        let mut columns: Vec<_> = (0..schema.fields().len()).map(|_| Vec::new()).collect();
        for batch in self.large {
            let (_, parts, _) = batch.into_parts();
            for (column, part) in columns.iter_mut().zip(parts) {
                column.push(part);
            }
        }
        let joined = columns.into_iter().map(|parts| {
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            concat(&parts)
        });
        RecordBatch::try_new(Arc::clone(schema), joined.collect::<Result<_, _>>()?)
    }
}
