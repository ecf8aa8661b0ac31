//! Reads in flight: the one place that shares memory with the kernel through an io_uring.
//!
//! From when a read is handed to the kernel until it says that it is done, the kernel writes to the buffer whenever it
//! likes. So [`Reads`] owns buffer and file meanwhile, nobody else has a view of them, and it does not go away before the
//! kernel has answered; where that cannot be waited for, it leaves the memory to the kernel for good.
//!
//! A process that was forked off has a copy of the buffers, but the ring is the same one, and the answers are its parent's:
//! it touches neither, and gives nothing back.
#![allow(unsafe_code)] // The kernel is given addresses; nothing else in this crate is.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::time::Duration;

use io_uring::{IoUring, Probe, opcode, squeue, types};
use isochrony_segment::Buffer;

use super::requests::Plan;
use crate::system::Process;

#[cfg(test)]
mod tests;

/// Requests that the kernel has at once; of a piece with more parts the rest wait.
const ENTRIES: u32 = 16;

/// Most bytes of one request: what the kernel reads at a time.
const LONGEST: usize = 0x7fff_f000;

/// How often the kernel may be short of memory for a request before that is an error; a millisecond each.
const SHORTAGES: u32 = 2_000;

/// A piece that is read.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) plan: Plan,
    /// Nobody else may hold a view of it.
    pub(super) buffer: Buffer,
    /// Bytes that each part got, by now; 0 of one that failed.
    pub(super) got: Vec<usize>,
}

#[derive(Debug)]
struct Flying {
    job: Job,
    /// Parts that the kernel has not answered yet.
    left: usize,
    /// Nobody waits for it.
    abandoned: bool,
}

/// Reads that the kernel works at.
pub(super) struct Reads {
    ring: ManuallyDrop<IoUring>,
    /// By number, as begun; None: the number is free.
    jobs: ManuallyDrop<Vec<Option<Flying>>>,
    /// What waits for room in the ring.
    queued: VecDeque<squeue::Entry>,
    /// Requests in the ring that the kernel has not taken yet.
    offered: usize,
    /// Requests that it has taken and not answered.
    flying: usize,
    owner: Process,
}

