//! Read-ahead across tasks: any worker reads the next task's data while one is computed.

use std::sync::Arc;

use isochrony_store::Readers;

use super::snapshot::StoredSnapshot;
use crate::plan::error::store_error;
use crate::{OpError, PlannedReads, Portion, PortionOpener, PortionOverlap, Source};

pub(crate) struct PrefetchingOpener {
    portions: Arc<StoredSnapshot>,
    readers: Arc<Readers>,
    overlap: PortionOverlap,
    segment: u64,
}

impl PrefetchingOpener {
    pub(crate) fn new(portions: Arc<StoredSnapshot>, reads: PlannedReads) -> Result<Self, OpError> {
        let PlannedReads {
            overlap,
            segment,
            at_once,
            portions: coming,
        } = reads;
        let snapshot = portions.clone();
        let tasks = coming.map(move |portion| {
            let read = portion.map(|portion| snapshot.around(&portion, overlap).0);
            read.map_or_else(Vec::new, |read| snapshot.kept(&read))
        });
        let readers = portions.readers(segment, at_once, Box::new(tasks));
        Ok(Self {
            readers: readers.map_err(store_error)?,
            portions,
            overlap,
            segment,
        })
    }
}

impl PortionOpener for PrefetchingOpener {
    fn open(
        &self,
        task: u64,
        portion: Option<&Portion>,
    ) -> Result<Option<Box<dyn Source>>, OpError> {
        let Some(portion) = portion else {
            drop(self.readers.begin(task, &[]));
            return Ok(None);
        };
        let around = self.portions.around(portion, self.overlap);
        let reader = self.readers.begin(task, &self.portions.kept(&around.0));
        let pass = (self.portions).pass(reader, around, self.segment);
        Ok(Some(Box::new(pass)))
    }
}
