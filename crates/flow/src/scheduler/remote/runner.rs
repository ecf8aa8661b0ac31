//! Worker side: the client's split plan, and threads that execute its tasks.

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use isochrony_runtime::{Interrupt, start_helper};
use isochrony_store::shard_cache::{ReportCursor, ShardCache};
use isochrony_store::{Signal, StoreError};

use super::blocks::BlockBatch;
use super::events::StreamTable;
use super::message::{MessageError, VERSION};
use super::results::{CauseCodec, ResultCodec, TaskDone};
use super::tasks::{TaskBatch, subgraphs_of};
use crate::engine::budget::{ExecutionMemory, MemoryHandle};
use crate::engine::{RunOptions, panic_error};
use crate::operators::Collect;
use crate::plan::graph::Graph;
use crate::scheduler::parallel_subgraph::ParallelSubgraph;
use crate::scheduler::partition::TaskInput;
use crate::scheduler::run::prepare;
use crate::scheduler::scan_groups::subgraph_plans;
use crate::scheduler::split::split_subgraphs;
use crate::scheduler::stages::{StagePlan, block_subgraphs};
use crate::scheduler::task_output::{Task, TaskOutput};
use crate::scheduler::task_queue::Partitioner;
use crate::scheduler::worker::Worker;
use crate::{Cause, Plan, PortType, RunError};

/// Tasks per subgraph. If the first borders agree, and the runs and gaps of a snapshot, so do the rest.
const HASHED_TASKS: usize = 256;

/// How often an idle runner checks whether another needs memory.
const RELEASE_INTERVAL: Duration = Duration::from_millis(50);

pub(crate) fn task_hash(subgraphs: &[ParallelSubgraph]) -> u64 {
    subgraph_hash(subgraphs, "tasks")
}

/// As `task_hash`, for stages whose blocks slots compute: what they read is unknown.
pub(crate) fn block_hash(subgraphs: &[ParallelSubgraph]) -> u64 {
    subgraph_hash(subgraphs, "blocks")
}

fn subgraph_hash(subgraphs: &[ParallelSubgraph], cut_into: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (
        VERSION,
        env!("CARGO_PKG_VERSION"),
        cfg!(target_endian = "little"),
        cut_into,
    )
        .hash(&mut hasher);
    let mut text = String::new();
    for subgraph in subgraphs {
        text.clear();
        let plan = &subgraph.plan;
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "{:?} {:?} {:?} {:?} {:?}",
            plan.nodes, plan.exits, plan.scans, plan.trims, subgraph.size
        );
        for operator in &subgraph.operators {
            let _ = write!(text, " {}", operator.op.name());
            for port in &operator.properties.outputs {
                // Stream names contain store paths, which may differ.
                let (kind, dtype, rate) = (port.kind(), port.dtype(), port.rate());
                let _ = write!(text, " {kind} {dtype:?} {rate:?}");
            }
        }
        for input in &subgraph.inputs {
            let _ = write!(text, " {} {:?}", input.segment, input.overlap);
        }
        if cut_into == "tasks" {
            write_tasks(&mut text, subgraph);
        }
        text.hash(&mut hasher);
    }
    hasher.finish()
}

fn write_tasks(text: &mut String, subgraph: &ParallelSubgraph) {
    for input in &subgraph.inputs {
        let _ = write!(text, " {}", input.snapshot.total());
    }
    let partitioner = subgraph.partitioner(None);
    let mut last: Option<TaskInput> = None;
    for number in 0..HASHED_TASKS as u64 {
        last = partitioner.part_after(last.as_ref(), number);
        let Some(part) = &last else { break };
        let _ = write!(text, " {part:?}");
    }
}

pub(crate) fn collecting(plans: &[Plan]) -> Vec<Plan> {
    let sink = |plan: &Plan| match plan.port() {
        PortType::Count => plan.clone(),
        _ => {
            let sink = plan.then::<Collect>(serde_json::Map::new());
            sink.unwrap_or_else(|_| plan.clone())
        }
    };
    plans.iter().map(sink).collect()
}

/// A plan prepared in a cluster worker, shared by all threads of the process.
pub struct PreparedTasks {
    subgraphs: Vec<ParallelSubgraph>,
    streams: Vec<StreamTable>,
    memory: MemoryHandle,
    releases: AtomicU64,
    hash: u64,
    /// Messages have blocks of stages of a plan with a feed.
    in_blocks: bool,
}