impl Reads {
    /// `Err`: the kernel has no io_uring, or does not grant it.
    pub(super) fn new() -> io::Result<Self> {
        // A process that was forked off has no memory there: what it did to it, it would do to ours.
        let mut ring = IoUring::builder().dontfork().build(ENTRIES)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) {
            return Err(io::Error::from(ErrorKind::Unsupported));
        }
        try_out(&mut ring)?;
        Ok(Self {
            ring: ManuallyDrop::new(ring),
            jobs: ManuallyDrop::new(Vec::new()),
            queued: VecDeque::new(),
            offered: 0,
            flying: 0,
            owner: Process::current(),
        })
    }

    /// Hands a piece to the kernel; gives the number to wait for. `Err`: nothing works any more.
    pub(super) fn begin(&mut self, plan: Plan, buffer: Buffer) -> io::Result<usize> {
        self.owner.check()?;
        // So that what nobody waits for makes room also while nobody waits for anything.
        self.reap();
        let free = self.jobs.iter().position(Option::is_none);
        let number = free.unwrap_or_else(|| {
            self.jobs.push(None);
            self.jobs.len() - 1
        });
        let mut job = Job {
            got: vec![0; plan.parts.len()],
            plan,
            buffer,
        };
        // What cannot be asked for is left to whoever waits for it.
        let entries = entries(&mut job, number).unwrap_or_default();
        let left = entries.len();
        // From here on nobody looks at the memory until the kernel has answered.
        self.jobs[number] = Some(Flying {
            job,
            left,
            abandoned: false,
        });
        self.queued.extend(entries);
        self.fill();
        match self.enter(0) {
            Ok(()) => Ok(number),
            // Who waits submits again.
            Err(error) if passes(&error) => Ok(number),
            Err(error) => Err(error),
        }
    }

    /// Waits until the kernel has answered all parts of a piece. `Err`: nothing works any more, or there is no such piece.
    pub(super) fn wait(&mut self, number: usize) -> io::Result<Job> {
        self.owner.check()?;
        let mut short = 0;
        loop {
            self.reap();
            let slot = self.jobs.get_mut(number);
            match slot {
                Some(slot) if slot.as_ref().is_some_and(|flying| flying.left == 0) => {
                    let done = slot.take();
                    return done.map(|done| done.job).ok_or(ErrorKind::NotFound.into());
                }
                Some(Some(_)) => {}
                _ => return Err(ErrorKind::NotFound.into()),
            }
            self.fill();
            if self.flying + self.offered == 0 {
                // There is no answer to wait for.
                return Err(io::Error::other("a request was lost"));
            }
            match self.enter(1) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if passes(&error) && short < SHORTAGES => {
                    short += 1;
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Nobody will wait for a piece: its memory is let go of when the kernel has answered those of its parts that it was given.
    pub(super) fn abandon(&mut self, number: usize) {
        if self.owner.check().is_err() {
            return;
        }
        let before = self.queued.len();
        (self.queued).retain(|entry| which(entry.get_user_data()).0 != number);
        let kept = before - self.queued.len();
        if let Some(slot) = self.jobs.get_mut(number) {
            match slot {
                Some(flying) if flying.left > kept => {
                    flying.left -= kept;
                    flying.abandoned = true;
                }
                _ => *slot = None,
            }
        }
    }

    /// Puts what waits into the ring, as far as there is room.
    fn fill(&mut self) {
        while self.flying + self.offered < ENTRIES as usize {
            let Some(entry) = self.queued.pop_front() else {
                return;
            };
            // SAFETY: the entry names memory within a buffer that only its job holds, and a file that is open. Job and
            // file stay in `jobs` until the kernel has answered: `wait` gives a job away and `reap` drops one with
            // `left == 0` only, `abandon` one none of whose entries was pushed or which has its answers, and `drop`
            // waits for all, or forgets `jobs` and the ring.
            match unsafe { self.ring.submission().push(&entry) } {
                Ok(()) => self.offered += 1,
                Err(_full) => {
                    self.queued.push_front(entry);
                    return;
                }
            }
        }
    }

    /// Has the kernel take what is in the ring, and waits for so many answers. `Err`: it has taken nothing.
    fn enter(&mut self, answers: usize) -> io::Result<()> {
        let taken = self.ring.submit_and_wait(answers)?.min(self.offered);
        self.offered -= taken;
        self.flying += taken;
        Ok(())
    }

    /// Takes the kernel's answers.
    fn reap(&mut self) {
        for answer in self.ring.completion() {
            let (number, part) = which(answer.user_data());
            let result = answer.result();
            self.flying -= 1;
            if let Some(flying) = self.jobs[number].as_mut() {
                // What failed, or was cancelled because its thread ended, is read again by who waits, and fails there.
                flying.job.got[part] = usize::try_from(result).unwrap_or(0);
                flying.left -= 1;
                if flying.left == 0 && flying.abandoned {
                    self.jobs[number] = None;
                }
            }
        }
    }
}

/// Piece and part that a request is of.
fn which(request: u64) -> (usize, usize) {
    ((request >> 32) as usize, (request & 0xffff_ffff) as usize)
}

/// Has the kernel do nothing: some grant a ring and refuse all requests.
fn try_out(ring: &mut IoUring) -> io::Result<()> {
    let nothing = opcode::Nop::new().build();
    // SAFETY: the request names neither memory nor a file.
    unsafe { ring.submission().push(&nothing) }.map_err(io::Error::other)?;
    while let Err(error) = ring.submit_and_wait(1) {
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
    match ring.completion().next() {
        Some(_) => Ok(()),
        None => Err(io::Error::other("a request to do nothing was not answered")),
    }
}

/// The requests for the parts of a piece; None if its memory is not there, or somebody looks at it.
///
/// All at once, before the kernel has any of them: a view of the whole memory, however short, is none to have while the
/// kernel writes to some of it.
fn entries(job: &mut Job, number: usize) -> Option<Vec<squeue::Entry>> {
    let Job { plan, buffer, .. } = job;
    let places: Vec<usize> = (plan.parts.iter()).map(|part| part.place(buffer)).collect();
    let memory = buffer.get_mut()?;
    let (begin, len) = (memory.as_mut_ptr(), memory.len());
    let entry = |(part, from): (usize, usize)| {
        let which = (number as u64) << 32 | part as u64;
        let part = &plan.parts[part];
        if from.checked_add(part.ask)? > len {
            return None;
        }
        let file = types::Fd(part.file.as_raw_fd());
        let ask = part.ask.min(LONGEST) as u32;
        let read = opcode::Read::new(file, begin.wrapping_add(from), ask);
        Some(read.offset(part.offset).build().user_data(which))
    };
    places.into_iter().enumerate().map(entry).collect()
}

/// Whether an error of the kernel's passes by itself.
fn passes(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::ResourceBusy
    )
}

impl Drop for Reads {
    fn drop(&mut self) {
        if self.owner.check().is_err() {
            return;
        }
        let mut short = 0;
        while self.flying > 0 {
            self.reap();
            if self.flying == 0 {
                break;
            }
            match self.enter(1) {
                Ok(()) => {}
                // Answers come without being asked for, too.
                Err(_) if short < SHORTAGES => {
                    short += 1;
                    std::thread::sleep(Duration::from_millis(1));
                }
                // The kernel may write to this memory still: it is never used again.
                Err(_) => return,
            }
        }
        // SAFETY: neither is used afterwards, since this is their owner's end. Memory and files may go away because the
        // kernel has answered all that it has taken (`flying == 0`), and the rest was never handed over: what is in the
        // ring goes away with it, and it is this process that made the ring, so that there is no other use of it.
        unsafe {
            ManuallyDrop::drop(&mut self.ring);
            ManuallyDrop::drop(&mut self.jobs);
        }
    }
}

impl std::fmt::Debug for Reads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reads")
            .field("flying", &self.flying)
            .field("offered", &self.offered)
            .field("queued", &self.queued.len())
            .finish_non_exhaustive()
    }
}
