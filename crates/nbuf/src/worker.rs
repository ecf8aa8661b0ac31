//! Carries one buffer at a time through the states of the paper's figures 6 to 9.
//!
//! ```text
//! read wait -> read -> (execute wait ->) execute -> (join wait -> join)* -> (write wait -> write)* -> read wait
//! ```
//!
//! A worker holds one turn at a time, with two exceptions, neither of which can form a cycle:
//! - Within an ordered execution or a join it acquires turns at outputs if it writes more than it may stage. It passes
//!   on those drawn on arrival before it waits in stream order, where the oldest buffer is first everywhere.
//! - Turns at several outputs are acquired in the order of outputs.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use isochrony_runtime::{Progress, WorkerGate};

use crate::buffer_output::{BufferOutput, BufferPosition};
use crate::error::{Cause, LocatedError, NbufError, PanicError, StoppedError};
use crate::framing::Framing;
use crate::processor::{BlockProcessor, RecordBlock};
use crate::record_reader::grow_to;
use crate::report::{StateSpan, StreamWorkerReport, WorkerState};
use crate::shared_outputs::SharedOutputs;
use crate::staging::StagingBuffers;
use crate::stream_reader::{PartData, StreamPart, StreamReader, read_file_part};
use crate::tuning::SharedStateTimes;
use crate::turns::TurnLock;

pub(crate) struct StreamExecution<'r, P> {
    pub(crate) processor: &'r P,
    pub(crate) framing: &'r Framing,
    pub(crate) read_turns: TurnLock,
    pub(crate) reader: Mutex<StreamReader<'r>>,
    /// None: executed in parallel.
    pub(crate) execute_turns: Option<TurnLock>,
    pub(crate) join_turns: Vec<TurnLock>,
    pub(crate) outputs: SharedOutputs<'r>,
    pub(crate) output_count: usize,
    pub(crate) staging_bytes: usize,
    pub(crate) trace: usize,
    pub(crate) start: Instant,
    pub(crate) progress: Progress,
    pub(crate) records: AtomicU64,
    pub(crate) gate: WorkerGate,
    /// None: not tuned.
    pub(crate) state_times: Option<SharedStateTimes>,
}

struct Worker<S> {
    scratch: S,
    buffer: Vec<u8>,
    staging: StagingBuffers,
    result: WorkerResult,
}

#[derive(Default)]
pub(crate) struct WorkerResult {
    pub(crate) report: StreamWorkerReport,
    pub(crate) peak_bytes: usize,
}

