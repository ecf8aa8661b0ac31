//! One pass over a recording: the [`Source`] that the engine pulls from, and its [`SourceEvent`]s.

use std::ops::Range;
use std::task::Waker;

use isochrony_store::Reading;

use crate::{Break, Item, OpError, RunError};

/// Where a contiguous range begins. Windows, blocks and phases are counted from one of the two samples, never from the
/// start of a task or segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RangeOrigin {
    /// Its first sample in the recording, perhaps before the scanned range.
    pub anchor: i64,
    /// Its first sample that the scan reads: the same for all tasks.
    pub first: i64,
}

impl RangeOrigin {
    /// The origin of a range read from its first sample on.
    #[must_use]
    pub const fn at(index: i64) -> Self {
        Self {
            anchor: index,
            first: index,
        }
    }
}

/// What a source gives next.
#[derive(Debug)]
pub enum SourceEvent {
    /// Precedes the first item of a contiguous range.
    RangeStart {
        /// Where it begins.
        origin: RangeOrigin,
        /// What separates it from the range before; None: the scan's first.
        why: Option<Break>,
    },
    /// Continues the item before, or is the first of a contiguous range.
    Item(Item),
    /// Existing samples that are not read: no window with them passes the filter behind the scan. They count as
    /// delivered. Given only to `rewindow`, whose next window begins at their end, or later.
    Skipped {
        /// What is not read.
        range: Range<i64>,
        /// The part that counts here, not for another portion.
        own: Range<i64>,
    },
    /// What follows lies before what was given, as in a selection. Precedes the `RangeStart`: inputs are aligned only
    /// within ascending indices.
    Rewind,
    /// A live source has nothing now; it wakes the [`Source::set_waker`] when it has.
    Idle,
    /// Nothing that begins before this index follows. Sent where items do not show it.
    ProgressMark(i64),
    /// Nothing follows.
    End,
}

/// One pass over a recording.
pub trait Source: Send {
    /// The next item. Called from one thread; may block for one read.
    ///
    /// # Errors
    /// A failed read, an interrupt.
    fn pull(&mut self) -> Result<SourceEvent, OpError>;

    /// Civil time of an index, for error messages.
    fn time_of(&self, index: i64) -> Option<String> {
        let _ = index;
        None
    }

    /// Another part of the execution failed. True: pull this source up to the position of that failure, to find an
    /// earlier error; its items have no other effect. False: close it, as live sources.
    fn continues_after_failure(&mut self) -> bool {
        false
    }

    /// After [`SourceEvent::Idle`]: whether the next item comes without another source being pulled first, so that the
    /// engine may wait for it.
    fn is_awaited(&self) -> bool {
        false
    }

    /// After [`SourceEvent::Idle`]: whether something is on its way, even if the engine may not wait for it, so that
    /// operators need not emit yet what they batch.
    fn is_under_way(&self) -> bool {
        self.is_awaited()
    }

    /// If the last pull failed with [`OpErrorKind::Interrupted`](crate::OpErrorKind::Interrupted) because a task
    /// failed: its error, and its position in read order, in seconds (index over rate).
    fn failure(&mut self) -> Option<(f64, RunError)> {
        None
    }

    /// Sets what an item after [`SourceEvent::Idle`] wakes. Called once, before the first pull.
    fn set_waker(&mut self, waker: &Waker) {
        let _ = waker;
    }

    /// Whether an item may begin before the end of the one before, as behind a merge.
    fn overlaps(&self) -> bool {
        false
    }

    /// Nothing more is wanted. Also called at the end of an execution, possibly repeatedly.
    fn close(&mut self) {}

    /// How it reads from a store, for the report.
    fn reading(&self) -> Option<Reading> {
        None
    }

    /// Samples in all, if known, for progress.
    fn total(&self) -> Option<u64> {
        None
    }

    /// Samples delivered so far, counted as in [`total`](Self::total). None: the engine adds up items.
    fn delivered(&self) -> Option<u64> {
        None
    }

    /// Samples of all items, so that a sink can reserve memory. Asked before the first pull.
    fn expected_samples(&self) -> Option<u64> {
        self.total()
    }
}
