//! Leases: reads of scratch samples by others, as copies and for a limited time.
//!
//! Mappings of released scratch turn into zeros. So during runs, samples in files are copied into the reader's blocks.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use isochrony_segment::{Buffer, SegmentError};

use crate::error::StoreError;

/// Recycles blocks for copies of samples.
pub trait Blocks: Send + Sync {
    /// An unshared block of `len` undefined bytes.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`].
    fn take(&self, len: usize) -> Result<Buffer, SegmentError>;

    /// Returns a block, for reuse once no reader holds it.
    fn give(&self, block: Buffer);
}

/// Where copies of scratch samples go, once they are needed.
#[derive(Default)]
pub(crate) struct Copies {
    by: RwLock<Option<Weak<dyn Blocks>>>,
    /// Whether `by` is set, without its lock.
    asked: AtomicBool,
}

impl Copies {
    pub(crate) fn ask(&self, blocks: &Arc<dyn Blocks>) {
        let mut by = self.by.write().unwrap_or_else(PoisonError::into_inner);
        *by = Some(Arc::downgrade(blocks));
        self.asked.store(true, Ordering::Release);
    }

    pub(crate) fn are_asked_for(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    pub(crate) fn filled(
        &self,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), StoreError>,
    ) -> Result<Buffer, StoreError> {
        let by = self.by.read().unwrap_or_else(PoisonError::into_inner);
        let blocks = by.as_ref().and_then(Weak::upgrade);
        drop(by);
        let mut block = match &blocks {
            Some(blocks) => blocks.take(len)?,
            None => isochrony_segment::BufferMut::zeroed(len)?.freeze(),
        };
        let outcome = fill(block.make_mut()?);
        if let Some(blocks) = blocks {
            blocks.give(block.clone());
        }
        outcome.map(|()| block)
    }
}

/// The time in which a range of scratch may be read. What was read stays valid.
pub struct Lease {
    reader: String,
    is_over: AtomicBool,
}

impl Lease {
    /// `reader` is for messages.
    #[must_use]
    pub fn new(reader: impl Into<String>) -> Arc<Self> {
        Arc::new(Self {
            reader: reader.into(),
            is_over: AtomicBool::new(false),
        })
    }

    /// Ends it; then samples may be released.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    pub(crate) fn within<T>(
        &self,
        range: &Range<i64>,
        read: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.check(range)?;
        let outcome = read();
        // If it ended during the read, the result may be wrong.
        self.check(range)?;
        outcome
    }

    pub(crate) fn check(&self, range: &Range<i64>) -> Result<(), StoreError> {
        if self.is_over.load(Ordering::SeqCst) {
            return Err(StoreError::ScratchFree {
                start: range.start,
                end: range.end,
                whose: format!(", an input of tasklet {:?} that is over,", self.reader),
            });
        }
        Ok(())
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("reader", &self.reader)
            .field("is_over", &self.is_over)
            .finish()
    }
}
