//! The readers of one scan, of which there may be several at once, and what is read ahead of all of them.
//!
//! A scan on several cores is cut into tasks, each of which reads its parts by a [`Reader`] of its own. What lies ahead of
//! it is not its own: threads that read past the page cache, requests to the kernel and advice go on from one task to the
//! next, whoever does that, and files and buffers are handed on.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::Strategy;
use super::ahead::{Ahead, AllAhead, Wanted};
use super::files::Files;
use super::flights::Flights;
use super::lanes::{Lanes, Tasks};
use super::pieces::Pieces;
use super::pool::Pool;
use super::reader::{Own, Reader};
use super::reading::Reading;
use super::requests::{Attempt, Requests};
use super::ring::{self, Ring};
use crate::error::{At, IoError};
use crate::source::Source;
use crate::system::Process;

/// What failed where a thread cannot be had.
const NO_THREAD: &str = "begin a thread that reads";

/// What is read ahead of all readers.
#[derive(Debug)]
enum Together {
    Nothing,
    Twice(Wanted),
    All(AllAhead),
    Ring(Ring),
    Flights(Box<Mutex<Flights>>),
}

/// What readers of one source have in common: see [`Readers::begin`].
pub struct Readers {
    source: Arc<dyn Source>,
    piece: i64,
    together: Together,
    reading: Reading,
    /// What is done instead from some piece on, and why.
    refused: OnceLock<(Strategy, String)>,
    /// Files and buffers of readers that are done.
    spare: Mutex<Vec<Own>>,
    owner: Process,
}

impl Readers {
    /// For parts of a source, in pieces of at most `piece` samples and a short end of a stretch between gaps; `at_once` readers
    /// at a time do the tasks, which are numbered from 0 on in the order in which they are foreseen.
    ///
    /// # Errors
    /// [`IoError::System`] if a thread cannot be had.
    pub fn new(
        source: &Arc<dyn Source>,
        parts: &[Range<i64>],
        piece: i64,
        strategy: Strategy,
        at_once: usize,
        tasks: Tasks,
    ) -> Result<Arc<Self>, IoError> {
        let mut reading = Reading::foresee(source, parts, strategy);
        let at_once = at_once.max(1);
        let together = match reading.used {
            Some(Strategy::Readahead) => Together::Twice(Wanted::new(at_once)),
            Some(Strategy::ReadaheadAll) => {
                let pieces = Pieces::new(source.clone(), parts.to_vec(), piece);
                let all = AllAhead::asking(Files::new(source), pieces);
                Together::All(all.at(NO_THREAD, source.folder())?)
            }
            Some(Strategy::Populate) => {
                // However long segments are, so that it is never long at one when it is to end.
                let most = Strategy::Populate.piece_bytes() / source.dtype().size() as u64;
                let pieces = |piece| Pieces::new(source.clone(), parts.to_vec(), piece);
                match pieces(piece).nth(1) {
                    Some(_) => {
                        let pieces = pieces(piece.min(most.cast_signed()));
                        let all = AllAhead::filling(source.clone(), pieces);
                        Together::All(all.at(NO_THREAD, source.folder())?)
                    }
                    // Who waits for all of it fills it.
                    None => Together::Nothing,
                }
            }
            Some(Strategy::Direct) => {
                let lanes = Lanes::new(source.clone(), piece, at_once, tasks);
                // What is short needs no more threads than it has pieces.
                let pieces = Pieces::new(source.clone(), parts.to_vec(), piece);
                let pieces = pieces.take(ring::MOST_THREADS).count();
                Together::Ring(
                    Ring::begin(source, lanes, at_once, pieces).at(NO_THREAD, source.folder())?,
                )
            }
            Some(uring @ (Strategy::IoUring | Strategy::IoUringDirect)) => {
                let lanes = Lanes::new(source.clone(), piece, at_once, tasks);
                match Flights::begin(source, lanes, at_once, uring.is_direct()) {
                    Ok(flights) => Together::Flights(Box::new(Mutex::new(flights))),
                    // It was granted a moment ago.
                    Err(why) => {
                        (reading.used, reading.why) = (Some(Strategy::Read), Some(why));
                        Together::Nothing
                    }
                }
            }
            _ => Together::Nothing,
        };
        Ok(Arc::new(Self {
            source: source.clone(),
            piece,
            together,
            reading,
            refused: OnceLock::new(),
            spare: Mutex::default(),
            owner: Process::current(),
        }))
    }

