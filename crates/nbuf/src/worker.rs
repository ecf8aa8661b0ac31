//! A worker: one buffer, carried through the states of the paper's figures 6 to 9.
//!
//! ```text
//! read wait -> read -> (execute wait ->) execute -> (join wait -> join)* -> (write wait -> write)* -> read wait
//! ```
//!
//! Only one turn is held at a time, but for three nestings, none of which can be a ring:
//! - an ordered execution, or a join, may take turns at outputs when its output is more than may be staged. Turns at
//!   outputs that come as workers come are given up before the next turn in stream order is waited for; turns in stream
//!   order are waited for in the same order by all, oldest buffer first;
//! - turns at several outputs are taken in the order of outputs.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use isochrony_runtime::Progress;

use crate::error::{Cause, Located, NbufError, Panicked, Stopped};
use crate::feed::ensure;
use crate::framing::Framing;
use crate::out::{Out, Place, Staged};
use crate::process::{Block, Process};
use crate::reading::{Claim, Found, Next, Reading, read_there};
use crate::report::{State, StreamWorkerReport, Visit};
use crate::turns::Gate;
use crate::writing::Writing;

/// What workers share.
pub(crate) struct Crew<'r, P> {
    pub(crate) process: &'r P,
    pub(crate) framing: &'r Framing,
    pub(crate) read: Gate,
    pub(crate) reading: Mutex<Reading<'r>>,
    /// Where buffers are executed one after another.
    pub(crate) execute: Option<Gate>,
    pub(crate) lanes: Vec<Gate>,
    pub(crate) writing: Writing<'r>,
    pub(crate) staged: usize,
    pub(crate) outputs: usize,
    pub(crate) trace: usize,
    pub(crate) begun: Instant,
    /// Bytes processed.
    pub(crate) progress: Progress,
    pub(crate) records: AtomicU64,
}

/// What one worker has.
struct Worker<W> {
    scratch: W,
    buffer: Vec<u8>,
    staged: Staged,
    report: StreamWorkerReport,
    /// Most bytes that it held.
    peak: usize,
}

/// What a worker leaves behind: what it did, and the most bytes that it held.
pub(crate) type Left = (StreamWorkerReport, usize);

