//! Pieces of a scan that the kernel reads ahead of it, several at once, without threads of ours.
//!
//! Whatever order the kernel answers in, pieces are handed out in the order of the scan: the oldest of a lane is waited for.
//! What the kernel could not read, or not to its end, is read by `pread` in its turn, so that errors are those of any other
//! read.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;

use rustix::io::Errno;

use super::files::Files;
use super::lanes::{DEEP, Lanes};
use super::pool::Pool;
use super::requests::{Attempt, Requests};
use super::uring::Reads;
use crate::error::IoError;
use crate::source::Source;

/// What became of asking for a piece.
#[derive(Debug)]
pub(super) enum Asked {
    /// Its number.
    Flying(usize),
    /// It cannot be asked for so, and why.
    Refused(String),
    Failed(IoError),
}

/// Reads the pieces of a scan ahead of it.
#[derive(Debug)]
pub(super) struct Flights {
    reads: Reads,
    requests: Requests,
    pool: Pool,
    lanes: Lanes<Asked>,
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
    /// Begins at once, for so many readers. `Err(why)`: the kernel does not grant it.
    pub(super) fn begin(
        source: &Arc<dyn Source>,
        lanes: Lanes<Asked>,
        readers: usize,
        direct: bool,
    ) -> Result<Self, String> {
        let mut flights = Self {
            reads: Reads::new().map_err(|error| why(&error))?,
            requests: Requests::new(Files::new(source), direct),
            pool: Pool::keeping(DEEP * readers),
            lanes,
        };
        flights.ask();
        Ok(flights)
    }

    /// A task begins; gives its lane.
    pub(super) fn begin_task(&mut self, number: u64, parts: &[Range<i64>]) -> u64 {
        let (lane, in_vain) = self.lanes.begin(number, parts);
        self.abandon(in_vain);
        self.ask();
        lane
    }

    /// A task is over.
    pub(super) fn end_task(&mut self, lane: u64) {
        let in_vain = self.lanes.end(lane);
        self.abandon(in_vain);
        self.ask();
    }

    /// Nothing is read ahead any more.
    pub(super) fn stop(&mut self) {
        let in_vain = self.lanes.stop();
        self.abandon(in_vain);
    }

    fn abandon(&mut self, in_vain: Vec<Asked>) {
        for asked in in_vain {
            if let Asked::Flying(number) = asked {
                self.reads.abandon(number);
            }
        }
    }

    /// Keeps the kernel busy.
    fn ask(&mut self) {
        let Self {
            reads,
            requests,
            pool,
            lanes,
        } = self;
        lanes.fill(|_, piece| {
            let asked = ask_for(reads, requests, pool, piece);
            asked.unwrap_or_else(Asked::Failed)
        });
    }

    /// The samples of a piece; out of turn they are read at once.
    pub(super) fn take(&mut self, lane: u64, piece: &Range<i64>) -> Result<Attempt, IoError> {
        let next = self.lanes.front(lane, piece).is_some();
        let asked = next.then(|| self.lanes.take(lane)).flatten();
        let read = match asked {
            Some(Asked::Flying(number)) => self.land(number),
            Some(Asked::Refused(why)) => Ok(Attempt::Refused(why)),
            Some(Asked::Failed(error)) => Err(error),
            None => self.requests.read(piece, &mut self.pool),
        };
        self.ask();
        read
    }

    fn land(&mut self, number: usize) -> Result<Attempt, IoError> {
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

fn ask_for(
    reads: &mut Reads,
    requests: &mut Requests,
    pool: &mut Pool,
    piece: &Range<i64>,
) -> Result<Asked, IoError> {
    let plan = match requests.plan(piece)? {
        Ok(plan) => plan,
        Err(why) => return Ok(Asked::Refused(why)),
    };
    let buffer = pool.take(plan.room())?;
    Ok(match reads.begin(plan, buffer) {
        Ok(number) => Asked::Flying(number),
        Err(error) => Asked::Refused(lost(&error)),
    })
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
