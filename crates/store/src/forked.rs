//! Reads stores in forked processes.
//!
//! A lock that another thread of the parent held stays locked forever in a forked process. So it reads by a [`Reader`]
//! of its own, and takes no lock of its parent that might be held.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use isochrony_system::forks::this_process;

use crate::engine::Reader;
use crate::error::StoreError;
use crate::media::Media;

pub(crate) struct ForkedReaders {
    opened_in: u32,
    first: Link,
}

/// Append-only: reading never blocks.
type Link = OnceLock<Box<OwnReader>>;

struct OwnReader {
    process: u32,
    reader: Reader,
    next: Link,
}

impl ForkedReaders {
    pub(crate) fn new() -> Self {
        Self {
            opened_in: this_process(),
            first: OnceLock::new(),
        }
    }

    pub(crate) fn is_here(&self) -> bool {
        this_process() != self.opened_in
    }

    /// `None` in the process that opened the store.
    pub(crate) fn reader(
        &self,
        path: &Path,
        media: &Arc<dyn Media>,
    ) -> Result<Option<&Reader>, StoreError> {
        let process = this_process();
        if process == self.opened_in {
            return Ok(None);
        }
        let mut link = &self.first;
        let mut opened = None;
        loop {
            if let Some(own) = link.get() {
                if own.process == process {
                    return Ok(Some(&own.reader));
                }
                link = &own.next;
                continue;
            }
            let reader = match opened.take() {
                Some(reader) => reader,
                None => Reader::open_on(path, Arc::clone(media))?,
            };
            let own = OwnReader {
                process,
                reader,
                next: OnceLock::new(),
            };
            // Another thread was faster.
            if let Err(own) = link.set(Box::new(own)) {
                opened = Some(own.reader);
            }
        }
    }
}
