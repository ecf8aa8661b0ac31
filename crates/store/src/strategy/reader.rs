//! Reading parts of a signal, piece by piece, by a strategy.

use std::fmt;
use std::ops::Range;

use isochrony_segment::{Buffer, SigSeg};

use super::ahead::{Ahead, AllAhead};
use super::files::Files;
use super::flights::{self, Flights};
use super::pieces::Pieces;
use super::pool::Pool;
use super::requests::{Attempt, Requests, holds};
use super::ring::Ring;
use super::{Strategy, system};
use crate::error::StoreError;
use crate::selection::Stretch;
use crate::signal::Signal;

/// How a signal is read: what was asked for, what is done, and why where these differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Name of the signal.
    pub signal: String,
    /// What was asked for.
    pub asked: Strategy,
    /// What is done; None where chunks are decoded, to which no strategy applies.
    pub used: Option<Strategy>,
    /// Why it is not what was asked for.
    pub why: Option<String>,
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            signal,
            asked,
            used,
            why,
        } = self;
        let why = why.as_deref().unwrap_or("no reason known");
        match used {
            Some(used) if used == asked => write!(f, "{signal}: {used}"),
            Some(used) => write!(f, "{signal}: {used} instead of {asked}: {why}"),
            None => write!(f, "{signal}: decoded, {asked} does not apply: {why}"),
        }
    }
}

#[derive(Debug)]
enum Way {
    /// As the store gives them: mapped, or decoded.
    Lent,
    Twice(Ahead),
    All(AllAhead),
    Populate,
    Copy(Files, Pool),
    Ring(Ring),
    Flights(Box<Flights>),
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
pub struct SignalReader {
    signal: Signal,
    way: Way,
    reading: Reading,
}

impl SignalReader {
    /// A reader of parts of a signal, which will be asked for pieces of at most `piece` samples of each stretch between
    /// gaps, in order. Other ranges may be asked for, only nothing is read ahead for them.
    ///
    /// # Errors
    /// [`StoreError::Io`] if a thread cannot be had.
    pub fn new(
        signal: &Signal,
        parts: &[Stretch],
        piece: i64,
        strategy: Strategy,
    ) -> Result<Self, StoreError> {
        let mut reading = Reading::foresee(signal, parts, strategy);
        let files = || Files::new(signal.clone());
        let pieces = |piece| Pieces::new(signal.clone(), parts.to_vec(), piece);
        let no_thread = |source| StoreError::Io {
            action: "begin a thread that reads",
            path: signal.shared().backend.path().to_owned(),
            source,
        };
        let way = match reading.used {
            None | Some(Strategy::Mmap) => Way::Lent,
            Some(Strategy::Read) => Way::Copy(files(), Pool::default()),
            Some(Strategy::Readahead) => Way::Twice(Ahead::new(files())),
            Some(Strategy::ReadaheadAll) => {
                Way::All(AllAhead::begin(files(), pieces(piece)).map_err(no_thread)?)
            }
            Some(Strategy::Populate) => Way::Populate,
            Some(Strategy::Direct) => {
                Way::Ring(Ring::begin(signal, pieces(piece)).map_err(no_thread)?)
            }
            Some(uring @ (Strategy::IoUring | Strategy::IoUringDirect)) => {
                match Flights::begin(signal, pieces(piece), uring.is_direct()) {
                    Ok(flights) => Way::Flights(Box::new(flights)),
                    // It was granted a moment ago.
                    Err(why) => {
                        reading.used = Some(Strategy::Read);
                        reading.why = Some(why);
                        Way::Copy(files(), Pool::default())
                    }
                }
            }
        };
        Ok(Self {
            signal: signal.clone(),
            way,
            reading,
        })
    }

    /// How it reads.
    #[must_use]
    pub fn reading(&self) -> &Reading {
        &self.reading
    }

    /// The samples of a gap-free range within one run.
    ///
    /// # Errors
    /// [`StoreError::MissingSamples`], [`StoreError::DamagedFile`], [`StoreError::Closed`], or what the system says.
    pub fn read(&mut self, range: Range<i64>) -> Result<SigSeg, StoreError> {
        let signal = &self.signal;
        if range.is_empty() || !signal.has_indices(&range) || signal.shared().backend.is_closed() {
            return signal.read(range);
        }
        let mut refused = None;
        let copied = match &mut self.way {
            Way::Lent => None,
            Way::Twice(ahead) => {
                ahead.twice(&range);
                None
            }
            Way::All(all) => {
                let bytes =
                    (range.end - range.start).cast_unsigned() * signal.dtype().size() as u64;
                all.gave(bytes);
                None
            }
            Way::Populate => {
                let segment = signal.read(range)?;
                if !populated(&segment) {
                    let why = "the system cannot fill page tables on request (Linux from 5.14 can)";
                    self.instead(Strategy::Mmap, why.into());
                }
                return Ok(segment);
            }
            Way::Copy(files, pool) => copy(files, pool, &range)?,
            Way::Ring(_) | Way::Flights(_) => match self.past_mapping(&range)? {
                Attempt::Read(buffer) => Some(buffer),
                Attempt::Refused(why) => {
                    refused = Some(why);
                    None
                }
            },
        };
        if let Some(why) = refused {
            self.instead(Strategy::Read, why);
            return self.read(range);
        }
        match copied {
            Some(buffer) => Ok(SigSeg::new(
                buffer,
                range.start,
                self.signal.dtype(),
                self.signal.stream(),
            )?),
            None => self.signal.read(range),
        }
    }

