//! Outputs shared by workers: their turns, and the error that stops them.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::{NbufError, PanicError};
use crate::output::{Output, WriteOutcome};
use crate::report::OutputReport;
use crate::turns::{Turn, TurnLock};

pub(crate) struct SharedOutputs<'r> {
    outputs: Vec<SharedOutput<'r>>,
    in_order: bool,
    pub(crate) stop_state: StopState,
}

struct SharedOutput<'r> {
    turns: TurnLock,
    name: String,
    output: Mutex<Output<'r>>,
    written: AtomicU64,
}

/// The first error in stream order, and where it stops the execution.
#[derive(Default)]
pub(crate) struct StopState {
    /// First unprocessed buffer; `u64::MAX`: none.
    from: AtomicU64,
    first_error: Mutex<Option<(u64, NbufError)>>,
}

impl StopState {
    fn new() -> Self {
        Self {
            from: AtomicU64::new(u64::MAX),
            first_error: Mutex::new(None),
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.from.load(Ordering::Relaxed) != u64::MAX
    }

    /// Whether it stops without finishing earlier buffers.
    pub(crate) fn is_stopped_at_once(&self) -> bool {
        self.from.load(Ordering::Relaxed) == 0
    }

    /// Records an error at a buffer, and stops the execution from buffer `from` on. Keeps the earliest buffer's error.
    fn record(&self, number: u64, error: NbufError, from: u64) {
        let mut first = (self.first_error.lock()).unwrap_or_else(PoisonError::into_inner);
        // An interrupted execution still reports why it failed.
        let is_earlier = |before: u64| number < before && !matches!(error, NbufError::Interrupted);
        if first.as_ref().is_none_or(|(before, _)| is_earlier(*before)) {
            *first = Some((number, error));
        }
        self.from.fetch_min(from, Ordering::Relaxed);
    }

    pub(crate) fn take_error(&self) -> Option<NbufError> {
        let mut first = (self.first_error.lock()).unwrap_or_else(PoisonError::into_inner);
        first.take().map(|(_, error)| error)
    }
}

impl<'r> SharedOutputs<'r> {
    pub(crate) fn new(outputs: Vec<Output<'r>>, workers: usize, in_order: bool) -> Self {
        let outputs = outputs.into_iter().map(|output| SharedOutput {
            turns: TurnLock::new(workers),
            name: output.name.clone(),
            output: Mutex::new(output),
            written: AtomicU64::new(0),
        });
        Self {
            outputs: outputs.collect(),
            in_order,
            stop_state: StopState::new(),
        }
    }

    pub(crate) fn stop_at(&self, number: u64, error: NbufError) {
        self.stop_from(number, error, number);
    }

    pub(crate) fn stop_after(&self, number: u64, error: NbufError) {
        self.stop_from(number, error, number + 1);
    }

    fn stop_from(&self, number: u64, error: NbufError, from: u64) {
        self.stop_state.record(number, error, from);
        for shared in &self.outputs {
            shared.turns.stop(from);
        }
    }

    fn write(&self, output: usize, bytes: &[u8]) -> Result<(), Option<NbufError>> {
        if bytes.is_empty() {
            return Ok(());
        }
        let shared = &self.outputs[output];
        let mut open = shared.output.lock().unwrap_or_else(PoisonError::into_inner);
        let on_written = |count: usize| {
            shared.written.fetch_add(count as u64, Ordering::Relaxed);
        };
        let is_stopped = || self.stop_state.is_stopped_at_once();
        match catch_panic(|| open.write_all(bytes, &on_written, &is_stopped)) {
            Ok(WriteOutcome::Written) => Ok(()),
            Ok(WriteOutcome::Stopped) => Err(None),
            Err(why) => Err(Some(shared.error(output, why))),
        }
    }

    /// Writes to output 0 after all workers have ended.
    pub(crate) fn write_last(&self, bytes: &[u8]) -> Result<(), Option<NbufError>> {
        if self.outputs.is_empty() {
            return Ok(());
        }
        self.write(0, bytes)
    }

    pub(crate) fn flush(&self) -> Result<(), NbufError> {
        for (output, shared) in self.outputs.iter().enumerate() {
            let mut open = shared.output.lock().unwrap_or_else(PoisonError::into_inner);
            catch_panic(|| open.flush()).map_err(|why| shared.error(output, why))?;
        }
        Ok(())
    }

    pub(crate) fn reports(&self) -> Vec<OutputReport> {
        let outputs = self.outputs.iter();
        outputs
            .map(|shared| OutputReport {
                name: shared.name.clone(),
                bytes: shared.written.load(Ordering::Relaxed),
            })
            .collect()
    }
}

impl SharedOutput<'_> {
    fn error(&self, output: usize, why: io::Error) -> NbufError {
        NbufError::Write {
            output,
            name: self.name.clone(),
            written: self.written.load(Ordering::Relaxed),
            why,
        }
    }
}

/// Turns a panic of a caller's `Write` into an error, recorded before the turn is passed on.
fn catch_panic<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let done = catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|panic| Err(io::Error::other(PanicError::new(&*panic))))
}

/// Outputs for [`BufferOutput`](crate::BufferOutput), without their writers' lifetime.
pub(crate) trait OutputAccess: Sync {
    fn count(&self) -> usize;
    /// Waits for a buffer's turn; None if the output is stopped.
    fn acquire(&self, output: usize, number: u64) -> Option<Turn<'_>>;
    /// Buffers are written in stream order.
    fn is_in_order(&self) -> bool;
    /// The caller holds the output's turn.
    fn write(&self, output: usize, bytes: &[u8]) -> Result<(), Option<NbufError>>;
    fn fail(&self, number: u64, error: NbufError);
}

impl OutputAccess for SharedOutputs<'_> {
    fn count(&self) -> usize {
        self.outputs.len()
    }

    fn acquire(&self, output: usize, number: u64) -> Option<Turn<'_>> {
        let turns = &self.outputs[output].turns;
        if self.in_order {
            turns.acquire_in_order(number)
        } else {
            turns.acquire_on_arrival(Some(number))
        }
    }

    fn is_in_order(&self) -> bool {
        self.in_order
    }

    fn write(&self, output: usize, bytes: &[u8]) -> Result<(), Option<NbufError>> {
        Self::write(self, output, bytes)
    }

    fn fail(&self, number: u64, error: NbufError) {
        self.stop_at(number, error);
    }
}
