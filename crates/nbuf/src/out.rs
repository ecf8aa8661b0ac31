//! What a processor puts out, and the state *write*.
//!
//! What is put is staged until the buffer is executed, so that the turn at an output is short. If more is put than may be
//! staged, the worker takes its turn at all outputs right away, and keeps it until the buffer is executed: output of any
//! size goes through bounded memory, in the same order.

use std::fmt;
use std::time::{Duration, Instant};

use crate::error::{Cause, NbufError, Stopped};
use crate::turns::Turn;
use crate::writing::Sinks;

/// What a worker stages, kept from buffer to buffer.
#[derive(Default)]
pub(crate) struct Staged {
    outputs: Vec<Pieces>,
    /// Most bytes of memory for all of them.
    room: usize,
}

#[derive(Default)]
struct Pieces {
    /// The buffer itself comes first.
    block: bool,
    bytes: Vec<u8>,
    /// The two as they were before the record that is processed.
    mark: (bool, usize),
}

impl Pieces {
    fn clear(&mut self) {
        self.block = false;
        self.bytes.clear();
        self.mark = (false, 0);
    }
}

impl Staged {
    pub(crate) fn new(outputs: usize, room: usize) -> Self {
        Self {
            outputs: (0..outputs).map(|_| Pieces::default()).collect(),
            room,
        }
    }

    /// What may be staged. Where outputs share the room a little of it stays free, so that memory does not go back and
    /// forth between them when it is nearly full.
    fn limit(&self) -> usize {
        if self.outputs.len() > 1 {
            self.room - self.room / 64
        } else {
            self.room
        }
    }

    /// Makes room for more bytes of an output, within the room of all. False if the system has no memory.
    fn reserve(&mut self, output: usize, more: usize) -> bool {
        let bytes = &self.outputs[output].bytes;
        let needed = bytes.len() + more;
        if needed <= bytes.capacity() {
            return true;
        }
        let free = self.room - (self.held() - bytes.capacity()).min(self.room);
        let wanted = if needed <= free {
            needed.max(bytes.capacity().saturating_mul(2)).min(free)
        } else {
            // Others keep more than they use: each gets the same part of what is free.
            let used: usize = self.outputs.iter().map(|one| one.bytes.len()).sum();
            let each = self.room.saturating_sub(used + more) / self.outputs.len();
            for (_, other) in (0..).zip(&mut self.outputs).filter(|(at, _)| *at != output) {
                other.bytes.shrink_to(other.bytes.len() + each);
            }
            needed + each
        };
        let bytes = &mut self.outputs[output].bytes;
        bytes.try_reserve_exact(wanted - bytes.len()).is_ok()
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        self.outputs.iter().map(|one| one.bytes.capacity()).sum()
    }
}

/// The outputs, as the processing of one buffer sees them.
pub struct Out<'o> {
    sinks: &'o dyn Sinks,
    staged: &'o mut Staged,
    /// Turns that are held, of all outputs or none.
    held: Vec<Option<Turn<'o>>>,
    block: &'o [u8],
    place: Place,
    /// What may be staged, of all outputs together.
    limit: usize,
    used: usize,
    stopped: bool,
    pub(crate) waited: Duration,
    pub(crate) wrote: Duration,
}

/// Which buffer it is, for errors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) number: u64,
    pub(crate) offset: u64,
}

impl<'o> Out<'o> {
    pub(crate) fn new(
        sinks: &'o dyn Sinks,
        staged: &'o mut Staged,
        block: &'o [u8],
        place: Place,
    ) -> Self {
        let limit = staged.limit();
        Self {
            sinks,
            staged,
            held: Vec::new(),
            block,
            place,
            limit,
            used: 0,
            stopped: false,
            waited: Duration::ZERO,
            wrote: Duration::ZERO,
        }
    }

