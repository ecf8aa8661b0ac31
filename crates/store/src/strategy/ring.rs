//! A ring of buffers that threads fill past the page cache, ahead of a scan.
//!
//! Piece k is read by thread k modulo their number, so that pieces come out in order without a lock: the scan takes the
//! oldest from the thread that has it. Each thread has at most [`DEEP`] pieces asked for, which bounds memory.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::files::Files;
use super::pieces::Pieces;
use super::pool::Pool;
use super::requests::{Attempt, Requests};
use super::system::Process;
use crate::error::StoreError;
use crate::signal::Signal;

/// Requests that the disk has at once: one of them is on its way while another's end is waited for.
const THREADS: usize = 2;

/// Pieces that a thread has asked for or read.
const DEEP: usize = 2;

#[derive(Debug)]
struct Worker {
    /// None once the ring is being dropped.
    jobs: Option<SyncSender<Range<i64>>>,
    done: Receiver<Result<Attempt, StoreError>>,
    thread: Option<JoinHandle<()>>,
}

/// Reads the pieces of a scan ahead of it.
#[derive(Debug)]
pub(super) struct Ring {
    workers: Vec<Worker>,
    ahead: Pieces,
    /// What was asked for, oldest first, each with its worker.
    asked: VecDeque<(usize, Range<i64>)>,
    next: usize,
    owner: Process,
}

impl Ring {
    pub(super) fn begin(signal: &Signal, ahead: Pieces) -> std::io::Result<Self> {
        let workers = (0..THREADS).map(|_| Worker::begin(Files::new(signal.clone())));
        let mut ring = Self {
            workers: workers.collect::<Result<_, _>>()?,
            ahead,
            asked: VecDeque::new(),
            next: 0,
            owner: Process::current(),
        };
        ring.ask();
        Ok(ring)
    }

    /// Keeps every thread busy.
    fn ask(&mut self) {
        while self.asked.len() < THREADS * DEEP {
            let asked = self.asked.iter().map(|(_, piece)| piece);
            let Some(piece) = self.ahead.next_beside(asked) else {
                return;
            };
            let jobs = self.workers[self.next].jobs.as_ref();
            if jobs.is_none_or(|jobs| jobs.send(piece.clone()).is_err()) {
                return;
            }
            self.asked.push_back((self.next, piece));
            self.next = (self.next + 1) % THREADS;
        }
    }

    /// The samples of a piece; None if it is not the one that is next, or a thread is gone.
    pub(super) fn take(&mut self, piece: &Range<i64>) -> Option<Result<Attempt, StoreError>> {
        if self.asked.front().is_none_or(|(_, next)| next != piece) {
            return None;
        }
        if let Err(error) = self.owner.check() {
            return Some(Ok(Attempt::Refused(error.to_string())));
        }
        let (worker, _) = self.asked.pop_front()?;
        let read = self.workers[worker].done.recv().ok()?;
        self.ask();
        Some(read)
    }
}

impl Worker {
    fn begin(files: Files) -> std::io::Result<Self> {
        let (jobs, asked) = sync_channel::<Range<i64>>(DEEP);
        let (give, done) = sync_channel(DEEP);
        let thread = std::thread::Builder::new()
            .name("isochrony-direct".into())
            .spawn(move || {
                let (mut requests, mut pool) = (Requests::new(files, true), Pool::default());
                while let Ok(range) = asked.recv() {
                    if give.send(requests.read(&range, &mut pool)).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Self {
            jobs: Some(jobs),
            done,
            thread: Some(thread),
        })
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.owner.check().is_err() {
            // Its threads are not here: they cannot be waited for, nor the locks that they may have held.
            std::mem::forget(std::mem::take(&mut self.workers));
            return;
        }
        for worker in &mut self.workers {
            worker.jobs = None;
        }
        for worker in &mut self.workers {
            // What it has read still has a place in the channel: it never waits for us.
            if let Some(thread) = worker.thread.take() {
                let _ = thread.join();
            }
        }
    }
}
