//! A stored signal as the tasks of a run read it: what is read ahead of one task is the next one's, whoever does that.

use std::sync::Arc;

use isochrony_store::Readers;

use super::failed;
use super::portions::StoredPortions;
use crate::{OpError, PlannedReads, Portion, PortionOpener, PortionOverlap, Source};

/// What opens tasks' portions by readers that have one reading ahead in common.
pub(crate) struct StoredAhead {
    portions: Arc<StoredPortions>,
    readers: Arc<Readers>,
    reach: PortionOverlap,
    segment: u64,
}

impl StoredAhead {
    pub(crate) fn new(
        portions: Arc<StoredPortions>,
        foreseen: PlannedReads,
    ) -> Result<Self, OpError> {
        let PlannedReads {
            reach,
            segment,
            at_once,
            portions: coming,
        } = foreseen;
        let foreseen = portions.clone();
        let tasks = coming.map(move |portion| {
            let parts = portion.map(|portion| foreseen.around(&portion, reach).0);
            parts.unwrap_or_default()
        });
        let readers = portions.readers(segment, at_once, Box::new(tasks));
        Ok(Self {
            readers: readers.map_err(failed)?,
            portions,
            reach,
            segment,
        })
    }
}

impl PortionOpener for StoredAhead {
    fn open(
        &self,
        task: u64,
        portion: Option<&Portion>,
    ) -> Result<Option<Box<dyn Source>>, OpError> {
        let Some(portion) = portion else {
            // So that what is ahead of it is looked for.
            drop(self.readers.begin(task, &[]));
            return Ok(None);
        };
        let (parts, before) = self.portions.around(portion, self.reach);
        let reader = self.readers.begin(task, &parts);
        let pass = self.portions.pass(reader, parts, before, self.segment);
        Ok(Some(Box::new(pass)))
    }
}