    /// How many outputs there are. With none, output is off, and what is put is dropped.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.sinks.count()
    }

    /// Whether so many bytes can be put without waiting for anybody.
    #[must_use]
    pub fn fits(&self, bytes: usize) -> bool {
        self.sinks.count() == 0
            || bytes + self.block.len() * usize::from(self.forwards()) <= self.limit - self.used
    }

    /// Whether the processor was told that nothing more is written.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether the buffer itself may have to be staged before what is put next.
    fn forwards(&self) -> bool {
        self.staged.outputs.iter().any(|pieces| pieces.block)
    }

    /// Writes bytes to an output, behind what was put there before.
    ///
    /// # Errors
    /// If nothing more is written: to be handed on. The run knows why.
    pub fn put(&mut self, output: usize, bytes: &[u8]) -> Result<(), Stopped> {
        if !self.is_open(output)? {
            return Ok(());
        }
        if std::mem::take(&mut self.staged.outputs[output].block) {
            let marked = self.staged.outputs[output].mark.0;
            self.stage(output, self.block)?;
            let pieces = &mut self.staged.outputs[output];
            pieces.mark = (false, if marked { pieces.bytes.len() } else { 0 });
        }
        self.stage(output, bytes)
    }

    /// A record begins: what is put from here on is taken back if it fails, as far as it was not written yet.
    pub fn mark(&mut self) {
        for pieces in &mut self.staged.outputs {
            pieces.mark = (pieces.block, pieces.bytes.len());
        }
    }

    /// Takes back what the record gave that is processed.
    pub(crate) fn take_back(&mut self) {
        for pieces in &mut self.staged.outputs {
            let (block, length) = pieces.mark;
            pieces.block &= block;
            self.used -= pieces.bytes.len().saturating_sub(length);
            pieces.bytes.truncate(length);
        }
    }

    /// Writes the whole buffer to an output, behind what was put there before.
    ///
    /// # Errors
    /// As of `put`.
    pub fn forward(&mut self, output: usize) -> Result<(), Stopped> {
        if !self.is_open(output)? {
            return Ok(());
        }
        let pieces = &mut self.staged.outputs[output];
        if pieces.block || !pieces.bytes.is_empty() || !self.held.is_empty() {
            return self.put(output, self.block);
        }
        pieces.block = true;
        Ok(())
    }

    /// Writes the whole buffer to every output.
    ///
    /// # Errors
    /// As of `put`.
    pub fn forward_to_all(&mut self) -> Result<(), Stopped> {
        (0..self.sinks.count()).try_for_each(|output| self.forward(output))
    }

    /// Whether an output takes bytes; not where output is off.
    fn is_open(&mut self, output: usize) -> Result<bool, Stopped> {
        if self.stopped {
            return Err(Stopped);
        }
        let outputs = self.sinks.count();
        if outputs > 0 && output >= outputs {
            let why: Cause =
                format!("there is no output {output}: give 0 to {}", outputs - 1).into();
            let length = self.block.len() as u64;
            let offset = self.place.offset;
            return Err(self.fail(Some(NbufError::Process {
                offset,
                length,
                why,
            })));
        }
        Ok(outputs > 0)
    }

    fn stage(&mut self, output: usize, bytes: &[u8]) -> Result<(), Stopped> {
        if self.limit - self.used < bytes.len() {
            self.hold()?;
            self.write_staged()?;
            if bytes.len() > self.limit {
                return self.timed(|out| out.sinks.put(output, bytes));
            }
        }
        if !self.staged.reserve(output, bytes.len()) {
            // Written now, it needs no memory.
            self.hold()?;
            self.write_staged()?;
            return self.timed(|out| out.sinks.put(output, bytes));
        }
        let pieces = &mut self.staged.outputs[output];
        pieces.bytes.extend_from_slice(bytes);
        self.used += bytes.len();
        Ok(())
    }

    /// Takes the turn at all outputs, in their order, so that two workers cannot wait for each other.
    fn hold(&mut self) -> Result<(), Stopped> {
        if !self.held.is_empty() {
            return Ok(());
        }
        let begun = Instant::now();
        let mut held = Vec::with_capacity(self.sinks.count());
        for output in 0..self.sinks.count() {
            match self.sinks.enter(output, self.place.number) {
                Some(turn) => held.push(Some(turn)),
                None => {
                    self.stopped = true;
                    return Err(Stopped);
                }
            }
        }
        self.waited += begun.elapsed();
        self.held = held;
        Ok(())
    }

    fn write_staged(&mut self) -> Result<(), Stopped> {
        for output in 0..self.staged.outputs.len() {
            self.write_one(output)?;
        }
        self.used = 0;
        Ok(())
    }

    /// Writes what is staged for one output, whose turn this worker has.
    fn write_one(&mut self, output: usize) -> Result<(), Stopped> {
        self.timed(|out| {
            let pieces = &mut out.staged.outputs[output];
            if std::mem::take(&mut pieces.block) {
                out.sinks.put(output, out.block)?;
            }
            out.sinks.put(output, &pieces.bytes)?;
            out.used -= pieces.bytes.len();
            pieces.clear();
            Ok(())
        })
    }

    fn timed(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), Option<NbufError>>,
    ) -> Result<(), Stopped> {
        let begun = Instant::now();
        let wrote = write(self);
        self.wrote += begun.elapsed();
        wrote.map_err(|error| self.fail(error))
    }

    fn fail(&mut self, error: Option<NbufError>) -> Stopped {
        self.stopped = true;
        if let Some(error) = error {
            self.sinks.fail(self.place.number, error);
        }
        Stopped
    }

    /// The processor has put all that it puts in this call. Turns that come as workers come are given up here: whoever
    /// holds one must not wait for a turn in stream order.
    pub(crate) fn release(&mut self) -> Result<(), Stopped> {
        if self.stopped {
            return Err(Stopped);
        }
        if !self.held.is_empty() && !self.sinks.in_turn() {
            self.write_staged()?;
            self.held.clear();
        }
        Ok(())
    }

    /// Writes what is staged, and behind it for output 0 what the processor lends.
    pub(crate) fn finish(&mut self, lent: [&[u8]; 2]) -> Result<(), Stopped> {
        for output in 0..self.sinks.count() {
            let lent = if output == 0 { lent } else { [&[][..]; 2] };
            let pieces = &self.staged.outputs[output];
            let empty = !pieces.block
                && pieces.bytes.is_empty()
                && lent.iter().all(|bytes| bytes.is_empty());
            if empty && !self.sinks.in_turn() {
                continue;
            }
            let held = self.held.get_mut(output).and_then(Option::take);
            let turn = match held {
                Some(turn) => Some(turn),
                None => {
                    let begun = Instant::now();
                    let turn = self.sinks.enter(output, self.place.number);
                    self.waited += begun.elapsed();
                    turn
                }
            };
            let Some(_turn) = turn else {
                self.stopped = true;
                return Err(Stopped);
            };
            self.write_one(output)?;
            self.timed(|out| {
                let mut lent = lent.iter();
                lent.try_for_each(|bytes| out.sinks.put(output, bytes))
            })?;
        }
        Ok(())
    }
}

