//! [`measure`]: a function on some blocks of its input, in one thread, in two at the same time, and in a worker
//! process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use isochrony_runtime::{Interrupt, start_scoped_helper};
use isochrony_tune::{FunctionCosts, FunctionPlace, MIN_PLACE_GAIN, PlaceOutcome, ProcessCosts};

use super::placed::with_place;
use crate::engine::{PlanExecutor, RunOptions, panic_error};
use crate::plan::Op;
use crate::plan::graph::Graph;
use crate::scheduler::characterise::replay::{Events, capture, replay};
use crate::scheduler::worker_gain::duration;
use crate::{Parallelism, PortType, RunError};

/// Shorter runs are not measured any further: there is nothing to gain.
const MIN_RUN_S: f64 = 0.1;
/// The first blocks that tell how long the run takes.
const FIRST_SHARE: u64 = 3200;
/// Samples of which a block must reach the function.
const LARGEST_SHARE: u64 = 50;
/// In one thread and in two, the fastest of so many rounds counts: other programs only slow them down.
const ROUNDS: u32 = 2;
/// Times that the measured blocks are computed: rounds in one thread and in two that wait for each other, and two calls
/// in a process.
const PASSES: f64 = (3 * ROUNDS + 2) as f64;
/// Memory for captured blocks.
const MAX_SAMPLES: u64 = 2 << 20;
/// Expected start of a worker process; it is started for a measurement only if the run would gain then.
const START_S: f64 = 0.3;
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// What measurements may take: the shorter time, but in any case that of a block within the share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MeasurementBudget {
    /// Of the expected run.
    pub(super) share: f64,
    pub(super) seconds: f64,
}

impl MeasurementBudget {
    pub(super) fn shared_by(self, functions: usize) -> Self {
        let part = 1.0 / functions.max(1) as f64;
        Self {
            share: part * self.share,
            seconds: part * self.seconds,
        }
    }

    /// So many samples may be measured.
    fn samples(self, costs: &FunctionCosts, total: u64) -> u64 {
        let run_s = (costs.before_s + costs.call_s) * total as f64;
        let seconds = (self.share * run_s).min(self.seconds);
        (seconds / (costs.before_s + PASSES * costs.call_s)) as u64
    }
}

/// What a decision says beside the places.
pub(super) struct PlaceChoice {
    pub(super) outcome: PlaceOutcome,
    pub(super) place: FunctionPlace,
    pub(super) reason: String,
    pub(super) gain: Option<f64>,
    pub(super) alternatives: Vec<(FunctionPlace, Option<f64>)>,
}

impl PlaceChoice {
    pub(super) fn not_measured(reason: impl Into<String>) -> Self {
        Self::without_gain(PlaceOutcome::NotMeasured, FunctionPlace::Auto, reason)
    }

    fn without_gain(
        outcome: PlaceOutcome,
        place: FunctionPlace,
        reason: impl Into<String>,
    ) -> Self {
        Self {
            outcome,
            place,
            reason: reason.into(),
            gain: None,
            alternatives: Vec::new(),
        }
    }
}

pub(super) struct Measurement<'a> {
    pub(super) graph: &'a Graph,
    pub(super) node: usize,
    /// Of the longest source.
    pub(super) samples: u64,
    pub(super) threads: usize,
    pub(super) before_is_parallel: bool,
    pub(super) budget: MeasurementBudget,
}

/// Measures a function and chooses its place. An error of the plan or the function is left to the run.
///
/// # Errors
/// [`RunError::Interrupted`].
pub(super) fn measure(
    of: &Measurement<'_>,
    options: &RunOptions<'_>,
) -> Result<PlaceChoice, RunError> {
    let options = RunOptions {
        tuning: None,
        progress: None,
        measure: false,
        worker: Some(0),
        ..*options
    };
    match of.finding(&options) {
        Ok(finding) => Ok(finding),
        Err(MeasurementFailure::Ended(error)) => Err(error),
        Err(MeasurementFailure::Failed(why)) => Ok(PlaceChoice::without_gain(
            PlaceOutcome::Chosen,
            FunctionPlace::Inline,
            format!("the measurement failed: {why}"),
        )),
        Err(MeasurementFailure::NoBlocks) => Ok(PlaceChoice::not_measured(format!(
            "no block reaches it in the first {} % of the samples",
            100 / LARGEST_SHARE
        ))),
        Err(MeasurementFailure::TooLong(block_s)) => Ok(PlaceChoice::not_measured(format!(
            "a call takes {}, too long for measurements in {:.1} % of the run",
            duration(block_s),
            100.0 * of.budget.share
        ))),
    }
}