impl PreparedTasks {
    /// Splits plans as the client did, given the same options. `collects`: the client gathers results.
    ///
    /// # Errors
    /// [`RunError`], as where the plan is run.
    pub fn new(plans: &[Plan], collects: bool, options: &RunOptions<'_>) -> Result<Self, RunError> {
        let options = &RunOptions {
            has_slots: true,
            ..*options
        };
        let collecting = collects.then(|| collecting(plans));
        let graph = prepare(collecting.as_deref().unwrap_or(plans), options)?;
        let (subgraphs, in_blocks) = executed_subgraphs(&graph, options)?;
        Ok(Self {
            streams: subgraphs.iter().map(StreamTable::of).collect(),
            memory: MemoryHandle {
                memory: Arc::new(ExecutionMemory::new(options.memory)),
                reclaimer: None,
            },
            releases: AtomicU64::new(0),
            hash: match in_blocks {
                true => block_hash(&subgraphs),
                false => task_hash(&subgraphs),
            },
            subgraphs,
            in_blocks,
        })
    }

    /// Stored signals read by each subgraph.
    pub fn signals(&self) -> impl Iterator<Item = Vec<&Signal>> {
        self.subgraphs.iter().map(|subgraph| {
            let inputs = subgraph.inputs.iter();
            let signals = inputs.filter_map(|input| input.recording.0.stored());
            signals.map(|(signal, _)| signal).collect()
        })
    }

    /// Hash of the split plan.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// Tasks, or blocks of stages if there are none, as the client decides too.
fn executed_subgraphs(
    graph: &Graph,
    options: &RunOptions<'_>,
) -> Result<(Vec<ParallelSubgraph>, bool), RunError> {
    let plans = subgraph_plans(graph, options);
    let stages = match StagePlan::with_cells(graph, options, &plans)? {
        Some(stages) => Some(stages),
        None => {
            let subgraphs = split_subgraphs(graph, options, plans)?;
            if !subgraphs.is_empty() {
                return Ok((subgraphs, false));
            }
            StagePlan::of(graph, options).ok()
        }
    };
    let subgraphs = stages.map(|stages| block_subgraphs(graph, &stages, options));
    Ok((subgraphs.transpose()?.unwrap_or_default(), true))
}

/// Why a batch of tasks was not answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskRunnerError {
    /// Not a batch of tasks.
    #[error("a message of the client cannot be read: {0}")]
    Message(String),
    /// The client split the plan differently.
    #[error(
        "this worker split the plan differently from the client (number {own:#018x} instead of {client:#018x}): the stores or \
         the versions of packages differ; install the same versions on all hosts, and make sure that their stores are the same"
    )]
    OtherSplit {
        /// Worker's hash.
        own: u64,
        /// Client's hash.
        client: u64,
    },
    /// Unsendable result.
    #[error("a result cannot be sent to the client: {0}; report this as a bug of Isochrony")]
    Result(String),
    /// Stored data changed.
    #[error(transparent)]
    Changed(#[from] StoreError),
    /// A panic in this package.
    #[error("{0}")]
    Panicked(String),
    /// The run ended.
    #[error("the run has ended")]
    Ended,
}

impl From<MessageError> for TaskRunnerError {
    fn from(error: MessageError) -> Self {
        Self::Message(error.to_string())
    }
}

type Answer = Result<Vec<u8>, TaskRunnerError>;

struct Calls {
    batches: Sender<Vec<u8>>,
    answers: Receiver<Answer>,
}

/// A worker thread that executes one plan's tasks. Ends on drop.
pub struct TaskRunner {
    /// None: ending. One call at a time.
    calls: Mutex<Option<Calls>>,
    interrupt: Arc<Interrupt>,
    thread: Option<JoinHandle<()>>,
}

/// State shared with the embedding language.
pub struct RunnerContext {
    /// State of factory operators.
    pub shared: Option<Arc<dyn std::any::Any + Send + Sync>>,
    /// Codec of exceptions.
    pub causes: Arc<dyn CauseCodec>,
    /// Called with each subgraph of a batch, before execution.
    pub check: Option<Arc<SnapshotCheck>>,
    /// Cache of its plans' stores.
    pub cache: Option<Arc<ShardCache>>,
}

/// Checks that what a subgraph, by its position in [`PreparedTasks::signals`], reads is unchanged since preparation.
pub type SnapshotCheck = dyn Fn(usize) -> Result<(), StoreError> + Send + Sync;

