//! `ReadRing`: file reads in flight through an io_uring. The only module that shares memory with the kernel.
//!
//! The kernel may write to a buffer from submission to completion. So [`ReadRing`] owns buffer and file until then,
//! without other views, and outlives all requests in flight; if it cannot wait, it leaks their memory.
//!
//! A forked process copies the buffers but shares the ring, whose completions it would steal: it touches and frees
//! neither.
#![allow(unsafe_code)] // The kernel is given addresses of buffers.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::time::Duration;

use io_uring::{IoUring, Probe, opcode, squeue, types};
use isochrony_segment::Buffer;

use crate::scan::PieceRequest;
use crate::system::OwnerProcess;

#[cfg(test)]
mod tests;

/// A piece with more parts waits for the rest.
const RING_ENTRIES: u32 = 16;

const MAX_REQUEST_BYTES: usize = 0x7fff_f000;

/// Retries, a millisecond apart, while the kernel lacks memory.
const MAX_SHORTAGE_RETRIES: u32 = 2_000;

#[derive(Debug)]
pub(crate) struct ReadJob {
    pub(crate) request: PieceRequest,
    /// Without other views.
    pub(crate) buffer: Buffer,
    /// Bytes read per part; 0 if it failed.
    pub(crate) got: Vec<usize>,
}

#[derive(Debug)]
struct InFlight {
    job: ReadJob,
    /// Parts without completion.
    left: usize,
    /// Nobody waits for it.
    abandoned: bool,
}

pub(crate) struct ReadRing {
    ring: ManuallyDrop<IoUring>,
    /// By number; None: free.
    jobs: ManuallyDrop<Vec<Option<InFlight>>>,
    queued: VecDeque<squeue::Entry>,
    /// In the ring, not yet taken by the kernel.
    unsubmitted: usize,
    /// Taken, not yet completed.
    in_flight: usize,
    owner: OwnerProcess,
}