enum MeasurementFailure {
    /// The user ended the run.
    Ended(RunError),
    /// An operator failed, as text.
    Failed(String),
    NoBlocks,
    /// Seconds of a call.
    TooLong(f64),
}

impl MeasurementFailure {
    /// A signal's exception inside a function requests an interrupt, and is one, too.
    fn of(error: RunError, options: &RunOptions<'_>) -> Self {
        let is_requested = (options.interrupt).is_some_and(Interrupt::is_requested);
        match error {
            RunError::Interrupted { .. } => Self::Ended(error),
            _ if is_requested => Self::Ended(RunError::Interrupted { items: 0 }),
            error => {
                let text = error.to_string();
                Self::Failed(text.lines().next().unwrap_or_default().to_owned())
            }
        }
    }
}

/// Blocks of the function's input, and what one thread took for them.
struct CapturedBlocks {
    inputs: Vec<Arc<Events>>,
    /// Of the longest source.
    samples: u64,
    before: Duration,
}

impl Measurement<'_> {
    fn finding(&self, options: &RunOptions<'_>) -> Result<PlaceChoice, MeasurementFailure> {
        let total = self.samples as f64;
        let (mut costs, blocks) = self.first_costs(options)?;
        let run_s = (costs.before_s + costs.call_s) * total;
        if run_s < MIN_RUN_S {
            let reason = format!(
                "the run is expected to take {} in one thread",
                duration(run_s)
            );
            let (outcome, place) = (PlaceOutcome::TooShort, FunctionPlace::Auto);
            return Ok(PlaceChoice::without_gain(outcome, place, reason));
        }
        let mut said = format!(
            "{} for {} samples in one thread",
            duration(costs.call_s * blocks.samples as f64),
            blocks.samples
        );
        if costs.largest_gain(total, self.threads) < MIN_PLACE_GAIN {
            said += ": too little to gain elsewhere";
            let (outcome, place) = (PlaceOutcome::Chosen, FunctionPlace::Inline);
            return Ok(PlaceChoice::without_gain(outcome, place, said));
        }
        match self.in_threads(&blocks, options)? {
            Ok((one, two)) => {
                costs.call_s = one.as_secs_f64() / blocks.samples as f64;
                let both = 2.0 * one.as_secs_f64() / two.as_secs_f64().max(1e-9);
                costs.two_threads = Some(both);
                said = format!(
                    "{} for {} samples in one thread, {both:.2} times as fast in two at once",
                    duration(one.as_secs_f64()),
                    blocks.samples
                );
            }
            Err(why) => said += &format!(", failed in two at once: {why}"),
        }
        self.try_process(&mut costs, &mut said, &blocks, options)?;
        let place = costs.best(total, self.threads);
        let gain = |place| costs.gain(place, total, self.threads);
        let all = [
            FunctionPlace::Threads,
            FunctionPlace::Processes,
            FunctionPlace::Inline,
        ];
        let others = all.into_iter().filter(|&other| other != place);
        let mut alternatives: Vec<_> = others.map(|other| (other, gain(other))).collect();
        let order = |gain: Option<f64>| gain.unwrap_or(f64::NEG_INFINITY);
        alternatives.sort_by(|one, other| order(other.1).total_cmp(&order(one.1)));
        Ok(PlaceChoice {
            outcome: PlaceOutcome::Chosen,
            place,
            reason: said,
            gain: gain(place),
            alternatives,
        })
    }

    /// Of few blocks, then of as many as the budget allows.
    fn first_costs(
        &self,
        options: &RunOptions<'_>,
    ) -> Result<(FunctionCosts, CapturedBlocks), MeasurementFailure> {
        let most = (self.samples / LARGEST_SHARE).clamp(1, MAX_SAMPLES);
        let mut samples = (self.samples / FIRST_SHARE).clamp(1, most);
        let mut blocks = loop {
            match self.capture(samples, options)? {
                Some(blocks) => break blocks,
                None if samples >= most => return Err(MeasurementFailure::NoBlocks),
                None => samples = (4 * samples).min(most),
            }
        };
        let mut costs = self.costs(&blocks, options)?;
        let run_s = (costs.before_s + costs.call_s) * self.samples as f64;
        let allowed = self.budget.samples(&costs, self.samples).min(most);
        // More blocks hide what each call takes beside its samples, as in the run.
        let is_too_much = allowed < blocks.samples;
        if run_s >= MIN_RUN_S && (is_too_much || allowed > 2 * blocks.samples) {
            match self.capture(allowed, options)? {
                Some(others) => {
                    blocks = others;
                    costs = self.costs(&blocks, options)?;
                }
                None if is_too_much => {
                    // The first blocks are all but the smallest that there are.
                    let block_s = costs.call_s * blocks.samples as f64;
                    if PASSES * block_s > self.budget.share * run_s {
                        return Err(MeasurementFailure::TooLong(block_s));
                    }
                }
                None => {}
            }
        }
        Ok((costs, blocks))
    }

    fn costs(
        &self,
        blocks: &CapturedBlocks,
        options: &RunOptions<'_>,
    ) -> Result<FunctionCosts, MeasurementFailure> {
        let call = self.call(FunctionPlace::Threads, blocks, options)?;
        let per_sample = |time: Duration| time.as_secs_f64() / blocks.samples as f64;
        Ok(FunctionCosts {
            call_s: per_sample(call),
            before_s: per_sample(blocks.before),
            before_is_parallel: self.before_is_parallel,
            two_threads: None,
            process: None,
        })
    }

    /// None if no block reaches the function.
    fn capture(
        &self,
        samples: u64,
        options: &RunOptions<'_>,
    ) -> Result<Option<CapturedBlocks>, MeasurementFailure> {
        let mut graph = self.graph.clone();
        for node in &mut graph.nodes {
            if let Op::Scan { segment, .. } = &mut node.op {
                *segment = (*segment).min(samples);
            }
        }
        let plan = capture(&graph, &self.graph.nodes[self.node].inputs, samples);
        // In the caller's thread: functions before this one are called here, too.
        let here = RunOptions {
            worker: None,
            ..*options
        };
        let before = timed(&plan.graph, &here)?;
        let (inputs, samples) = plan.take();
        let samples = self.whole_windows(samples);
        let items: u64 = inputs.iter().map(|input| input.items()).sum();
        Ok((items > 0 && samples > 0).then_some(CapturedBlocks {
            inputs,
            samples,
            before,
        }))
    }

    /// Without the samples that begin no whole window.
    fn whole_windows(&self, samples: u64) -> u64 {
        let edge = self.graph.nodes[self.node].inputs.first();
        let port = edge.map(|&(from, output)| {
            let outputs = &self.graph.nodes[from].properties.outputs;
            outputs[usize::from(output)]
        });
        match port {
            Some(PortType::Frames { window, hop, .. }) if samples >= window => {
                let windows = (samples - window) / hop + 1;
                samples.min(windows * hop)
            }
            _ => samples,
        }
    }

    fn graph(&self, place: FunctionPlace, blocks: &CapturedBlocks) -> Graph {
        let graph = with_place(self.graph, self.node, place);
        let edges = &graph.nodes[self.node].inputs;
        replay(&graph, self.node, edges, &blocks.inputs, true)
    }

    /// One call for each block, in this thread.
    fn call(
        &self,
        place: FunctionPlace,
        blocks: &CapturedBlocks,
        options: &RunOptions<'_>,
    ) -> Result<Duration, MeasurementFailure> {
        timed(&self.graph(place, blocks), options)
    }

    /// What one thread takes, and two at the same time, each for all blocks; the error is that of one of two.
    fn in_threads(
        &self,
        blocks: &CapturedBlocks,
        options: &RunOptions<'_>,
    ) -> Result<Result<(Duration, Duration), String>, MeasurementFailure> {
        let graph = self.graph(FunctionPlace::Threads, blocks);
        let (mut one, mut two) = (Duration::MAX, Duration::MAX);
        for _ in 0..ROUNDS {
            one = one.min(timed(&graph, options)?);
            match timed_twice(&graph, options) {
                Ok(both) => two = two.min(both),
                Err(MeasurementFailure::Failed(why)) => return Ok(Err(why)),
                Err(error) => return Err(error),
            }
        }
        Ok(Ok((one, two)))
    }

    /// Measures a worker process if the run would gain by one that takes no longer than this thread.
    fn try_process(
        &self,
        costs: &mut FunctionCosts,
        said: &mut String,
        blocks: &CapturedBlocks,
        options: &RunOptions<'_>,
    ) -> Result<(), MeasurementFailure> {
        let ideal = FunctionCosts {
            process: Some(ProcessCosts {
                call_s: costs.call_s,
                start_s: START_S,
            }),
            ..*costs
        };
        if ideal.best(self.samples as f64, self.threads) != FunctionPlace::Processes {
            return Ok(());
        }
        let placed = with_place(self.graph, self.node, FunctionPlace::Processes);
        if let Op::Factory(factory) = &placed.nodes[self.node].op
            && let Parallelism::CallingThread(why) = factory.0.parallelism(options)
        {
            *said += &format!(", not in a worker process: it {why}");
            return Ok(());
        }
        // The process starts with the first call, and stays for the run.
        let calls = self
            .call(FunctionPlace::Processes, blocks, options)
            .and_then(|first| {
                let next = self.call(FunctionPlace::Processes, blocks, options)?;
                Ok((first, next))
            });
        match calls {
            Ok((first, next)) => {
                let start = first.saturating_sub(next);
                costs.process = Some(ProcessCosts {
                    call_s: next.as_secs_f64() / blocks.samples as f64,
                    start_s: start.as_secs_f64(),
                });
                *said += &format!(
                    ", {} in a worker process that takes {} to start",
                    duration(next.as_secs_f64()),
                    duration(start.as_secs_f64())
                );
            }
            Err(MeasurementFailure::Failed(why)) => {
                *said += &format!(", failed in a worker process: {why}")
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Without setup.
fn timed(graph: &Graph, options: &RunOptions<'_>) -> Result<Duration, MeasurementFailure> {
    let executor = PlanExecutor::new(graph, options);
    let begun = Instant::now();
    let ran = executor.and_then(|mut executor| executor.run(options));
    let elapsed = begun.elapsed();
    ran.map_err(|error| MeasurementFailure::of(error, options))?;
    Ok(elapsed)
}

/// Two executions at the same time, until both have ended.
fn timed_twice(graph: &Graph, options: &RunOptions<'_>) -> Result<Duration, MeasurementFailure> {
    let (start, stop) = (Barrier::new(2), Interrupt::default());
    let theirs = RunOptions {
        interrupt: Some(&stop),
        watch: None,
        worker: Some(1),
        ..*options
    };
    let run = |options: &RunOptions<'_>| {
        // The barrier must be reached in any case.
        let executor = catch_unwind(AssertUnwindSafe(|| PlanExecutor::new(graph, options)));
        start.wait();
        let begun = Instant::now();
        let executor = executor.unwrap_or_else(|panic| Err(panicked(graph, &*panic)));
        let ran = executor.and_then(|mut executor| executor.run(options).map(drop));
        ran.map(|()| (begun, Instant::now()))
    };
    std::thread::scope(|scope| {
        let Ok(other) = start_scoped_helper(scope, "places", || run(&theirs)) else {
            return Err(MeasurementFailure::Failed(
                "no thread could be started".into(),
            ));
        };
        let own = run(options);
        while own.is_ok() && !other.is_finished() {
            // Signals are handled meanwhile.
            if options.watch.is_some_and(|watch| !watch.poll()) {
                stop.request();
                let _ended = other.join();
                return Err(MeasurementFailure::Ended(RunError::Interrupted {
                    items: 0,
                }));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        stop.request();
        let other = (other.join()).unwrap_or_else(|panic| Err(panicked(graph, &*panic)));
        let both = own.and_then(|own| Ok((own, other?)));
        let ((begun, end), (_, other_end)) =
            both.map_err(|error| MeasurementFailure::of(error, options))?;
        Ok(end.max(other_end).duration_since(begun))
    })
}

fn panicked(graph: &Graph, panic: &(dyn std::any::Any + Send)) -> RunError {
    let node = graph.nodes.len() - 1;
    RunError::Operator {
        operator: graph.nodes[node].op.name(),
        node,
        range: None,
        time: None,
        error: panic_error(panic),
    }
}
