//! All rows of a run as one table.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_schema::ArrowError;
use arrow_select::concat::{concat, concat_batches};

use super::Fields;

/// Rows that are joined before they are kept: small blocks would each cost more than their rows.
const TOGETHER: usize = 8192;

/// Blocks of rows that become one.
#[derive(Debug)]
pub(crate) struct Gatherer {
    fields: Fields,
    large: Vec<RecordBatch>,
    small: Vec<RecordBatch>,
    waiting: usize,
}

impl Gatherer {
    pub(crate) fn new(fields: Fields) -> Self {
        Self {
            fields,
            large: Vec::new(),
            small: Vec::new(),
            waiting: 0,
        }
    }

    pub(crate) fn push(&mut self, batch: RecordBatch) -> Result<(), ArrowError> {
        self.waiting += batch.num_rows();
        self.small.push(batch);
        if self.waiting >= TOGETHER {
            self.join()?;
        }
        Ok(())
    }

    fn join(&mut self) -> Result<(), ArrowError> {
        self.waiting = 0;
        let joined = concat_batches(self.fields.schema(), &self.small)?;
        self.small.clear();
        self.large.push(joined);
        Ok(())
    }

    /// One table; column by column, so that not all of it is in memory twice.
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