impl Drop for Out<'_> {
    /// What was not written of this buffer must not be written with the next.
    fn drop(&mut self) {
        self.staged.outputs.iter_mut().for_each(Pieces::clear);
    }
}

impl fmt::Debug for Out<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Out")
            .field("outputs", &self.outputs())
            .field("buffer", &self.place.number)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_for_what_is_staged_stays_within_its_room() {
        const ROOM: usize = 64_000;
        for outputs in [1, 2, 7] {
            let mut staged = Staged::new(outputs, ROOM);
            // Whole buffers for one output, then for another, then for all.
            for turn in 0..3 * outputs {
                let mut used = 0;
                let (mut at, mut grown) = (turn, 0);
                while used + 10 <= staged.limit() {
                    let output = at % outputs;
                    let before = staged.outputs[output].bytes.capacity();
                    assert!(staged.reserve(output, 10));
                    let bytes = &mut staged.outputs[output].bytes;
                    grown += usize::from(bytes.capacity() != before);
                    bytes.extend_from_slice(&[7; 10]);
                    assert!(staged.held() <= ROOM, "{} bytes", staged.held());
                    used += 10;
                    at += usize::from(turn >= 2 * outputs);
                }
                assert!(grown < 40 * outputs, "{grown} times for {outputs} outputs");
                for one in &mut staged.outputs {
                    one.bytes.clear();
                }
            }
        }
    }
}
