//! One pass over a recording: the [`Source`] that the engine pulls from, and its [`SourceEvent`]s.

use std::ops::Range;
use std::task::Waker;

use isochrony_store::Reading;

use crate::{Break, Item, OpError, RunError};

/// Where a contiguous range begins. Windows, blocks and phases are counted from one of its two samples, never from
/// where a task or a segment begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RangeOrigin {
    /// First sample of the contiguous range in the recording. May lie before the scanned range.
    pub anchor: i64,
    /// First sample of it that the scan reads: the same for all tasks of a scan.
    pub first: i64,
}

impl RangeOrigin {
    /// A contiguous range that is read from its first sample on.
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
    /// A contiguous range begins: no gap or clock step lies in it. Given before its first item.
    RangeStart {
        /// Where it begins.
        origin: RangeOrigin,
        /// What separates it from the range before; None for the first of a scan.
        why: Option<Break>,
    },
    /// An item that continues the one before, or the first of a contiguous range.
    Item(Item),
    /// Indices whose samples exist, but are not read: no window that they belong to passes the filter behind the scan.
    /// They count as delivered. Given only to `rewindow`, whose next window begins where they end, or later.
    Skipped {
        /// What is not read.
        range: Range<i64>,
        /// Those of them that count here, and not for another portion.
        own: Range<i64>,
    },
    /// What follows lies before what was given, as ranges of a selection may. Given before the `RangeStart` there:
    /// inputs are aligned only within ascending indices.
    Rewind,
    /// Nothing now, from a live source, which wakes the [`Source::set_waker`] when there is.
    Idle,
    /// Nothing that begins before this index follows. Sent where items alone do not show it.
    ProgressMark(i64),
    /// Nothing follows.
    End,
}

/// One pass over a recording.
pub trait Source: Send {
    /// The next item. Called from one thread; may block for the time of one read.
    ///
    /// # Errors
    /// A failed read, an interrupt.
    fn pull(&mut self) -> Result<SourceEvent, OpError>;

    /// Civil time of an index, for error messages.
    fn time_of(&self, index: i64) -> Option<String> {
        let _ = index;
        None
    }

    /// Called when another part of the execution failed. True: the source is pulled on up to the position of that
    /// failure, to find an earlier error; its items have no other effect. False: a live source is closed.
    fn continues_after_failure(&mut self) -> bool {
        false
    }

    /// After [`SourceEvent::Idle`]: whether the next item arrives without another source being pulled first, so that
    /// the engine may wait for it.
    fn is_awaited(&self) -> bool {
        false
    }

    /// After [`SourceEvent::Idle`]: whether something is on its way, although the engine may not wait for it, so that
    /// operators need not emit yet what they batch.
    fn is_under_way(&self) -> bool {
        self.is_awaited()
    }

    /// If the last pull failed with [`OpErrorKind::Interrupted`](crate::OpErrorKind::Interrupted) because a task
    /// failed: its position in read order, in seconds (index over rate of what is read), and its error.
    fn failure(&mut self) -> Option<(f64, RunError)> {
        None
    }

    /// Sets what to wake when an item arrives after [`SourceEvent::Idle`]. Called once, before the first pull.
    fn set_waker(&mut self, waker: &Waker) {
        let _ = waker;
    }

    /// Whether an item may begin before the end of the one before, as where streams were merged.
    fn overlaps(&self) -> bool {
        false
    }

    /// No more items are wanted. Also called at the end of an execution, and possibly more than once.
    fn close(&mut self) {}

    /// How it reads from a store, for the report.
    fn reading(&self) -> Option<Reading> {
        None
    }

    /// Samples in all, if known, to measure progress.
    fn total(&self) -> Option<u64> {
        None
    }

    /// Samples delivered so far, counted as by [`total`](Self::total). None: the engine adds up those of the items.
    fn delivered(&self) -> Option<u64> {
        None
    }

    /// Samples of all items, if known, so that a sink can reserve memory. Asked before the first pull.
    fn expected_samples(&self) -> Option<u64> {
        self.total()
    }
}