impl<P: BlockProcessor> StreamExecution<'_, P> {
    /// Stops the execution after a failed buffer. Earlier buffers are finished; this one's output so far is kept.
    fn stop_after(&self, number: u64, error: NbufError) {
        self.outputs.stop_after(number, error);
        self.stop_turns(number + 1);
    }

    pub(crate) fn stop_at(&self, number: u64, error: NbufError) {
        self.outputs.stop_at(number, error);
        self.stop_turns(number);
    }

    /// Refuses this buffer and later ones everywhere: their workers end and will not pass turns on.
    fn stop_turns(&self, number: u64) {
        self.read_turns.stop(number);
        for turns in self.execute_turns.iter().chain(&self.join_turns) {
            turns.stop(number);
        }
        self.gate.open();
    }

    pub(crate) fn run_worker(&self, number: usize) -> WorkerResult {
        let made = catch_unwind(AssertUnwindSafe(|| self.processor.new_scratch()));
        let scratch = match made {
            Ok(scratch) => scratch,
            Err(panic) => return self.fail_worker(&*panic),
        };
        let mut worker = Worker {
            scratch,
            buffer: Vec::new(),
            staging: StagingBuffers::new(self.output_count, self.staging_bytes),
            result: WorkerResult::default(),
        };
        loop {
            self.gate.pass(number);
            let before = worker.result.report.states;
            if self.process_next_buffer(&mut worker).is_err() {
                break;
            }
            if let Some(times) = &self.state_times {
                times.add_buffer(&before, &worker.result.report.states);
            }
        }
        // Nothing is left for those that wait there.
        self.gate.open();
        let StreamWorkerReport { work, states, .. } = &mut worker.result.report;
        (work.busy, work.waited) = (states.busy(), states.waited());
        worker.result
    }

    /// Stops at once: a worker panicked where no buffer is the cause.
    pub(crate) fn fail_worker(&self, panic: &(dyn Any + Send)) -> WorkerResult {
        let why = Box::new(PanicError::new(panic));
        let (offset, length) = (0, 0);
        self.stop_at(
            0,
            NbufError::Process {
                offset,
                length,
                why,
            },
        );
        WorkerResult::default()
    }

    fn process_next_buffer(&self, worker: &mut Worker<P::Scratch>) -> Result<(), StoppedError> {
        let part = self.read(worker)?;
        let Worker {
            scratch,
            buffer,
            staging,
            result,
        } = worker;
        let report = &mut result.report;
        let bytes = match part.data {
            PartData::Buffered(length) | PartData::InFile { length, .. } => &buffer[..length],
            PartData::Borrowed(bytes) => bytes,
        };
        let position = BufferPosition {
            number: part.number,
            offset: part.offset,
        };
        let block = RecordBlock {
            number: part.number,
            bytes,
            offset: part.offset,
            input: part.input,
            input_offset: part.input_offset,
            framing: self.framing,
        };
        let mut out = BufferOutput::new(&self.outputs, staging, bytes, position);
        let done = self.execute_and_write(&block, scratch, &mut out, report);
        let states = &mut report.states;
        states.write_wait += out.wait_time;
        states.write += out.write_time;
        drop(out);
        result.peak_bytes = (result.peak_bytes).max(buffer.capacity() + staging.allocated());
        done?;
        report.work.items += 1;
        report.bytes += bytes.len() as u64;
        self.progress.advance(bytes.len() as u64);
        self.records
            .fetch_add(self.framing.count(bytes), Ordering::Relaxed);
        Ok(())
    }

    fn read<'c>(&'c self, worker: &mut Worker<P::Scratch>) -> Result<StreamPart<'c>, StoppedError> {
        let report = &mut worker.result.report;
        let mut stopwatch = Stopwatch::start();
        let turn = self
            .read_turns
            .acquire_on_arrival(None)
            .ok_or(StoppedError)?;
        report.states.read_wait += stopwatch.lap();
        let start = self.start.elapsed();
        // Never contended: the turn admits one worker.
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let number = reader.next_number();
        let buffer = &mut worker.buffer;
        let next = catch_unwind(AssertUnwindSafe(|| {
            reader.next_part(buffer, &|| self.outputs.stop_state.is_stopped())
        }));
        let next = match next {
            Ok(Ok(next)) => next,
            Ok(Err(error)) => {
                self.stop_at(number, error);
                return Err(StoppedError);
            }
            Err(panic) => {
                let why = Box::new(PanicError::new(&*panic));
                let (offset, length) = (0, 0);
                self.stop_at(
                    number,
                    NbufError::Process {
                        offset,
                        length,
                        why,
                    },
                );
                return Err(StoppedError);
            }
        };
        drop(reader);
        drop(turn);
        let Some(mut part) = next else {
            report.states.read += stopwatch.lap();
            return Err(StoppedError);
        };
        if let PartData::InFile {
            file,
            offset,
            length,
        } = &part.data
        {
            let (read, error) = match grow_to(buffer, *length) {
                Ok(()) => read_file_part(file, *offset, &mut buffer[..*length]),
                Err(why) => (0, Some(why)),
            };
            if let Some(why) = error {
                let whole = self.framing.whole(&buffer[..read]);
                let error = NbufError::Read {
                    input: part.input,
                    name: "file".to_owned(),
                    offset: part.input_offset + read as u64,
                    unfinished: (read - whole) as u64,
                    why,
                };
                if whole == 0 {
                    self.stop_at(part.number, error);
                    return Err(StoppedError);
                }
                self.stop_after(part.number, error);
                part.data = PartData::Buffered(whole);
            }
        }
        report.states.read += stopwatch.lap();
        self.record_span(report, part.number, WorkerState::Read, start);
        Ok(part)
    }

    fn execute_and_write(
        &self,
        block: &RecordBlock<'_>,
        scratch: &mut P::Scratch,
        out: &mut BufferOutput<'_>,
        report: &mut StreamWorkerReport,
    ) -> Result<(), StoppedError> {
        let mut stopwatch = Stopwatch::start();
        let turn = match &self.execute_turns {
            Some(turns) => Some(turns.acquire_in_order(block.number).ok_or(StoppedError)?),
            None => None,
        };
        report.states.execute_wait += stopwatch.lap();
        let start = self.start.elapsed();
        self.call_processor(block, out, |out| {
            self.processor.execute(scratch, block, out)?;
            // A later failure is not one of the last record.
            out.begin_record();
            Ok(out.release_unordered_turns()?)
        })?;
        drop(turn);
        let writing = out.wait_time + out.write_time;
        report.states.execute += stopwatch.lap().saturating_sub(writing);
        self.record_span(report, block.number, WorkerState::Execute, start);
        for (lane, turns) in self.join_turns.iter().enumerate() {
            let turn = turns.acquire_in_order(block.number).ok_or(StoppedError)?;
            report.states.execute_wait += stopwatch.lap();
            let start = self.start.elapsed();
            let before = out.wait_time + out.write_time;
            self.call_processor(block, out, |out| {
                self.processor.join(lane, scratch, block, out)?;
                Ok(out.release_unordered_turns()?)
            })?;
            drop(turn);
            let writing = out.wait_time + out.write_time - before;
            report.states.execute += stopwatch.lap().saturating_sub(writing);
            self.record_span(report, block.number, WorkerState::Join, start);
        }
        let start = self.start.elapsed();
        self.call_processor(block, out, |out| {
            Ok(out.finish(self.processor.trailing_output(scratch))?)
        })?;
        self.record_span(report, block.number, WorkerState::Write, start);
        Ok(())
    }

    /// Calls the processor. If it fails or panics, stops the execution before any turn is passed on.
    fn call_processor<'o>(
        &self,
        block: &RecordBlock<'_>,
        out: &mut BufferOutput<'o>,
        call: impl FnOnce(&mut BufferOutput<'o>) -> Result<(), Cause>,
    ) -> Result<(), StoppedError> {
        let why = match catch_unwind(AssertUnwindSafe(|| call(out))) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(why)) => why,
            Err(panic) => Box::new(PanicError::new(&*panic)),
        };
        // The processor may have kept an error of an earlier execution.
        let located = why.downcast_ref::<LocatedError>();
        let innermost = located.map_or(&why, |located| &located.why);
        if out.is_stopped() && innermost.is::<StoppedError>() {
            self.stop_turns(block.number);
            return Err(StoppedError);
        }
        let (offset, length, why) = match why.downcast::<LocatedError>() {
            Ok(located) => (located.offset, located.length, located.why),
            Err(why) => (block.offset, block.bytes.len() as u64, why),
        };
        let error = NbufError::Process {
            offset,
            length,
            why,
        };
        self.stop_after(block.number, error);
        if !out.is_stopped() {
            // If this fails, too, the first error is known already.
            out.discard_record();
            let _ = out.finish([&[]; 2]);
        }
        Err(StoppedError)
    }

    fn record_span(
        &self,
        report: &mut StreamWorkerReport,
        buffer: u64,
        state: WorkerState,
        start: Duration,
    ) {
        if report.trace.len() < self.trace {
            let end = self.start.elapsed();
            report.trace.push(StateSpan {
                buffer,
                state,
                start,
                end,
            });
        }
    }
}

struct Stopwatch(Instant);

impl Stopwatch {
    fn start() -> Self {
        Self(Instant::now())
    }

    fn lap(&mut self) -> Duration {
        let now = Instant::now();
        let lap = now - self.0;
        self.0 = now;
        lap
    }
}
