//! Pieces of a scan that the kernel reads ahead of it, several at once, without threads of ours.
//!
//! Whatever order the kernel answers in, pieces are handed out in the order of the scan: the oldest is waited for. What the
//! kernel could not read, or not to its end, is read by `pread` in its turn, so that errors are those of any other read.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::ops::Range;

use rustix::io::Errno;

use super::files::Files;
use super::pieces::Pieces;
use super::pool::Pool;
use super::requests::{Attempt, Requests};
use super::uring::Reads;
use crate::error::StoreError;
use crate::signal::Signal;

/// Pieces that are asked for, or read and not handed out yet.
const DEEP: usize = 4;

/// What became of asking for a piece.
#[derive(Debug)]
enum Asked {
    /// Its number.
    Flying(usize),
    /// It cannot be asked for so, and why.
    Refused(String),
    Failed(StoreError),
}

/// Reads the pieces of a scan ahead of it.
#[derive(Debug)]
pub(super) struct Flights {
    reads: Reads,
    requests: Requests,
    pool: Pool,
    ahead: Pieces,
    /// Oldest first.
    asked: VecDeque<(Range<i64>, Asked)>,
}

/// Why there are no flights here; None if there are.
pub(super) fn refused() -> Option<String> {
    Reads::new().err().map(|error| why(&error))
}

fn why(error: &io::Error) -> String {
    let mend = match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::ACCESS) => {
            "; the profile of a container may forbid it, or sysctl kernel.io_uring_disabled, which 0 allows"
        }
        Some(Errno::NOSYS | Errno::INVAL) => "; Linux from 5.6 has it",
        None if error.kind() == ErrorKind::Unsupported => "; Linux from 5.6 has it",
        Some(Errno::NOMEM) => "; before Linux 5.12 its memory counts as locked: raise `ulimit -l`",
        Some(Errno::MFILE) => "; raise `ulimit -n`",
        _ => "",
    };
    format!("the system grants no io_uring: {error}{mend}")
}

/// Why one that was granted is of no use any more.
fn lost(error: &io::Error) -> String {
    format!("its io_uring takes no requests any more: {error}")
}

impl Flights {
    /// `Err(why)`: the kernel does not grant it.
    pub(super) fn begin(signal: &Signal, ahead: Pieces, direct: bool) -> Result<Self, String> {
        let mut flights = Self {
            reads: Reads::new().map_err(|error| why(&error))?,
            requests: Requests::new(Files::new(signal.clone()), direct),
            pool: Pool::default(),
            ahead,
            asked: VecDeque::new(),
        };
        flights.ask();
        Ok(flights)
    }

    /// Keeps the kernel busy.
    fn ask(&mut self) {
        while self.asked.len() < DEEP {
            let asked = self.asked.iter().map(|(piece, _)| piece);
            let Some(piece) = self.ahead.next_beside(asked) else {
                return;
            };
            let asked = self.ask_for(&piece).unwrap_or_else(Asked::Failed);
            self.asked.push_back((piece, asked));
        }
    }

    fn ask_for(&mut self, piece: &Range<i64>) -> Result<Asked, StoreError> {
        let plan = match self.requests.plan(piece)? {
            Ok(plan) => plan,
            Err(why) => return Ok(Asked::Refused(why)),
        };
        let buffer = self.pool.take(plan.room())?;
        Ok(match self.reads.begin(plan, buffer) {
            Ok(number) => Asked::Flying(number),
            Err(error) => Asked::Refused(lost(&error)),
        })
    }

    /// The samples of a piece; out of turn they are read at once.
    pub(super) fn take(&mut self, piece: &Range<i64>) -> Result<Attempt, StoreError> {
        if self.asked.front().is_none_or(|(next, _)| next != piece) {
            return self.requests.read(piece, &mut self.pool);
        }
        let read = match self.asked.pop_front() {
            Some((_, Asked::Flying(number))) => self.land(number),
            Some((_, Asked::Refused(why))) => Ok(Attempt::Refused(why)),
            Some((_, Asked::Failed(error))) => Err(error),
            None => return self.requests.read(piece, &mut self.pool),
        };
        self.ask();
        read
    }

    fn land(&mut self, number: usize) -> Result<Attempt, StoreError> {
        let mut job = match self.reads.wait(number) {
            Ok(job) => job,
            Err(error) => return Ok(Attempt::Refused(lost(&error))),
        };
        for (part, got) in job.plan.parts.iter().zip(job.got) {
            if let Some(why) = part.complete(&mut job.buffer, got)? {
                return Ok(Attempt::Refused(why));
            }
        }
        let samples = job.plan.view(&job.buffer);
        self.pool.give(job.buffer);
        Ok(samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_would_mend_it() {
        for (errno, mend) in [
            (Errno::PERM, "kernel.io_uring_disabled"),
            (Errno::NOSYS, "Linux from 5.6"),
            (Errno::NOMEM, "`ulimit -l`"),
            (Errno::MFILE, "`ulimit -n`"),
        ] {
            let said = why(&errno.into());
            assert!(said.starts_with("the system grants no io_uring"), "{said}");
            assert!(said.contains(mend), "{said}");
        }
        assert!(why(&ErrorKind::Unsupported.into()).contains("Linux from 5.6"));
    }
}
