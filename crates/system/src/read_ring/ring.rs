//! `ReadRing`: file reads in flight through an io_uring. The only module that shares memory with the kernel.
//!
//! Until a request is complete, the kernel may write to the memory. So [`ReadRing`] owns memory and files until then,
//! nobody else has a view of them, and it outlives all requests; if it cannot wait, it leaks their memory.
//!
//! A forked process copies the memory but shares the ring with its parent, whose completions it would take: it touches
//! and frees neither.
#![allow(unsafe_code)] // The kernel is given addresses of memory.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::mem::ManuallyDrop;
use std::time::Duration;

use io_uring::{IoUring, Probe, opcode, squeue, types};

use super::{CompletedRead, ReadPart, ReadTarget};

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

/// A read with more parts waits for the rest.
const RING_ENTRIES: u32 = 16;

const MAX_REQUEST_BYTES: usize = 0x7fff_f000;

/// Retries a millisecond apart, while the kernel lacks memory.
const MAX_SHORTAGE_RETRIES: u32 = 2_000;

#[derive(Debug)]
struct InFlight<T> {
    read: CompletedRead<T>,
    left: usize,
    abandoned: bool,
}

/// Reads in flight. Requests end with the thread that submitted them; what they did not read counts 0 bytes.
pub struct ReadRing<T> {
    ring: ManuallyDrop<IoUring>,
    /// By number; None: the number is free.
    reads: ManuallyDrop<Vec<Option<InFlight<T>>>>,
    /// Requests waiting for room in the ring.
    queued: VecDeque<squeue::Entry>,
    /// In the ring, not yet taken by the kernel.
    unsubmitted: usize,
    /// Requests taken, not yet completed.
    in_flight: usize,
    /// A forked process has another number.
    process: u32,
}

impl<T: ReadTarget> ReadRing<T> {
    /// A ring without reads.
    ///
    /// # Errors
    /// The system lacks or refuses such reads. See [`remedy`](super::remedy).
    pub fn new() -> io::Result<Self> {
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
            reads: ManuallyDrop::new(Vec::new()),
            queued: VecDeque::new(),
            unsubmitted: 0,
            in_flight: 0,
            process: std::process::id(),
        })
    }

    /// Begins a read. Returns a number for [`wait`](Self::wait).
    ///
    /// # Errors
    /// The ring is unusable.
    pub fn submit(&mut self, mut target: T) -> io::Result<usize> {
        self.check_process()?;
        // Frees abandoned reads even if nobody waits.
        self.reap();
        let free = self.reads.iter().position(Option::is_none);
        let number = free.unwrap_or_else(|| {
            self.reads.push(None);
            self.reads.len() - 1
        });
        let got = vec![0; target.part_count()];
        // All are built before the first is submitted: no reference to the whole memory may exist while the kernel
        // writes to a part of it. `wait` handles a read without requests.
        let parts = target.parts().unwrap_or_default();
        let entries: Vec<squeue::Entry> = (parts.iter().zip(0..got.len()))
            .map(|(part, at)| entry(part, number, at))
            .collect();
        let left = entries.len();
        // From here on, nobody touches the memory before completion.
        self.reads[number] = Some(InFlight {
            read: CompletedRead { target, got },
            left,
            abandoned: false,
        });
        self.queued.extend(entries);
        self.fill();
        match self.enter(0) {
            Ok(()) => Ok(number),
            // `wait` submits again.
            Err(error) if passes(&error) => Ok(number),
            Err(error) => Err(error),
        }
    }

    /// Waits until a read is complete.
    ///
    /// # Errors
    /// The ring is unusable, or there is no such read.
    pub fn wait(&mut self, number: usize) -> io::Result<CompletedRead<T>> {
        self.check_process()?;
        let mut short = 0;
        loop {
            self.reap();
            let slot = self.reads.get_mut(number);
            match slot {
                Some(slot) if slot.as_ref().is_some_and(|in_flight| in_flight.left == 0) => {
                    let done = slot.take();
                    return done.map(|done| done.read).ok_or(ErrorKind::NotFound.into());
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

    /// Gives up a read; frees its memory once the system has completed it.
    pub fn abandon(&mut self, number: usize) {
        if self.check_process().is_err() {
            return;
        }
        let before = self.queued.len();
        (self.queued).retain(|entry| which(entry.get_user_data()).0 != number);
        let kept = before - self.queued.len();
        if let Some(slot) = self.reads.get_mut(number) {
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
            // SAFETY: the entry names an open file and memory that its `ReadTarget` keeps for it alone. The target
            // stays in `reads` until completion: `wait` and `reap` take out only a read with `left == 0`, `abandon` one
            // without pushed entries or with all completions, and `drop` waits for all, or leaks `reads` and the ring.
            match unsafe { self.ring.submission().push(&entry) } {
                Ok(()) => self.unsubmitted += 1,
                Err(_full) => {
                    self.queued.push_front(entry);
                    return;
                }
            }
        }
    }
}

impl<T> ReadRing<T> {
    fn check_process(&self) -> io::Result<()> {
        match self.process == std::process::id() {
            true => Ok(()),
            false => Err(io::Error::other(
                "this process was forked off after its reads began, and they stay with its parent; begin others here",
            )),
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
            if let Some(in_flight) = self.reads[number].as_mut() {
                // The caller reads again what failed or was cancelled.
                in_flight.read.got[part] = usize::try_from(result).unwrap_or(0);
                in_flight.left -= 1;
                if in_flight.left == 0 && in_flight.abandoned {
                    self.reads[number] = None;
                }
            }
        }
    }
}

fn which(request: u64) -> (usize, usize) {
    ((request >> 32) as usize, (request & 0xffff_ffff) as usize)
}

/// Some systems grant a ring and refuse all requests.
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

fn entry(part: &ReadPart, number: usize, at: usize) -> squeue::Entry {
    let len = part.len.min(MAX_REQUEST_BYTES) as u32;
    opcode::Read::new(types::Fd(part.file), part.memory, len)
        .offset(part.offset)
        .build()
        .user_data((number as u64) << 32 | at as u64)
}

fn passes(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::ResourceBusy
    )
}

impl<T> Drop for ReadRing<T> {
    fn drop(&mut self) {
        if self.process != std::process::id() {
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
                // The kernel may still write to this memory.
                Err(_) => return,
            }
        }
        // SAFETY: their owner ends here. The kernel has completed all that it took (`in_flight == 0`); the rest was
        // never submitted and goes away with the ring, which is only ours.
        unsafe {
            ManuallyDrop::drop(&mut self.ring);
            ManuallyDrop::drop(&mut self.reads);
        }
    }
}

impl<T> std::fmt::Debug for ReadRing<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadRing")
            .field("in_flight", &self.in_flight)
            .field("unsubmitted", &self.unsubmitted)
            .field("queued", &self.queued.len())
            .finish_non_exhaustive()
    }
}