    /// The samples of a range as a ring has read them ahead, or, out of turn, at once.
    fn past_mapping(&mut self, range: &Range<i64>) -> Result<Attempt, StoreError> {
        match &mut self.way {
            Way::Flights(flights) => flights.take(range),
            Way::Ring(ring) => match ring.take(range) {
                Some(read) => read,
                // Not the piece that was foreseen.
                None => {
                    let files = Files::new(self.signal.clone());
                    Requests::new(files, true).read(range, &mut Pool::default())
                }
            },
            _ => Ok(Attempt::Refused("nothing reads ahead".into())),
        }
    }

    /// From now on by another strategy, which needs no preparation.
    fn instead(&mut self, strategy: Strategy, why: String) {
        self.way = match strategy {
            Strategy::Read => Way::Copy(Files::new(self.signal.clone()), Pool::default()),
            _ => Way::Lent,
        };
        self.reading.used = Some(strategy);
        self.reading.why = Some(why);
    }
}

impl Reading {
    /// How parts of a signal would be read by a strategy, as far as that can be told without reading them.
    #[must_use]
    pub fn foresee(signal: &Signal, parts: &[Stretch], asked: Strategy) -> Self {
        let (used, why) = foreseen(signal, parts, asked);
        Self {
            signal: signal.name().into(),
            asked,
            used,
            why,
        }
    }
}

fn foreseen(
    signal: &Signal,
    parts: &[Stretch],
    asked: Strategy,
) -> (Option<Strategy>, Option<String>) {
    if !signal.codec().is_empty() {
        let why = format!("the signal is sealed with {}", signal.codec());
        return (None, Some(why));
    }
    let backend = &signal.shared().backend;
    let Some(first) = Pieces::new(signal.clone(), parts.to_vec(), 1).next() else {
        return (Some(asked), None);
    };
    let mut files = Files::new(signal.clone());
    let file = files.spans(&first).next().map(|span| files.shard(&span));
    match file {
        Some(Ok(None)) => return (None, Some("another program wrote its shards".into())),
        Some(Ok(Some(shard))) if asked != Strategy::Read => {
            if shard.file.as_os_file().is_none() {
                let why = "it lies on no disk that could be mapped";
                return (Some(Strategy::Read), Some(why.into()));
            }
            if let Ok(Some(network)) = backend.media().network(&shard.path) {
                let why = format!("files on {network} are not mapped");
                return (Some(Strategy::Read), Some(why));
            }
        }
        // Reading tells what is wrong.
        _ => {}
    }
    if asked.is_direct()
        && let Some(why) = Requests::new(files, true).refuses(&first)
    {
        return (Some(Strategy::Read), Some(why));
    }
    if asked.is_uring()
        && let Some(why) = flights::refused()
    {
        return (Some(asked.without_uring()), Some(why));
    }
    (Some(asked), None)
}

/// Whether the system filled the page tables of a segment.
fn populated(segment: &SigSeg) -> bool {
    // A page that cannot be read is a fault to come, with its own error.
    let filled = |buffer: &Buffer| system::populate(buffer).unwrap_or(true);
    segment.buffers().all(filled)
}

/// The samples of a range in a buffer of its own; None if a shard must be decoded.
fn copy(
    files: &mut Files,
    pool: &mut Pool,
    range: &Range<i64>,
) -> Result<Option<Buffer>, StoreError> {
    let size = files.signal().dtype().size() as u64;
    let bytes = (range.end - range.start).cast_unsigned() * size;
    let Ok(len) = usize::try_from(bytes) else {
        return Ok(None);
    };
    let mut buffer = pool.take(len)?;
    let Some(memory) = buffer.get_mut() else {
        return Ok(None);
    };
    let mut at = 0;
    for span in files.spans(range) {
        let Some(shard) = files.shard(&span)? else {
            return Ok(None);
        };
        let room = &mut memory[at..at + span.len as usize];
        let have = shard.file.read_at(span.offset, room);
        let have = have.map_err(|error| crate::engine::io::failed(error, "read", &shard.path))?;
        if have < room.len() {
            return Err(StoreError::MissingSamples {
                path: shard.path,
                have: holds(shard.file.len(), span.offset + have as u64),
                need: span.offset + span.len,
            });
        }
        at += room.len();
    }
    let view = buffer.slice(0..len);
    pool.give(buffer);
    Ok(view)
}
