//! Reads in flight: the one place that shares memory with the kernel through an io_uring.
//!
//! From when a read is handed to the kernel until it says that it is done, the kernel writes to the buffer whenever it
//! likes. So [`Reads`] owns buffer and file meanwhile, nobody else has a view of them, and it does not go away before the
//! kernel has answered; where that cannot be waited for, it leaves the memory to the kernel for good.
#![allow(unsafe_code)] // The kernel is given addresses; nothing else in this crate is.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::time::Duration;

use io_uring::{IoUring, Probe, opcode, types};
use isochrony_segment::Buffer;

use super::requests::{Part, Plan};

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
}

/// Reads that the kernel works at.
pub(super) struct Reads {
    ring: ManuallyDrop<IoUring>,
    /// By number, as begun; None: the number is free.
    jobs: ManuallyDrop<Vec<Option<Flying>>>,
    /// Job and part of what waits for room in the ring.
    queued: VecDeque<(usize, usize)>,
    /// Requests in the ring that are not answered.
    flying: usize,
}

impl Reads {
    /// `Err`: the kernel has no io_uring, or does not grant it.
    pub(super) fn new() -> io::Result<Self> {
        let ring = IoUring::new(ENTRIES)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) {
            return Err(io::Error::from(ErrorKind::Unsupported));
        }
        Ok(Self {
            ring: ManuallyDrop::new(ring),
            jobs: ManuallyDrop::new(Vec::new()),
            queued: VecDeque::new(),
            flying: 0,
        })
    }

    /// Hands a piece to the kernel; gives the number to wait for. `Err`: nothing works any more.
    pub(super) fn begin(&mut self, plan: Plan, buffer: Buffer) -> io::Result<usize> {
        let parts = plan.parts.len();
        let flying = Flying {
            job: Job {
                got: vec![0; parts],
                plan,
                buffer,
            },
            left: parts,
        };
        let free = self.jobs.iter().position(Option::is_none);
        let number = free.unwrap_or_else(|| {
            self.jobs.push(None);
            self.jobs.len() - 1
        });
        self.jobs[number] = Some(flying);
        self.queued.extend((0..parts).map(|part| (number, part)));
        self.fill();
        match self.ring.submit() {
            Ok(_) => Ok(number),
            // Who waits submits again.
            Err(error) if passes(&error) => Ok(number),
            Err(error) => Err(error),
        }
    }

    /// Waits until the kernel has answered all parts of a piece. `Err`: nothing works any more, or there is no such piece.
    pub(super) fn wait(&mut self, number: usize) -> io::Result<Job> {
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
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if passes(&error) && short < SHORTAGES => {
                    short += 1;
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Puts what waits into the ring, as far as there is room.
    fn fill(&mut self) {
        while self.flying < ENTRIES as usize {
            let Some((number, part)) = self.queued.pop_front() else {
                return;
            };
            let entry = self.jobs[number]
                .as_mut()
                .and_then(|flying| entry(&mut flying.job, part));
            let Some(entry) = entry else {
                // Left to whoever waits for it.
                self.answer(number);
                continue;
            };
            let entry = entry.user_data((number as u64) << 32 | part as u64);
            // SAFETY: the entry names memory within a buffer that only its job holds, and a file that is open. Job and
            // file stay in `jobs` until the kernel has answered: `wait` gives a job away with `left == 0` only, and
            // `drop` waits for all, or forgets `jobs` and the ring.
            match unsafe { self.ring.submission().push(&entry) } {
                Ok(()) => self.flying += 1,
                Err(_full) => {
                    self.queued.push_front((number, part));
                    return;
                }
            }
        }
    }

    /// Takes the kernel's answers.
    fn reap(&mut self) {
        let answers: Vec<(u64, i32)> = (self.ring.completion())
            .map(|answer| (answer.user_data(), answer.result()))
            .collect();
        for (which, result) in answers {
            let (number, part) = ((which >> 32) as usize, (which & 0xffff_ffff) as usize);
            self.flying -= 1;
            if let Some(flying) = self.jobs[number].as_mut() {
                // What failed, or was cancelled because its thread ended, is read again by who waits, and fails there.
                flying.job.got[part] = usize::try_from(result).unwrap_or(0);
            }
            self.answer(number);
        }
    }

    /// One part less to wait for.
    fn answer(&mut self, number: usize) {
        if let Some(flying) = self.jobs[number].as_mut() {
            flying.left -= 1;
        }
    }
}

/// The request for a part of a piece; None if its memory is not there, or somebody looks at it.
fn entry(job: &mut Job, part: usize) -> Option<io_uring::squeue::Entry> {
    let part: &Part = &job.plan.parts[part];
    let from = part.place(&job.buffer);
    let memory = job.buffer.get_mut()?.get_mut(from..from + part.ask)?;
    let len = memory.len().min(LONGEST) as u32;
    let file = types::Fd(part.file.as_raw_fd());
    let read = opcode::Read::new(file, memory.as_mut_ptr(), len);
    Some(read.offset(part.offset).build())
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
        self.queued.clear();
        let mut short = 0;
        while self.flying > 0 {
            self.reap();
            if self.flying == 0 {
                break;
            }
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if passes(&error) && short < SHORTAGES => {
                    short += 1;
                    std::thread::sleep(Duration::from_millis(1));
                }
                // The kernel may write to this memory still: it is never used again.
                Err(_) => return,
            }
        }
        // SAFETY: neither is used afterwards, since this is their owner's end.
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
            .field("queued", &self.queued)
            .finish_non_exhaustive()
    }
}
