//! Reads parts of signals by an I/O strategy.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use isochrony_io::{Reading, Strategy};
use isochrony_segment::SigSeg;

use crate::error::StoreError;
use crate::selection::Stretch;
use crate::signal::Signal;
use crate::signal_source::ranges;

/// Parts that tasks will read, in the order in which they begin; an empty list is a task too.
pub type Tasks = Box<dyn Iterator<Item = Vec<Stretch>> + Send>;

impl Signal {
    /// How a strategy would read these parts, as far as known without reading.
    #[must_use]
    pub fn foresee_reading(&self, parts: &[Stretch], asked: Strategy) -> Reading {
        Reading::foresee(&self.source(), &ranges(parts), asked)
    }
}

/// Readers of one scan of a signal.
///
/// ```no_run
/// use isochrony_store::{Mode, Readers, Store, Strategy};
///
/// let signal = Store::open("water.iso", Mode::Read)?.signal("stn_10/pressure")?;
/// let parts = |range| signal.select(range).map(|selected| selected.parts().to_vec());
/// let (all, tasks) = (parts(0..1 << 22)?, [parts(0..1 << 21)?, parts(1 << 21..1 << 22)?]);
/// let readers = Readers::new(&signal, &all, 1 << 20, Strategy::Direct, 2, Box::new(tasks.clone().into_iter()))?;
/// let [mut first, mut second] = [0, 1].map(|task| readers.begin(task as u64, &tasks[task]));
/// let (one, other) = (first.read(0..1 << 20)?, second.read(1 << 21..3 << 20)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Readers(Arc<isochrony_io::ScanReaders>);

impl Readers {
    /// Readers of pieces of at most `piece` samples. `at_once` readers run in parallel on tasks numbered from 0 in the
    /// foreseen order.
    ///
    /// # Errors
    /// [`StoreError::Io`] if a thread cannot be started.
    pub fn new(
        signal: &Signal,
        parts: &[Stretch],
        piece: i64,
        strategy: Strategy,
        at_once: usize,
        tasks: Tasks,
    ) -> Result<Arc<Self>, StoreError> {
        let tasks = Box::new(tasks.map(|parts| ranges(&parts)));
        let (source, parts) = (signal.source(), ranges(parts));
        let readers =
            isochrony_io::ScanReaders::new(&source, &parts, piece, strategy, at_once, tasks)?;
        Ok(Arc::new(Self(readers)))
    }

    /// A reader of a foreseen task, perhaps partly read already, or of other parts. Tasks may be skipped or repeated.
    #[must_use]
    pub fn begin(self: &Arc<Self>, task: u64, parts: &[Stretch]) -> SignalReader {
        SignalReader(self.0.begin(task, &ranges(parts)))
    }
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Reads parts of a signal in pieces, by a strategy, which has no effect on the samples.
///
/// ```no_run
/// use isochrony_store::{Mode, SignalReader, Store, Strategy};
///
/// let signal = Store::open("water.iso", Mode::Read)?.signal("stn_10/pressure")?;
/// let parts = signal.select(0..1 << 20)?.parts().to_vec();
/// let mut reader = SignalReader::new(&signal, &parts, 1 << 18, Strategy::Read)?;
/// let first = reader.read(0..1 << 18)?;
/// # Ok::<(), isochrony_store::StoreError>(())
/// ```
#[derive(Debug)]
pub struct SignalReader(isochrony_io::PieceReader);

impl SignalReader {
    /// Reads ahead if requests are for pieces of at most `piece` samples of each gap-free range in order
    /// ([`next_piece`](Self::next_piece)).
    ///
    /// # Errors
    /// [`StoreError::Io`] if a thread cannot be started.
    pub fn new(
        signal: &Signal,
        parts: &[Stretch],
        piece: i64,
        strategy: Strategy,
    ) -> Result<Self, StoreError> {
        let reader =
            isochrony_io::PieceReader::new(&signal.source(), &ranges(parts), piece, strategy)?;
        Ok(Self(reader))
    }

    /// The strategy in use.
    #[must_use]
    pub fn reading(&self) -> &Reading {
        self.0.reading()
    }

    /// Next piece of the rest of a range.
    #[must_use]
    pub fn next_piece(&self, rest: &Range<i64>) -> Range<i64> {
        self.0.next_piece(rest)
    }

    /// Samples of a contiguous range of one run.
    ///
    /// # Errors
    /// [`StoreError::MissingSamples`], [`StoreError::DamagedFile`], [`StoreError::Closed`], or an I/O error.
    pub fn read(&mut self, range: Range<i64>) -> Result<SigSeg, StoreError> {
        Ok(self.0.read(range)?)
    }
}
