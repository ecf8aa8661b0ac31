//! One pass over a recording: the [`Source`] that the engine pulls from, and the [`SourceItem`]s that it gives.

use isochrony_store::Reading;

use crate::{Break, Item, OpError, RunError};

/// What a source gives next.
#[derive(Debug)]
pub enum SourceItem {
    /// A contiguous range of samples begins: no gap and no clock step lies in it. Given before the range's first item.
    RangeStart {
        /// Windows are counted from this sample. It lies before the scanned range if that begins inside a contiguous one.
        anchor: i64,
        /// What separates the range from the one before; None for the first of a scan.
        why: Option<Break>,
    },
    /// An item that continues the one before, or the first of a contiguous range.
    Item(Item),
    /// What follows lies before what was given, as ranges of a selection may. Given before the `RangeStart` there: inputs
    /// are aligned only within ascending indices.
    Rewind,
    /// Nothing at the moment, from a live source. It unparks the thread when there is something ([`Source::set_waker`]).
    Idle,
    /// Nothing that begins before this index follows, where the items alone do not show it.
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
    fn pull(&mut self) -> Result<SourceItem, OpError>;

    /// Civil time of an index, for error messages.
    fn time_of(&self, index: i64) -> Option<String> {
        let _ = index;
        None
    }

    /// Called when another part of the execution has failed: whether the source reads on to that place, so that an
    /// earlier error is found. What is pulled then has no effect but errors.
    fn continues_after_failure(&mut self) -> bool {
        false
    }

    /// Whether missing items arrive without being asked for again, so that other sources may wait for them.
    fn is_awaited(&self) -> bool {
        false
    }

    /// The error elsewhere that made a pull fail with [`OpErrorKind::Interrupted`](crate::OpErrorKind::Interrupted), and
    /// its position in read order.
    fn failure(&mut self) -> Option<(f64, RunError)> {
        None
    }

    /// Names the thread that the source unparks when it gave [`SourceItem::Idle`] and has an item now. Called once,
    /// before the first pull.
    fn set_waker(&mut self, thread: &std::thread::Thread) {
        let _ = thread;
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

    /// Samples in all, if known: progress is measured against it.
    fn total(&self) -> Option<u64> {
        None
    }

    /// Samples given so far, in the unit of [`total`](Self::total); None: count those of the items.
    fn delivered(&self) -> Option<u64> {
        None
    }

    /// Samples in the items to come, if known, so that a sink can reserve memory.
    fn expected_samples(&self) -> Option<u64> {
        self.total()
    }
}
