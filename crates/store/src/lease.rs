//! How samples of scratch are read by those who do not own it: as copies, and only for a while.
//!
//! Scratch is given back to the disk when the tasklets of a run need it no more, and what is mapped then turns into zeros.
//! So while runs use a scratch signal what lies in its files is copied into blocks that belong to who reads; what lies in
//! memory is counted anyway. A [`Lease`] is the time in which an input may be read at all.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use isochrony_segment::{Buffer, SegmentError};

use crate::error::StoreError;

/// Where memory for copies of samples comes from, and goes back to.
pub trait Blocks: Send + Sync {
    /// A block of so many bytes that nobody else refers to; what it holds is of no matter.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`].
    fn take(&self, len: usize) -> Result<Buffer, SegmentError>;

    /// A block that others may still look into: once they do not, it may be taken again.
    fn give(&self, block: Buffer);
}

/// Where copies of a scratch signal's samples go, once there are to be copies.
#[derive(Default)]
pub(crate) struct Copies {
    by: RwLock<Option<Weak<dyn Blocks>>>,
    /// As `by`, for those who need not know more.
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

    /// A block that `fill` has filled.
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

/// For how long somebody may read a range of scratch. What was read before it ended is right for ever.
pub struct Lease {
    reader: String,
    is_over: AtomicBool,
}

impl Lease {
    /// A lease that begins; `reader` is for messages.
    #[must_use]
    pub fn new(reader: impl Into<String>) -> Arc<Self> {
        Arc::new(Self {
            reader: reader.into(),
            is_over: AtomicBool::new(false),
        })
    }

    /// Ends it: only then may the samples be given back.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// Runs `read` within the lease: what it gives was read before the lease ended.
    pub(crate) fn within<T>(
        &self,
        range: &Range<i64>,
        read: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.check(range)?;
        let outcome = read();
        // If it ended meanwhile, it may have read, or missed, what was free already.
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