impl TaskRunner {
    /// Starts the thread; `number` is unique in the process.
    ///
    /// # Errors
    /// No thread available.
    pub fn new(
        prepared: Arc<PreparedTasks>,
        number: usize,
        options: RunOptions<'static>,
        context: RunnerContext,
    ) -> Result<Self, Cause> {
        let (batches, received) = channel::<Vec<u8>>();
        let (answer_sender, answers) = channel();
        let interrupt = Arc::new(Interrupt::default());
        let interrupted = Arc::clone(&interrupt);
        let work = move || {
            let options = RunOptions {
                interrupt: Some(&interrupted),
                worker: Some(number),
                shared: context.shared.as_ref(),
                shared_memory: Some(&prepared.memory),
                ..options
            };
            // Exits closed by one run are open in the next.
            let subgraphs = prepared.subgraphs.iter();
            let subgraphs: Vec<_> = subgraphs.map(ParallelSubgraph::with_own_exits).collect();
            let mut executor = BatchExecutor {
                prepared: &prepared,
                worker: Worker::new(number, &subgraphs, &options),
                subgraphs: &subgraphs,
                causes: &*context.causes,
                check: context.check.as_deref(),
                cache: context.cache.as_deref(),
                known: ReportCursor::default(),
                interrupt: &interrupted,
                released: prepared.releases.load(Ordering::Relaxed),
            };
            loop {
                let batch = match received.recv_timeout(RELEASE_INTERVAL) {
                    Ok(batch) => batch,
                    Err(RecvTimeoutError::Timeout) => {
                        executor.release_if_asked();
                        continue;
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                let answer = catch_unwind(AssertUnwindSafe(|| executor.answer(&batch)));
                let answer = answer.unwrap_or_else(|panic| {
                    Err(TaskRunnerError::Panicked(panic_error(&*panic).to_string()))
                });
                if answer_sender.send(answer).is_err() {
                    break;
                }
            }
        };
        Ok(Self {
            calls: Mutex::new(Some(Calls { batches, answers })),
            interrupt,
            thread: Some(start_helper(&number.to_string(), work)?),
        })
    }

    /// Executes a batch of tasks; batch and results are messages.
    ///
    /// # Errors
    /// [`TaskRunnerError`].
    pub fn run(&self, batch: Vec<u8>) -> Answer {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = calls.as_ref().ok_or(TaskRunnerError::Ended)?;
        let sent = calls.batches.send(batch);
        sent.map_err(|_| TaskRunnerError::Ended)?;
        let answer = calls.answers.recv();
        answer.map_err(|_| TaskRunnerError::Ended)?
    }

    /// Ends the current task between operator calls; no other begins.
    pub fn stop(&self) {
        self.interrupt.request();
    }
}

impl Drop for TaskRunner {
    fn drop(&mut self) {
        self.stop();
        *self.calls.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        if let Some(thread) = self.thread.take() {
            // Panics only if an operator's destructor does.
            let _ = thread.join();
        }
    }
}

type TaskResult = Result<TaskDone, String>;

fn task_done(output: Result<TaskOutput, RunError>, begun: Instant) -> TaskResult {
    let elapsed_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let done = output.map(|output| TaskDone { output, elapsed_ns });
    done.map_err(|error| error.to_string())
}

struct BatchExecutor<'a> {
    prepared: &'a PreparedTasks,
    worker: Worker<'a>,
    subgraphs: &'a [ParallelSubgraph],
    causes: &'a dyn CauseCodec,
    check: Option<&'a SnapshotCheck>,
    cache: Option<&'a ShardCache>,
    known: ReportCursor,
    interrupt: &'a Interrupt,
    released: u64,
}

impl BatchExecutor<'_> {
    fn answer(&mut self, message: &[u8]) -> Answer {
        match self.prepared.in_blocks {
            true => self.answer_blocks(message),
            false => self.answer_tasks(message),
        }
    }

    fn answer_tasks(&mut self, message: &[u8]) -> Answer {
        let batch = TaskBatch::decode(message)?;
        self.begin_batch(batch.plan_hash, &batch.closed)?;
        if let Some(cache) = self.cache {
            for (object, sources) in &batch.sources {
                cache.add_sources(*object, sources.clone());
            }
        }
        let tasks = batch.into_tasks(self.subgraphs)?;
        if let Some(check) = self.check {
            let involved = subgraphs_of(&tasks);
            involved.into_iter().try_for_each(check)?;
        }
        let (mut results, begun) = (Vec::new(), Instant::now());
        for task in tasks {
            let (at, begun) = (task.subgraph, self.begin_task()?);
            let output = self.execute(&task);
            results.push((at, task_done(output, begun)));
        }
        self.results(results, begun)
    }

