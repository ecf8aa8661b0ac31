//! Executes a stream: starts the workers, polls, and reports.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use isochrony_runtime::{Progress, WaitGroup, WorkerGate, start_worker};

use crate::buffer_sizes::{BufferSizes, MemoryNeeds};
use crate::error::{LocatedError, NbufError, PanicError, StreamFailure};
use crate::input::Input;
use crate::options::{Merge, Options};
use crate::output::Output;
use crate::processor::BlockProcessor;
use crate::report::Report;
use crate::shared_outputs::SharedOutputs;
use crate::stream_reader::StreamReader;
use crate::tunable_sizes::SizeRanges;
use crate::tuning::{SharedStateTimes, StateReplicas, StreamTuning, check_mode};
use crate::turns::TurnLock;
use crate::worker::{StreamExecution, WorkerResult};

/// Reads, processes and writes until the inputs end.
///
/// This thread calls `watch` with the bytes processed every [`POLL_INTERVAL`](isochrony_runtime::POLL_INTERVAL) and at
/// the end. False interrupts the execution, at once or when a caller's blocking `Read` or `Write` returns.
///
/// # Errors
/// The first error in stream order, after all workers have ended. Ordered output holds all that comes before the failed
/// record.
pub fn run<P: BlockProcessor>(
    options: &Options,
    inputs: Vec<Input<'_>>,
    processor: &P,
    outputs: Vec<Output<'_>>,
    watch: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Report, StreamFailure> {
    let start = Instant::now();
    let in_turn = options.order.executes_in_turn() && !processor.is_order_invariant();
    let planned = check_output_count(processor, outputs.len())
        .and_then(|()| plan_sizes(options, &inputs, processor, !outputs.is_empty(), in_turn));
    let planned = planned.and_then(|planned| {
        let tuning = start_tuning(options, &planned)?;
        Ok((planned.sizes, tuning))
    });
    let (mut sizes, mut tuning) = match planned {
        Ok(planned) => planned,
        Err(error) => {
            let report = Box::default();
            return Err(StreamFailure { error, report });
        }
    };
    let present = tuning.as_ref().map(StreamTuning::present);
    if let Some((_, fill)) = present {
        sizes.fill = sizes.aligned(fill);
    }
    let turns = || TurnLock::new(sizes.workers);
    let output_count = outputs.len();
    let reader = StreamReader::new(inputs, options, sizes);
    let fill = reader.shared_fill();
    let progress = Progress::default();
    progress.set_total(reader.size());
    let execution = StreamExecution {
        processor,
        framing: &options.framing,
        read_turns: turns(),
        reader: Mutex::new(reader),
        execute_turns: in_turn.then(turns),
        join_turns: (0..processor.lanes()).map(|_| turns()).collect(),
        outputs: SharedOutputs::new(outputs, sizes.workers, options.order.writes_in_turn()),
        output_count,
        staging_bytes: sizes.staging,
        trace: options.trace,
        start,
        progress,
        records: AtomicU64::new(0),
        gate: WorkerGate::new(present.map_or(usize::MAX, |(workers, _)| workers)),
        state_times: tuning.as_ref().map(|_| SharedStateTimes::default()),
    };
    let results = run_workers(&execution, sizes.workers, &mut || {
        if !watch(&execution.progress) {
            execution.stop_at(0, NbufError::Interrupted);
        }
        if let (Some(tuning), Some(times)) = (&mut tuning, &execution.state_times) {
            let progress = &execution.progress;
            let counters = times.counters(start.elapsed(), progress.done(), progress.total());
            if let Some((workers, bytes)) = tuning.poll(counters) {
                execution.gate.set_limit(workers);
                fill.store(bytes, Ordering::Relaxed);
            }
        }
    });
    let mut error = execution.outputs.stop_state.take_error();
    if error.is_none() {
        error = finish(&execution).err();
    }
    let mut report = Report {
        complete: error.is_none(),
        bytes: execution.progress.done(),
        records: execution.records.load(Ordering::Relaxed),
        buffer_bytes: sizes.aligned(fill.load(Ordering::Relaxed)),
        outputs: execution.outputs.reports(),
        tuning: tuning.as_ref().map(StreamTuning::report),
        ..Report::default()
    };
    for WorkerResult {
        report: worker,
        peak_bytes,
    } in results
    {
        report.buffers += worker.work.items;
        report.peak_bytes += (peak_bytes + processor.scratch_bytes(sizes.capacity)) as u64;
        report.workers.push(worker);
    }
    report.peak_bytes += processor.shared_bytes() as u64;
    let reader = execution
        .reader
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    report.inputs = reader.end();
    report.elapsed = start.elapsed();
    match error {
        None => Ok(report),
        Some(error) => Err(StreamFailure {
            error,
            report: Box::new(report),
        }),
    }
}

/// Checks whether an execution could begin, without touching inputs or outputs.
///
/// # Errors
/// As [`run`] for illegal options and too little memory.
pub fn check<P: BlockProcessor>(
    options: &Options,
    inputs: &[Input<'_>],
    processor: &P,
    outputs: usize,
) -> Result<(), NbufError> {
    check_output_count(processor, outputs)?;
    let in_turn = options.order.executes_in_turn() && !processor.is_order_invariant();
    let planned = plan_sizes(options, inputs, processor, outputs > 0, in_turn)?;
    start_tuning(options, &planned).map(drop)
}

/// None without tuning.
fn start_tuning(
    options: &Options,
    planned: &PlannedSizes,
) -> Result<Option<StreamTuning>, NbufError> {
    let (Some(mode), Some((workers, ranges))) = (&options.tuning, &planned.tunable) else {
        return Ok(None);
    };
    check_mode(mode, ranges)?;
    let start = (*workers, planned.sizes.fill);
    StreamTuning::new(mode, start, ranges, planned.replicas).map(Some)
}

fn check_output_count<P: BlockProcessor>(processor: &P, outputs: usize) -> Result<(), NbufError> {
    if outputs > 1 && processor.needs_single_output() {
        return Err(NbufError::Option {
            option: "dst",
            got: format!("{outputs} destinations"),
            legal:
                "one destination, since the processor writes one stream; for another copy run it again"
                    .to_owned(),
        });
    }
    Ok(())
}

struct PlannedSizes {
    /// If tuned, of the most workers with the largest buffers, except for the present `fill`.
    sizes: BufferSizes,
    /// Initial workers, and what tuning may choose.
    tunable: Option<(usize, SizeRanges)>,
    replicas: StateReplicas,
}

fn plan_sizes<P: BlockProcessor>(
    options: &Options,
    inputs: &[Input<'_>],
    processor: &P,
    has_outputs: bool,
    in_turn: bool,
) -> Result<PlannedSizes, NbufError> {
    let has_stride = options.framing.stride().is_some();
    let may_carry =
        |input: &&Input<'_>| input.is_sequential() || (input.needs_reading() && !has_stride);
    let needs_reading = inputs.iter().any(Input::needs_reading);
    let needs = MemoryNeeds {
        buffers: needs_reading,
        reading_blocks: needs_reading,
        carries: inputs.iter().filter(may_carry).count(),
        staging: processor.needs_staging(),
        has_outputs,
        in_turn,
        join_bound: processor.is_join_bound(),
        scratch_bytes: &|buffer| processor.scratch_bytes(buffer),
        shared_bytes: processor.shared_bytes(),
    };
    let mut sizes = BufferSizes::plan(options, &needs)?;
    let tunable = options.tuning.as_ref().map(|_| {
        let merges_buffers = options.merge == Merge::Fair && inputs.len() > 1;
        let cuts_show = merges_buffers || !processor.is_cut_invariant();
        let workers = sizes.workers;
        let ranges = SizeRanges::around(&mut sizes, options, &needs, cuts_show);
        (workers, ranges)
    });
    let execute = match (in_turn, processor.is_join_bound()) {
        (true, _) => 1,
        (false, true) => processor.lanes().clamp(1, sizes.workers),
        (false, false) => sizes.workers,
    };
    let reads_in_turn = needs.carries > 0;
    let replicas = [if reads_in_turn { 1 } else { sizes.workers }, execute, 1];
    Ok(PlannedSizes {
        sizes,
        tunable,
        replicas,
    })
}

fn run_workers<P: BlockProcessor>(
    execution: &StreamExecution<'_, P>,
    workers: usize,
    poll: &mut dyn FnMut(),
) -> Vec<WorkerResult> {
    thread::scope(|scope| {
        let group = WaitGroup::new();
        let mut threads = Vec::with_capacity(workers);
        for worker in 0..workers {
            let token = group.token();
            let spawned = start_worker(scope, worker, None, move || {
                let _token = token;
                let result = catch_unwind(AssertUnwindSafe(|| execution.run_worker(worker)));
                result.unwrap_or_else(|panic| execution.fail_worker(&*panic))
            });
            match spawned {
                Ok(thread) => threads.push(thread),
                Err(why) => {
                    execution.stop_at(0, NbufError::Thread { worker, why });
                    break;
                }
            }
        }
        group.wait(&mut *poll);
        poll();
        let results = threads.into_iter().map(|thread| {
            let joined = thread.join();
            joined.unwrap_or_else(|panic| execution.fail_worker(&*panic))
        });
        results.collect()
    })
}

/// Writes what the processor still holds.
fn finish<P: BlockProcessor>(execution: &StreamExecution<'_, P>) -> Result<(), NbufError> {
    let mut failed = None;
    let mut write = |bytes: &[u8]| {
        if failed.is_none()
            && let Err(error) = execution.outputs.write_last(bytes)
        {
            failed = Some(error.unwrap_or(NbufError::Interrupted));
        }
    };
    let done = catch_unwind(AssertUnwindSafe(|| execution.processor.finish(&mut write)));
    if let Some(error) = failed {
        return Err(error);
    }
    let why = match done {
        Ok(Ok(())) => return execution.outputs.flush(),
        Ok(Err(why)) => why,
        Err(panic) => Box::new(PanicError::new(&*panic)),
    };
    let (offset, length, why) = match why.downcast::<LocatedError>() {
        Ok(located) => (located.offset, located.length, located.why),
        Err(why) => (execution.progress.done(), 0, why),
    };
    Err(NbufError::Process {
        offset,
        length,
        why,
    })
}
