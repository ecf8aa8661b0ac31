//! Stores that are read on in a process that was forked off.
//!
//! A forked process has the thread that forked it and no other. A lock that another one held at that moment, such as one
//! that reads ahead of a scan, stays locked in it for ever. So it reads samples by a [`Reader`] of its own, opened when
//! it is first needed, and takes no lock of its parent that might be held.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::engine::Reader;
use crate::error::StoreError;
use crate::media::{self, Media};

/// The process in which a store was opened, and the readers of those that were forked off.
pub(crate) struct Forked {
    opened_in: u32,
    first: Link,
}

/// A list that is never changed but at its end: who reads it waits for nobody.
type Link = OnceLock<Box<OwnReader>>;

struct OwnReader {
    process: u32,
    reader: Reader,
    next: Link,
}

impl Forked {
    /// Of a store that this process opens.
    pub(crate) fn new() -> Self {
        Self {
            opened_in: media::this_process(),
            first: OnceLock::new(),
        }
    }

    /// Whether this process is another one than opened the store.
    pub(crate) fn is_here(&self) -> bool {
        media::this_process() != self.opened_in
    }

    /// The reader of this process, if it was forked off.
    ///
    /// # Errors
    /// As those of opening the store for reading.
    pub(crate) fn reader(
        &self,
        path: &Path,
        media: &Arc<dyn Media>,
    ) -> Result<Option<&Reader>, StoreError> {
        let process = media::this_process();
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
            // Another thread of this process may have been faster: its reader is found above.
            if let Err(own) = link.set(Box::new(own)) {
                opened = Some(own.reader);
            }
        }
    }
}
