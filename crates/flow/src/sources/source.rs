//! One pass over a recording: the [`Source`] that the engine pulls, and its [`SourceEvent`]s.

use std::ops::Range;
use std::task::Waker;
use std::time::Instant;

use isochrony_store::Reading;

use crate::{Break, Item, OpError, RunError};

/// Origin of a contiguous range. Windows, blocks and phases are counted from one of the two samples, never from the
/// start of a task or segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RangeOrigin {
    /// First sample in the recording, perhaps before the scanned range.
    pub anchor: i64,
    /// First sample that the scan reads: the same for all tasks.
    pub first: i64,
}

impl RangeOrigin {
    /// Origin of a range read from its first sample.
    #[must_use]
    pub const fn at(index: i64) -> Self {
        Self {
            anchor: index,
            first: index,
        }
    }
}

/// Event of a source.
#[derive(Debug)]
pub enum SourceEvent {
    /// Precedes the first item of a contiguous range.
    RangeStart {
        /// Its origin.
        origin: RangeOrigin,
        /// Separation from the range before; None: the scan's first.
        why: Option<Break>,
    },
    /// Continues the previous item, or starts a contiguous range.
    Item(Item),
    /// Samples not read because no window with them passes the filter after the scan; they count as delivered. Only for
    /// `rewindow`, whose next window begins at their end, or later.
    Skipped {
        /// Skipped indices.
        range: Range<i64>,
        /// The part that counts here, not for another portion.
        own: Range<i64>,
    },
    /// What follows lies before what was given, as in a selection. Precedes the `RangeStart`: inputs are aligned only
    /// within ascending indices.
    Rewind,
    /// A live source has nothing now; it wakes [`Source::set_waker`] later.
    Idle,
    /// Nothing before this index follows. Sent where items do not show it.
    ProgressMark(i64),
    /// Nothing follows.
    End,
}

/// One pass over a recording.
pub trait Source: Send {
    /// The next item. Called from one thread; may block for one read.
    ///
    /// # Errors
    /// Failed read, or interrupt.
    fn pull(&mut self) -> Result<SourceEvent, OpError>;

    /// When what was pulled last arrived, for latencies; `asked`: when its burst began, which counts unless the source
    /// knows better. None: unknown, so that the burst does not count. Called once per burst.
    fn arrival(&self, asked: Instant) -> Option<Instant> {
        Some(asked)
    }

    /// Civil time of an index, for error messages.
    fn time_of(&self, index: i64) -> Option<String> {
        let _ = index;
        None
    }

    /// After a failure elsewhere. True: pull up to that position, to find an earlier error. False: close it.
    fn continues_after_failure(&mut self) -> bool {
        false
    }

    /// After [`SourceEvent::Idle`]: whether the engine may wait for the next item, without pulling other sources.
    fn is_awaited(&self) -> bool {
        false
    }

    /// After [`SourceEvent::Idle`]: whether data are in flight, so operators need not flush yet.
    fn is_under_way(&self) -> bool {
        self.is_awaited()
    }

    /// The error of a failed task, if it ended the last pull with
    /// [`OpErrorKind::Interrupted`](crate::OpErrorKind::Interrupted), and its position in read order, in seconds (index
    /// over rate).
    fn failure(&mut self) -> Option<(f64, RunError)> {
        None
    }

    /// Sets the waker for items after [`SourceEvent::Idle`]. Called once, before the first pull.
    fn set_waker(&mut self, waker: &Waker) {
        let _ = waker;
    }

    /// Whether an item may begin before the previous one's end, as after a merge.
    fn overlaps(&self) -> bool {
        false
    }

    /// Nothing more is wanted. Also called, possibly repeatedly, at the end of an execution.
    fn close(&mut self) {}

    /// How it reads a store, for the report.
    fn reading(&self) -> Option<Reading> {
        None
    }

    /// Total samples, if known, for progress.
    fn total(&self) -> Option<u64> {
        None
    }

    /// Samples delivered so far, counted as in [`total`](Self::total). None: the engine sums items.
    fn delivered(&self) -> Option<u64> {
        None
    }

    /// Samples of all items, for reserving memory. Asked before the first pull.
    fn expected_samples(&self) -> Option<u64> {
        self.total()
    }
}