impl ReadRing {
    /// `Err`: no io_uring, or not permitted.
    pub(crate) fn new() -> io::Result<Self> {
        // Not mapped in forked processes, whose changes would affect ours.
        let mut ring = IoUring::builder().dontfork().build(RING_ENTRIES)?;
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
            unsubmitted: 0,
            in_flight: 0,
            owner: OwnerProcess::current(),
        })
    }

    /// Returns a number for `wait`. `Err`: the ring is unusable.
    pub(crate) fn submit(&mut self, request: PieceRequest, buffer: Buffer) -> io::Result<usize> {
        self.owner.check()?;
        // Frees abandoned reads even if nobody waits.
        self.reap();
        let free = self.jobs.iter().position(Option::is_none);
        let number = free.unwrap_or_else(|| {
            self.jobs.push(None);
            self.jobs.len() - 1
        });
        let mut job = ReadJob {
            got: vec![0; request.parts.len()],
            request,
            buffer,
        };
        // `wait` handles a piece without requests.
        let entries = entries(&mut job, number).unwrap_or_default();
        let left = entries.len();
        // From here on, nobody touches the memory before completion.
        self.jobs[number] = Some(InFlight {
            job,
            left,
            abandoned: false,
        });
        self.queued.extend(entries);
        self.fill();
        match self.enter(0) {
            Ok(()) => Ok(number),
            Err(error) if passes(&error) => Ok(number),
            Err(error) => Err(error),
        }
    }

    /// `Err`: the ring is unusable, or there is no such piece.
    pub(crate) fn wait(&mut self, number: usize) -> io::Result<ReadJob> {
        self.owner.check()?;
        let mut short = 0;
        loop {
            self.reap();
            let slot = self.jobs.get_mut(number);
            match slot {
                Some(slot) if slot.as_ref().is_some_and(|in_flight| in_flight.left == 0) => {
                    let done = slot.take();
                    return done.map(|done| done.job).ok_or(ErrorKind::NotFound.into());
                }
                Some(Some(_)) => {}
                _ => return Err(ErrorKind::NotFound.into()),
            }
            self.fill();
            if self.in_flight + self.unsubmitted == 0 {
                return Err(io::Error::other("a request was lost"));
            }
            match self.enter(1) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if passes(&error) && short < MAX_SHORTAGE_RETRIES => {
                    short += 1;
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Memory is freed once the kernel completed the parts that it took.
    pub(crate) fn abandon(&mut self, number: usize) {
        if self.owner.check().is_err() {
            return;
        }
        let before = self.queued.len();
        (self.queued).retain(|entry| which(entry.get_user_data()).0 != number);
        let kept = before - self.queued.len();
        if let Some(slot) = self.jobs.get_mut(number) {
            match slot {
                Some(in_flight) if in_flight.left > kept => {
                    in_flight.left -= kept;
                    in_flight.abandoned = true;
                }
                _ => *slot = None,
            }
        }
    }

    fn fill(&mut self) {
        while self.in_flight + self.unsubmitted < RING_ENTRIES as usize {
            let Some(entry) = self.queued.pop_front() else {
                return;
            };
            // SAFETY: the entry names an open file and memory in a buffer that only its job holds. Both stay in `jobs`
            // until completion: `wait` and `reap` take out a job with `left == 0` only, `abandon` one without pushed
            // entries or with all completions, and `drop` waits for all, or leaks `jobs` and the ring.
            match unsafe { self.ring.submission().push(&entry) } {
                Ok(()) => self.unsubmitted += 1,
                Err(_full) => {
                    self.queued.push_front(entry);
                    return;
                }
            }
        }
    }

    /// Submits, and waits for `answers` completions. `Err`: nothing was taken.
    fn enter(&mut self, answers: usize) -> io::Result<()> {
        let taken = self.ring.submit_and_wait(answers)?.min(self.unsubmitted);
        self.unsubmitted -= taken;
        self.in_flight += taken;
        Ok(())
    }

    fn reap(&mut self) {
        for answer in self.ring.completion() {
            let (number, part) = which(answer.user_data());
            let result = answer.result();
            self.in_flight -= 1;
            if let Some(in_flight) = self.jobs[number].as_mut() {
                // `FileRequest::complete` rereads what failed, or was cancelled because its thread ended.
                in_flight.job.got[part] = usize::try_from(result).unwrap_or(0);
                in_flight.left -= 1;
                if in_flight.left == 0 && in_flight.abandoned {
                    self.jobs[number] = None;
                }
            }
        }
    }
}

fn which(request: u64) -> (usize, usize) {
    ((request >> 32) as usize, (request & 0xffff_ffff) as usize)
}

/// Tries a request: some systems grant a ring and refuse all requests.
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

/// All are built before the first is submitted: no reference to the whole memory may exist while the kernel writes to a
/// part of it.
fn entries(job: &mut ReadJob, number: usize) -> Option<Vec<squeue::Entry>> {
    let ReadJob {
        request, buffer, ..
    } = job;
    let places: Vec<usize> = (request.parts.iter())
        .map(|part| part.place(buffer))
        .collect();
    let memory = buffer.get_mut()?;
    let (begin, len) = (memory.as_mut_ptr(), memory.len());
    let entry = |(part, from): (usize, usize)| {
        let which = (number as u64) << 32 | part as u64;
        let part = &request.parts[part];
        if from.checked_add(part.ask)? > len {
            return None;
        }
        let file = types::Fd(part.file.as_raw_fd());
        let ask = part.ask.min(MAX_REQUEST_BYTES) as u32;
        let read = opcode::Read::new(file, begin.wrapping_add(from), ask);
        Some(read.offset(part.offset).build().user_data(which))
    };
    places.into_iter().enumerate().map(entry).collect()
}

fn passes(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::ResourceBusy
    )
}

impl Drop for ReadRing {
    fn drop(&mut self) {
        if self.owner.check().is_err() {
            return;
        }
        let mut short = 0;
        while self.in_flight > 0 {
            self.reap();
            if self.in_flight == 0 {
                break;
            }
            match self.enter(1) {
                Ok(()) => {}
                // Completions also arrive without waiting.
                Err(_) if short < MAX_SHORTAGE_RETRIES => {
                    short += 1;
                    std::thread::sleep(Duration::from_millis(1));
                }
                // The kernel may still write to this memory: leak it.
                Err(_) => return,
            }
        }
        // SAFETY: their owner ends here. The kernel has completed all that it took (`in_flight == 0`); what is left was
        // never submitted. This process made the ring, so nobody else uses it.
        unsafe {
            ManuallyDrop::drop(&mut self.ring);
            ManuallyDrop::drop(&mut self.jobs);
        }
    }
}

impl std::fmt::Debug for ReadRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadRing")
            .field("in_flight", &self.in_flight)
            .field("unsubmitted", &self.unsubmitted)
            .field("queued", &self.queued.len())
            .finish_non_exhaustive()
    }
}
