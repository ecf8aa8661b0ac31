//! Reading parts of signals by an I/O strategy.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use isochrony_io::{Reading, Strategy};
use isochrony_segment::SigSeg;

use crate::error::StoreError;
use crate::selection::Stretch;
use crate::signal::Signal;
use crate::signal_source::ranges;

/// What the tasks to come read, in the order in which they will begin; an empty list is a task, too.
pub type Tasks = Box<dyn Iterator<Item = Vec<Stretch>> + Send>;

impl Signal {
    /// How parts of this signal would be read by a strategy, as far as can be told without reading them.
    #[must_use]
    pub fn foresee_reading(&self, parts: &[Stretch], asked: Strategy) -> Reading {
        Reading::foresee(&self.source(), &ranges(parts), asked)
    }
}

/// The readers of one scan of a signal: see [`Readers::begin`].
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
    /// For parts of a signal, in pieces of at most `piece` samples and a short end of a stretch between gaps; `at_once` readers
    /// at a time do the tasks, which are numbered from 0 on in the order in which they are foreseen.
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

    /// The reader of a task: of one that was foreseen, perhaps with some of it read already, or of any other parts. Fewer
    /// tasks may be done than were foreseen, or some of them again.
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

/// Reads parts of a signal in pieces, by a strategy; the samples are the same by each.
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
    /// A reader of parts of a signal, which will be asked for the pieces of each stretch between gaps, in order, of at most
    /// `piece` samples and a short end ([`next_piece`](Self::next_piece)). Other ranges may be asked for, only nothing is read
    /// ahead for them.
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

    /// How it reads.
    #[must_use]
    pub fn reading(&self) -> &Reading {
        self.0.reading()
    }

    /// The next piece of what is left of a stretch.
    #[must_use]
    pub fn next_piece(&self, rest: &Range<i64>) -> Range<i64> {
        self.0.next_piece(rest)
    }

    /// The samples of a gap-free range within one run.
    ///
    /// # Errors
    /// [`StoreError::MissingSamples`], [`StoreError::DamagedFile`], [`StoreError::Closed`], or what the system says.
    pub fn read(&mut self, range: Range<i64>) -> Result<SigSeg, StoreError> {
        Ok(self.0.read(range)?)
    }
}
