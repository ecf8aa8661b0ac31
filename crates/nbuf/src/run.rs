//! The paper's master: makes what workers share, starts them, waits for them, and reports.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use isochrony_runtime::{Progress, WaitGroup};

use crate::error::{Failure, Located, NbufError, Panicked};
use crate::input::Input;
use crate::options::Options;
use crate::output::Output;
use crate::process::Process;
use crate::reading::Reading;
use crate::report::Report;
use crate::sizes::{Needs, Sizes, sizes};
use crate::turns::Gate;
use crate::worker::{Crew, Left};
use crate::writing::Writing;

/// Reads, processes and writes until the inputs end.
///
/// Without inputs or outputs, there is nothing to read, or output is off. `watch` is called in this thread every
/// [`POLL_INTERVAL`](isochrony_runtime::POLL_INTERVAL) and once at the end, with the bytes processed; if it gives false, the run is interrupted: at once, or where somebody else's
/// `Read` or `Write` waits, when that returns.
///
/// # Errors
/// The first error in stream order, after all workers have ended, with a report of what was done until then. Output in
/// order holds all that comes before the record at which it happened.
pub fn run<P: Process>(
    options: &Options,
    inputs: Vec<Input<'_>>,
    process: &P,
    outputs: Vec<Output<'_>>,
    watch: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Report, Failure> {
    let begun = Instant::now();
    let in_turn = options.order.executes_in_turn() && !process.order_does_not_show();
    let sizes = match checked_outputs(process, outputs.len())
        .and_then(|()| find_sizes(options, &inputs, process, !outputs.is_empty(), in_turn))
    {
        Ok(sizes) => sizes,
        Err(error) => {
            let report = Box::default();
            return Err(Failure { error, report });
        }
    };
    let gate = || Gate::new(sizes.workers);
    let outputs_count = outputs.len();
    let reading = Reading::new(inputs, options, sizes);
    let progress = Progress::default();
    progress.set_total(reading.size());
    let crew = Crew {
        process,
        framing: &options.framing,
        read: gate(),
        reading: Mutex::new(reading),
        execute: in_turn.then(gate),
        lanes: (0..process.lanes()).map(|_| gate()).collect(),
        writing: Writing::new(outputs, sizes.workers, options.order.writes_in_turn()),
        staged: sizes.staged,
        outputs: outputs_count,
        trace: options.trace,
        begun,
        progress,
        records: AtomicU64::new(0),
    };
    let left = staff(&crew, sizes.workers, watch);
    let mut error = crew.writing.halt.take();
    if error.is_none() {
        error = finish(&crew).err();
    }
    let mut report = Report {
        complete: error.is_none(),
        bytes: crew.progress.done(),
        records: crew.records.load(Ordering::Relaxed),
        buffer_bytes: sizes.fill,
        outputs: crew.writing.reports(),
        ..Report::default()
    };
    for (worker, peak) in left {
        report.buffers += worker.work.items;
        report.peak_bytes += (peak + process.worker_bytes(sizes.capacity)) as u64;
        report.workers.push(worker);
    }
    report.peak_bytes += process.shared_bytes() as u64;
    let reading = crew
        .reading
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    report.inputs = reading.end();
    report.elapsed = begun.elapsed();
    match error {
        None => Ok(report),
        Some(error) => Err(Failure {
            error,
            report: Box::new(report),
        }),
    }
}

/// Whether a run would begin, without touching any input or output.
///
/// # Errors
/// What `run` says of options that cannot be, or of too little memory.
pub fn check<P: Process>(
    options: &Options,
    inputs: &[Input<'_>],
    process: &P,
    outputs: usize,
) -> Result<(), NbufError> {
    checked_outputs(process, outputs)?;
    let in_turn = options.order.executes_in_turn() && !process.order_does_not_show();
    find_sizes(options, inputs, process, outputs > 0, in_turn).map(drop)
}

/// Refuses several outputs for one stream.
fn checked_outputs<P: Process>(process: &P, outputs: usize) -> Result<(), NbufError> {
    if outputs > 1 && process.makes_one_stream() {
        return Err(NbufError::Option {
            option: "dst",
            got: format!("{outputs} destinations"),
            legal:
                "one destination: the processor makes one stream; for a copy elsewhere run again"
                    .to_owned(),
        });
    }
    Ok(())
}

fn find_sizes<P: Process>(
    options: &Options,
    inputs: &[Input<'_>],
    process: &P,
    writes: bool,
    in_turn: bool,
) -> Result<Sizes, NbufError> {
    let strides = options.framing.stride().is_some();
    let carries = |input: &&Input<'_>| input.streams() || (input.waits() && !strides);
    let needs = Needs {
        owns: inputs.iter().any(Input::waits),
        reads: inputs.iter().any(Input::waits),
        carries: inputs.iter().filter(carries).count(),
        stages: process.stages(),
        writes,
        in_turn,
        in_joins: process.works_in_joins(),
        worker_bytes: &|buffer| process.worker_bytes(buffer),
        shared_bytes: process.shared_bytes(),
    };
    sizes(options, &needs)
}

/// Starts the workers, watches them, and gives what they leave.
fn staff<P: Process>(
    crew: &Crew<'_, P>,
    workers: usize,
    watch: &mut dyn FnMut(&Progress) -> bool,
) -> Vec<Left> {
    let mut poll = || {
        if !watch(&crew.progress) {
            crew.stop(0, NbufError::Interrupted);
        }
    };
    thread::scope(|scope| {
        let group = WaitGroup::new();
        let mut threads = Vec::with_capacity(workers);
        for worker in 0..workers {
            let token = group.token();
            let named = thread::Builder::new().name(format!("nbuf-{worker}"));
            let started = named.spawn_scoped(scope, move || {
                let _token = token;
                let worked = catch_unwind(AssertUnwindSafe(|| crew.work()));
                worked.unwrap_or_else(|panic| crew.lost(&*panic))
            });
            match started {
                Ok(thread) => threads.push(thread),
                Err(why) => {
                    crew.stop(0, NbufError::Thread { worker, why });
                    break;
                }
            }
        }
        group.wait(&mut poll);
        poll();
        let left = threads.into_iter().map(|thread| {
            let joined = thread.join();
            joined.unwrap_or_else(|panic| crew.lost(&*panic))
        });
        left.collect()
    })
}

/// When all buffers are written: what the processor still has, and what outputs keep back.
fn finish<P: Process>(crew: &Crew<'_, P>) -> Result<(), NbufError> {
    let mut failed = None;
    let mut write = |bytes: &[u8]| {
        if failed.is_none()
            && let Err(error) = crew.writing.write_last(bytes)
        {
            failed = Some(error.unwrap_or(NbufError::Interrupted));
        }
    };
    let done = catch_unwind(AssertUnwindSafe(|| crew.process.finish(&mut write)));
    if let Some(error) = failed {
        return Err(error);
    }
    let why = match done {
        Ok(Ok(())) => return crew.writing.flush(),
        Ok(Err(why)) => why,
        Err(panic) => Box::new(Panicked::new(&*panic)),
    };
    let (offset, length, why) = match why.downcast::<Located>() {
        Ok(located) => (located.offset, located.length, located.why),
        Err(why) => (crew.progress.done(), 0, why),
    };
    Err(NbufError::Process {
        offset,
        length,
        why,
    })
}