    /// The reader of a task: of one that was foreseen, perhaps with some of it read already, or of any other parts. Fewer
    /// tasks may be done than were foreseen, or some of them again.
    #[must_use]
    pub fn begin(self: &Arc<Self>, task: u64, parts: &[Range<i64>]) -> Reader {
        if self.has_lanes()
            && let Err(error) = self.owner.check()
        {
            self.instead(Strategy::Read, error.to_string());
        }
        let mut reading = self.reading.clone();
        if let Some((strategy, why)) = self.refused.get() {
            (reading.used, reading.why) = (Some(*strategy), Some(why.clone()));
        }
        let own = match &self.together {
            _ if self.refused.get().is_some() => self.own(reading.used),
            Together::Ring(ring) => Own::Lane(ring.begin_task(task, parts)),
            Together::Flights(flights) => Own::Lane(lock(flights).begin_task(task, parts)),
            _ => self.own(reading.used),
        };
        Reader::of(self, own, reading)
    }

    /// What a reader has for itself that reads by a strategy.
    pub(super) fn own(&self, strategy: Option<Strategy>) -> Own {
        let spare = || match self.spare.try_lock() {
            Ok(mut spare) => spare.pop(),
            Err(_) => None,
        };
        let files = || Files::new(&self.source);
        match strategy {
            Some(Strategy::Read) => match spare() {
                Some(own @ Own::Copy(..)) => own,
                _ => Own::Copy(files(), Pool::default()),
            },
            Some(Strategy::Readahead) => match spare() {
                Some(own @ Own::Twice(_)) => own,
                _ => Own::Twice(Ahead::new(files())),
            },
            Some(Strategy::Populate) => Own::Populate,
            _ => Own::Lent,
        }
    }

    pub(super) fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    pub(super) fn piece(&self) -> i64 {
        self.piece
    }

    /// Whether pieces are read ahead lane by lane.
    fn has_lanes(&self) -> bool {
        matches!(self.together, Together::Ring(_) | Together::Flights(_))
    }

    /// A reader asks for a piece that is mapped.
    pub(super) fn gives(&self, range: &Range<i64>, own: &mut Own) {
        match (&self.together, own) {
            (Together::Twice(wanted), Own::Twice(ahead)) => ahead.twice(range, wanted),
            (Together::All(all), _) => {
                let samples = (range.end - range.start).cast_unsigned();
                all.gave(range, samples * self.source.dtype().size() as u64);
            }
            _ => {}
        }
    }

    /// The samples of a range as they were read ahead in a lane, or, out of turn, at once.
    pub(super) fn take(&self, lane: u64, range: &Range<i64>) -> Result<Attempt, IoError> {
        if let Err(error) = self.owner.check() {
            return Ok(Attempt::Refused(error.to_string()));
        }
        match &self.together {
            Together::Flights(flights) => lock(flights).take(lane, range),
            Together::Ring(ring) => match ring.take(lane, range) {
                Some(read) => read,
                // Not the piece that was foreseen.
                None => {
                    let files = Files::new(&self.source);
                    Requests::new(files, true).read(range, &mut Pool::default())
                }
            },
            _ => Ok(Attempt::Refused("nothing reads ahead".into())),
        }
    }

    /// From now on by another strategy, which needs no preparation: whoever reads meets what one of them has met.
    pub(super) fn instead(&self, strategy: Strategy, why: String) {
        if self.refused.set((strategy, why)).is_err() || self.owner.check().is_err() {
            return;
        }
        match &self.together {
            Together::Ring(ring) => ring.stop(),
            Together::Flights(flights) => lock(flights).stop(),
            _ => {}
        }
    }

    /// A reader is done; what it had is the next one's.
    pub(super) fn end(&self, own: Own) {
        match own {
            Own::Lane(_) if self.owner.check().is_err() => {}
            Own::Lane(lane) => match &self.together {
                Together::Ring(ring) => ring.end_task(lane),
                Together::Flights(flights) => lock(flights).end_task(lane),
                _ => {}
            },
            // Of a process that was forked off the lock may be somebody's who is not there.
            Own::Copy(..) | Own::Twice(_) => {
                if let Ok(mut spare) = self.spare.try_lock() {
                    spare.push(own);
                }
            }
            Own::Lent | Own::Populate => {}
        }
    }
}

fn lock(flights: &Mutex<Flights>) -> MutexGuard<'_, Flights> {
    flights.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readers")
            .field("reading", &self.reading)
            .finish_non_exhaustive()
    }
}