impl<P: Process> Crew<'_, P> {
    /// Ends the run behind a buffer, at which something went wrong: what comes before it is finished, and of the buffer
    /// itself what was done.
    fn stop_behind(&self, number: u64, error: NbufError) {
        self.writing.stop_behind(number, error);
        self.bar(number + 1);
    }

    /// Ends the run at a buffer; what comes before it is finished.
    pub(crate) fn stop(&self, number: u64, error: NbufError) {
        self.writing.stop(number, error);
        self.bar(number);
    }

    /// Lets a buffer and later ones in nowhere any more: its worker ends, and nobody must wait for its turns.
    fn bar(&self, number: u64) {
        self.read.stop(number);
        for gate in self.execute.iter().chain(&self.lanes) {
            gate.stop(number);
        }
    }

    /// What a worker does from the beginning to the end of the run.
    pub(crate) fn work(&self) -> Left {
        let made = catch_unwind(AssertUnwindSafe(|| self.process.worker()));
        let scratch = match made {
            Ok(scratch) => scratch,
            Err(panic) => return self.lost(&*panic),
        };
        let mut worker = Worker {
            scratch,
            buffer: Vec::new(),
            staged: Staged::new(self.outputs, self.staged),
            report: StreamWorkerReport::default(),
            peak: 0,
        };
        while self.carry(&mut worker).is_ok() {}
        let report = &mut worker.report;
        (report.work.busy, report.work.waited) = (report.states.busy(), report.states.waited());
        (worker.report, worker.peak)
    }

    /// What is left of a worker that panicked where no buffer is to blame; the run ends at once.
    pub(crate) fn lost(&self, panic: &(dyn Any + Send)) -> Left {
        let why = Box::new(Panicked::new(panic));
        let (offset, length) = (0, 0);
        self.stop(
            0,
            NbufError::Process {
                offset,
                length,
                why,
            },
        );
        Left::default()
    }

    /// One buffer from reading to writing; ends with the input, or when the run is stopped.
    fn carry(&self, worker: &mut Worker<P::Worker>) -> Result<(), Stopped> {
        let claim = self.claim(worker)?;
        let Worker {
            scratch,
            buffer,
            staged,
            report,
            peak,
        } = worker;
        let place = Place {
            number: claim.number,
            offset: claim.offset,
        };
        let bytes = match claim.found {
            Found::Here(length) | Found::There { length, .. } => &buffer[..length],
            Found::Lent(bytes) => bytes,
        };
        let block = Block {
            number: claim.number,
            bytes,
            offset: claim.offset,
            input: claim.input,
            input_offset: claim.input_offset,
            framing: self.framing,
        };
        let mut out = Out::new(&self.writing, staged, bytes, place);
        let done = self.process(&block, scratch, &mut out, report);
        let states = &mut report.states;
        states.write_wait += out.waited;
        states.write += out.wrote;
        drop(out);
        *peak = (*peak).max(buffer.capacity() + staged.held());
        done?;
        report.work.items += 1;
        report.bytes += bytes.len() as u64;
        self.progress.advance(bytes.len() as u64);
        self.records
            .fetch_add(self.framing.count(bytes), Ordering::Relaxed);
        Ok(())
    }

    /// The state *read*.
    fn claim<'c>(&'c self, worker: &mut Worker<P::Worker>) -> Result<Claim<'c>, Stopped> {
        let mut clock = Clock::new();
        let turn = self.read.queue(None).ok_or(Stopped)?;
        worker.report.states.read_wait += clock.lap();
        let start = self.begun.elapsed();
        // Only one worker is here; what the lock adds is that the compiler knows.
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let number = reading.number();
        let buffer = &mut worker.buffer;
        let next = catch_unwind(AssertUnwindSafe(|| {
            reading.next(buffer, &|| self.writing.halt.any())
        }));
        let next = match next {
            Ok(Ok(next)) => next,
            Ok(Err(error)) => {
                self.stop(number, error);
                return Err(Stopped);
            }
            Err(panic) => {
                let why = Box::new(Panicked::new(&*panic));
                let (offset, length) = (0, 0);
                self.stop(
                    number,
                    NbufError::Process {
                        offset,
                        length,
                        why,
                    },
                );
                return Err(Stopped);
            }
        };
        drop(reading);
        drop(turn);
        let Next::Claim(mut claim) = next else {
            worker.report.states.read += clock.lap();
            return Err(Stopped);
        };
        if let Found::There { file, at, length } = &claim.found {
            let (read, failed) = match ensure(buffer, *length) {
                Ok(()) => read_there(file, *at, &mut buffer[..*length]),
                Err(why) => (0, Some(why)),
            };
            if let Some(why) = failed {
                let whole = self.framing.whole(&buffer[..read]);
                let error = NbufError::Read {
                    input: claim.input,
                    name: "file".to_owned(),
                    offset: claim.input_offset + read as u64,
                    unfinished: (read - whole) as u64,
                    why,
                };
                if whole == 0 {
                    self.stop(claim.number, error);
                    return Err(Stopped);
                }
                self.stop_behind(claim.number, error);
                claim.found = Found::Here(whole);
            }
        }
        worker.report.states.read += clock.lap();
        self.visit(&mut worker.report, claim.number, State::Read, start);
        Ok(claim)
    }

    /// The states *execute* and *write*, with the joins between them.
    fn process(
        &self,
        block: &Block<'_>,
        scratch: &mut P::Worker,
        out: &mut Out<'_>,
        report: &mut StreamWorkerReport,
    ) -> Result<(), Stopped> {
        let mut clock = Clock::new();
        let turn = match &self.execute {
            Some(gate) => Some(gate.ordered(block.number).ok_or(Stopped)?),
            None => None,
        };
        report.states.execute_wait += clock.lap();
        let start = self.begun.elapsed();
        self.attempt(block, out, |out| {
            self.process.execute(scratch, block, out)?;
            // What fails from here on is no record.
            out.mark();
            Ok(out.release()?)
        })?;
        drop(turn);
        report.states.execute += clock.lap().saturating_sub(out.waited + out.wrote);
        self.visit(report, block.number, State::Execute, start);
        for (lane, gate) in self.lanes.iter().enumerate() {
            let turn = gate.ordered(block.number).ok_or(Stopped)?;
            report.states.execute_wait += clock.lap();
            let start = self.begun.elapsed();
            let before = out.waited + out.wrote;
            self.attempt(block, out, |out| {
                self.process.join(lane, scratch, block, out)?;
                Ok(out.release()?)
            })?;
            drop(turn);
            let elsewhere = out.waited + out.wrote - before;
            report.states.execute += clock.lap().saturating_sub(elsewhere);
            self.visit(report, block.number, State::Join, start);
        }
        let start = self.begun.elapsed();
        self.attempt(block, out, |out| {
            Ok(out.finish(self.process.output(scratch))?)
        })?;
        self.visit(report, block.number, State::Write, start);
        Ok(())
    }

    /// What a processor does, which may fail or panic. The run is stopped before any turn is given up.
    fn attempt<'o>(
        &self,
        block: &Block<'_>,
        out: &mut Out<'o>,
        work: impl FnOnce(&mut Out<'o>) -> Result<(), Cause>,
    ) -> Result<(), Stopped> {
        let why = match catch_unwind(AssertUnwindSafe(|| work(out))) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(why)) => why,
            Err(panic) => Box::new(Panicked::new(&*panic)),
        };
        // Why the run was stopped is known already, if it was: a processor may have kept what an earlier run told it.
        let located = why.downcast_ref::<Located>();
        let told = located.map_or(&why, |located| &located.why);
        if out.is_stopped() && told.is::<Stopped>() {
            self.bar(block.number);
            return Err(Stopped);
        }
        let (offset, length, why) = match why.downcast::<Located>() {
            Ok(located) => (located.offset, located.length, located.why),
            Err(why) => (block.offset, block.bytes.len() as u64, why),
        };
        let error = NbufError::Process {
            offset,
            length,
            why,
        };
        self.stop_behind(block.number, error);
        if !out.is_stopped() {
            // What the records before the one that failed gave. Where this fails, too, the run knows why already.
            out.take_back();
            let _ = out.finish([&[]; 2]);
        }
        Err(Stopped)
    }

    fn visit(&self, report: &mut StreamWorkerReport, buffer: u64, state: State, start: Duration) {
        if report.trace.len() < self.trace {
            let end = self.begun.elapsed();
            report.trace.push(Visit {
                buffer,
                state,
                start,
                end,
            });
        }
    }
}

/// Time from lap to lap.
struct Clock(Instant);

impl Clock {
    fn new() -> Self {
        Self(Instant::now())
    }

    fn lap(&mut self) -> Duration {
        let now = Instant::now();
        let lap = now - self.0;
        self.0 = now;
        lap
    }
}
