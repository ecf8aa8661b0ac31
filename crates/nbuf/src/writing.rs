//! The outputs of a run: whose turn it is at each, and what stopped them.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::{NbufError, Panicked};
use crate::output::{Output, Wrote};
use crate::report::OutputReport;
use crate::turns::{Gate, Turn};

/// The outputs of a run, and what stops it.
pub(crate) struct Writing<'r> {
    sinks: Vec<Sink<'r>>,
    in_turn: bool,
    pub(crate) halt: Halt,
}

struct Sink<'r> {
    gate: Gate,
    name: String,
    output: Mutex<Output<'r>>,
    written: AtomicU64,
}

/// The first thing that went wrong, in stream order.
#[derive(Default)]
pub(crate) struct Halt {
    /// The first buffer that is not processed any more; `u64::MAX` while all goes well.
    from: AtomicU64,
    first: Mutex<Option<(u64, NbufError)>>,
}

impl Halt {
    fn new() -> Self {
        Self {
            from: AtomicU64::new(u64::MAX),
            first: Mutex::new(None),
        }
    }

    /// Whether anything stops the run.
    pub(crate) fn any(&self) -> bool {
        self.from.load(Ordering::Relaxed) != u64::MAX
    }

    /// Whether the run is not even to finish what comes before.
    pub(crate) fn at_once(&self) -> bool {
        self.from.load(Ordering::Relaxed) == 0
    }

    /// Notes an error at a buffer, and from which buffer on nothing is done any more; the error of the earliest buffer
    /// stays.
    fn note(&self, number: u64, error: NbufError, from: u64) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        // Who interrupts a run that has failed already wants to know why it failed.
        let earlier = |before: u64| number < before && !matches!(error, NbufError::Interrupted);
        if first.as_ref().is_none_or(|(before, _)| earlier(*before)) {
            *first = Some((number, error));
        }
        self.from.fetch_min(from, Ordering::Relaxed);
    }

    pub(crate) fn take(&self) -> Option<NbufError> {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        first.take().map(|(_, error)| error)
    }
}

impl<'r> Writing<'r> {
    pub(crate) fn new(outputs: Vec<Output<'r>>, workers: usize, in_turn: bool) -> Self {
        let sinks = outputs.into_iter().map(|output| Sink {
            gate: Gate::new(workers),
            name: output.name.clone(),
            output: Mutex::new(output),
            written: AtomicU64::new(0),
        });
        Self {
            sinks: sinks.collect(),
            in_turn,
            halt: Halt::new(),
        }
    }

    /// Stops the outputs for a buffer and all behind it.
    pub(crate) fn stop(&self, number: u64, error: NbufError) {
        self.stop_from(number, error, number);
    }

    /// Stops the outputs for all behind a buffer, at which something went wrong.
    pub(crate) fn stop_behind(&self, number: u64, error: NbufError) {
        self.stop_from(number, error, number + 1);
    }

    fn stop_from(&self, number: u64, error: NbufError, from: u64) {
        self.halt.note(number, error, from);
        for sink in &self.sinks {
            sink.gate.stop(from);
        }
    }

    /// Writes to one output, whose turn the caller has.
    fn write(&self, output: usize, bytes: &[u8]) -> Result<(), Option<NbufError>> {
        if bytes.is_empty() {
            return Ok(());
        }
        let sink = &self.sinks[output];
        let mut open = sink.output.lock().unwrap_or_else(PoisonError::into_inner);
        let wrote = |count: usize| {
            sink.written.fetch_add(count as u64, Ordering::Relaxed);
        };
        let done = caught(|| open.write_all(bytes, &wrote, &|| self.halt.at_once()));
        match done {
            Ok(Wrote::All) => Ok(()),
            Ok(Wrote::Stopped) => Err(None),
            Err(why) => Err(Some(sink.failed(output, why))),
        }
    }

    /// Writes to output 0 when no worker does any more.
    pub(crate) fn write_last(&self, bytes: &[u8]) -> Result<(), Option<NbufError>> {
        if self.sinks.is_empty() {
            return Ok(());
        }
        self.write(0, bytes)
    }

    pub(crate) fn flush(&self) -> Result<(), NbufError> {
        for (output, sink) in self.sinks.iter().enumerate() {
            let mut open = sink.output.lock().unwrap_or_else(PoisonError::into_inner);
            caught(|| open.flush()).map_err(|why| sink.failed(output, why))?;
        }
        Ok(())
    }

    pub(crate) fn reports(&self) -> Vec<OutputReport> {
        let sinks = self.sinks.iter();
        sinks
            .map(|sink| OutputReport {
                name: sink.name.clone(),
                bytes: sink.written.load(Ordering::Relaxed),
            })
            .collect()
    }
}

impl Sink<'_> {
    fn failed(&self, output: usize, why: io::Error) -> NbufError {
        NbufError::Write {
            output,
            name: self.name.clone(),
            written: self.written.load(Ordering::Relaxed),
            why,
        }
    }
}

/// What somebody else's `Write` does; a panic of it is an error like others, so that turns are not given up before it is
/// known.
fn caught<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let done = catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|panic| Err(io::Error::other(Panicked::new(&*panic))))
}

/// The outside of outputs that [`Out`] needs to know; without the lifetime of what they write to.
pub(crate) trait Sinks: Sync {
    fn count(&self) -> usize;
    fn enter(&self, output: usize, number: u64) -> Option<Turn<'_>>;
    fn in_turn(&self) -> bool;
    fn put(&self, output: usize, bytes: &[u8]) -> Result<(), Option<NbufError>>;
    /// Ends the run at this buffer.
    fn fail(&self, number: u64, error: NbufError);
}

impl Sinks for Writing<'_> {
    fn count(&self) -> usize {
        self.sinks.len()
    }

    fn enter(&self, output: usize, number: u64) -> Option<Turn<'_>> {
        let gate = &self.sinks[output].gate;
        if self.in_turn {
            gate.ordered(number)
        } else {
            gate.queue(Some(number))
        }
    }

    fn in_turn(&self) -> bool {
        self.in_turn
    }

    fn put(&self, output: usize, bytes: &[u8]) -> Result<(), Option<NbufError>> {
        self.write(output, bytes)
    }

    fn fail(&self, number: u64, error: NbufError) {
        self.stop(number, error);
    }
}
