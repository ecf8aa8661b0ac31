//! Reading parts of a source, piece by piece, by a strategy.

use std::ops::Range;
use std::sync::Arc;

use isochrony_segment::{Buffer, SigSeg};

use super::Strategy;
use super::ahead::{Ahead, populate};
use super::files::Files;
use super::pieces::next_piece;
use super::pool::Pool;
use super::readers::Readers;
use super::reading::Reading;
use super::requests::{Attempt, holds};
use crate::error::{At, IoError};
use crate::source::Source;

/// What a reader has for itself.
#[derive(Debug)]
pub(super) enum Own {
    /// Nothing: samples are as the store gives them, mapped or decoded.
    Lent,
    Twice(Ahead),
    Populate,
    Copy(Files, Pool),
    /// Its place among what is read ahead of all readers.
    Lane(u64),
}

/// Reads parts of a source in pieces, by a strategy; the samples are the same by each.
#[derive(Debug)]
pub struct Reader {
    readers: Arc<Readers>,
    own: Own,
    reading: Reading,
}

impl Reader {
    /// A reader of parts of a source, which will be asked for the pieces of each stretch between gaps, in order, of at most
    /// `piece` samples and a short end ([`next_piece`](Self::next_piece)). Other ranges may be asked for, only nothing is read
    /// ahead for them.
    ///
    /// # Errors
    /// [`IoError::System`] if a thread cannot be had.
    pub fn new(
        source: &Arc<dyn Source>,
        parts: &[Range<i64>],
        piece: i64,
        strategy: Strategy,
    ) -> Result<Self, IoError> {
        let alone = Box::new(std::iter::once(parts.to_vec()));
        let readers = Readers::new(source, parts, piece, strategy, 1, alone)?;
        Ok(readers.begin(0, parts))
    }

    pub(super) fn of(readers: &Arc<Readers>, own: Own, reading: Reading) -> Self {
        Self {
            readers: readers.clone(),
            own,
            reading,
        }
    }

    /// How it reads.
    #[must_use]
    pub fn reading(&self) -> &Reading {
        &self.reading
    }

    /// The next piece of what is left of a stretch.
    #[must_use]
    pub fn next_piece(&self, rest: &Range<i64>) -> Range<i64> {
        next_piece(rest, self.readers.piece())
    }

    /// The samples of a gap-free range within one run.
    ///
    /// # Errors
    /// [`IoError::MissingSamples`], [`IoError::System`], or those of the source.
    pub fn read(&mut self, range: Range<i64>) -> Result<SigSeg, IoError> {
        let source = self.readers.source();
        if range.is_empty() || !source.can_read(&range) {
            return source.read(range).map_err(IoError::Source);
        }
        let copied = match &mut self.own {
            Own::Lent | Own::Twice(_) => {
                self.readers.gives(&range, &mut self.own);
                None
            }
            Own::Populate => {
                self.readers.gives(&range, &mut self.own);
                // What a thread has filled ahead of it takes a look at the page tables.
                let segment = source.read(range).map_err(IoError::Source)?;
                if !populate(&segment) {
                    let why = "the system cannot fill page tables on request (Linux from 5.14 can)";
                    self.instead(Strategy::Mmap, why.into());
                }
                return Ok(segment);
            }
            Own::Copy(files, pool) => copy(files, pool, &range)?,
            Own::Lane(lane) => match self.readers.take(*lane, &range)? {
                Attempt::Read(buffer) => Some(buffer),
                Attempt::Refused(why) => {
                    self.instead(Strategy::Read, why);
                    return self.read(range);
                }
            },
        };
        let source = self.readers.source();
        match copied {
            Some(buffer) => Ok(SigSeg::new(
                buffer,
                range.start,
                source.dtype(),
                source.stream(),
            )?),
            None => source.read(range).map_err(IoError::Source),
        }
    }

    /// From now on by another strategy, which needs no preparation.
    fn instead(&mut self, strategy: Strategy, why: String) {
        self.readers.instead(strategy, why.clone());
        let instead = self.readers.own(Some(strategy));
        self.readers.end(std::mem::replace(&mut self.own, instead));
        (self.reading.used, self.reading.why) = (Some(strategy), Some(why));
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.readers
            .end(std::mem::replace(&mut self.own, Own::Lent));
    }
}

/// The samples of a range in a buffer of its own; None if a shard must be decoded.
fn copy(files: &mut Files, pool: &mut Pool, range: &Range<i64>) -> Result<Option<Buffer>, IoError> {
    let size = files.source().dtype().size() as u64;
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
        let have = shard.read_at(span.offset, room).at("read", shard.path())?;
        if have < room.len() {
            return Err(IoError::MissingSamples {
                path: shard.path().to_owned(),
                have: holds(shard.len(), span.offset + have as u64),
                need: span.offset + span.len,
            });
        }
        at += room.len();
    }
    let view = buffer.slice(0..len);
    pool.give(buffer);
    Ok(view)
}