    fn answer_blocks(&mut self, message: &[u8]) -> Answer {
        let (batch, payload) = BlockBatch::decode(message)?;
        self.begin_batch(batch.plan_hash, &batch.closed)?;
        let (mut results, begun) = (Vec::new(), Instant::now());
        let streams = &self.prepared.streams;
        for block in batch.into_blocks(self.subgraphs, streams, &payload)? {
            let (at, begun) = (block.stage, self.begin_task()?);
            let output = self.worker.execute_block(at, block.number, block.block);
            if matches!(output, Err(RunError::Interrupted { .. })) {
                return Err(TaskRunnerError::Ended);
            }
            results.push((at, task_done(output, begun)));
        }
        self.results(results, begun)
    }

    fn begin_batch(
        &self,
        plan_hash: u64,
        closed: &[(u32, Vec<bool>)],
    ) -> Result<(), TaskRunnerError> {
        let own = self.prepared.hash;
        if plan_hash != own {
            return Err(TaskRunnerError::OtherSplit {
                own,
                client: plan_hash,
            });
        }
        for (at, closed) in closed {
            let subgraph = self.subgraphs.get(*at as usize);
            let exits = subgraph.map_or(&[][..], |one| &one.exit_states);
            let closed = exits.iter().zip(closed).filter(|(_, closed)| **closed);
            closed.for_each(|(exit, _)| exit.close());
        }
        Ok(())
    }

    fn begin_task(&mut self) -> Result<Instant, TaskRunnerError> {
        if self.interrupt.is_requested() {
            return Err(TaskRunnerError::Ended);
        }
        self.release_if_asked();
        Ok(Instant::now())
    }

    fn results(&mut self, results: Vec<(usize, TaskResult)>, begun: Instant) -> Answer {
        let (prepared, subgraphs) = (self.prepared, self.subgraphs);
        let codec = ResultCodec {
            subgraphs,
            streams: &prepared.streams,
            causes: self.causes,
        };
        let busy = begun.elapsed();
        let involved: BTreeSet<usize> = results.iter().map(|(at, _)| *at).collect();
        let report = |at: usize| Some((at, self.worker.operator_report(at, busy)?));
        let reports: Vec<_> = involved.into_iter().filter_map(report).collect();
        let cache = self.cache.map(|cache| cache.report(&mut self.known));
        let encoded = codec.encode(results, &reports, cache);
        encoded.map_err(|error| TaskRunnerError::Result(error.to_string()))
    }

    fn execute(&mut self, task: &Task) -> Result<TaskOutput, RunError> {
        match self.worker.execute(task) {
            Err(_) => {
                self.released = self.prepared.releases.fetch_add(1, Ordering::Relaxed) + 1;
                std::thread::sleep(2 * RELEASE_INTERVAL);
                self.worker.execute(task)
            }
            done => done,
        }
    }

    fn release_if_asked(&mut self) {
        let asked = self.prepared.releases.load(Ordering::Relaxed);
        if asked != self.released {
            self.released = asked;
            self.worker.release_memory();
        }
    }
}

impl PreparedTasks {
    /// Reads a message as tasks or blocks, and as results of the first of them.
    #[cfg(feature = "fuzzing")]
    pub fn read_messages(&self, message: &[u8], causes: &dyn CauseCodec) {
        if let Ok(batch) = TaskBatch::decode(message) {
            let _ = batch.into_tasks(&self.subgraphs);
        }
        if let Ok((batch, payload)) = BlockBatch::decode(message) {
            let _ = batch.into_blocks(&self.subgraphs, &self.streams, &payload);
        }
        let codec = ResultCodec {
            subgraphs: &self.subgraphs,
            streams: &self.streams,
            causes,
        };
        for port in self.subgraphs.iter().flat_map(|one| {
            one.operators
                .iter()
                .flat_map(|node| &node.properties.outputs)
        }) {
            super::host::read_message(*port, message, causes);
        }
        for (number, subgraph) in self.subgraphs.iter().enumerate() {
            let part = match self.in_blocks {
                true => Some(TaskInput {
                    range: 0..100,
                    reads: Vec::new(),
                }),
                false => subgraph.partitioner(None).part_after(None, 0),
            };
            let Some(part) = part else {
                continue;
            };
            let task = Task {
                subgraph: number,
                number: 0,
                part,
                alone: false,
                continues: false,
            };
            let _ = codec.decode(&[&task], message, "fuzz");
        }
    }
}
