//! [`RunOptions`]: how a plan is executed.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use isochrony_runtime::{Interrupt, Pinning, Progress, Watch};
use serde::{Deserialize, Serialize};

use super::budget::{ExecutionMemory, MemoryHandle};
use super::control::Control;
use super::cut_rule::CutRule;
use super::tuning::Tuning;
use crate::TaskCluster;
use crate::sinks::event_order::EventOrders;

/// Default of [`RunOptions::memory`].
pub const DEFAULT_MEMORY: u64 = 1 << 30;

/// Default of [`RunOptions::task`]: milliseconds of work.
pub const DEFAULT_TASK: u64 = 4 << 20;

/// Sizes of stages, for tests and measurements. Results depend only on `cell_bytes`; block lengths seen by functions
/// may depend on any.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct StageOptions {
    /// Microseconds before other threads join.
    pub helpers_after_us: u64,
    /// Microseconds until a waiting stage is polled: not every source wakes its stage.
    pub poll_us: u64,
    /// Approximate source bytes per burst, so that data between stages stays in the cache.
    pub burst_bytes: u64,
    /// Approximate new bytes per block of a replicated stage.
    pub block_bytes: u64,
    /// Approximate sample bytes per cell of operators that settle, in tasks and on streams alike, since results depend on
    /// it; at most [`RunOptions::task`]. 4 MiB leave the cache before the next stage reads them; of much less a large part
    /// is read twice, to settle.
    pub cell_bytes: u64,
    /// Least expected microseconds of an operator call for which other threads are asked to compute parts of it: asking
    /// takes about one, and a thread that sleeps comes some ten later.
    pub divided_us: u64,
    /// Approximate link capacity in bytes.
    pub link_bytes: u64,
    /// Seed for random changes of link capacities, replicas and threads after each burst of the caller's thread, of the
    /// size of each task, and of slots and batches after each message of a cluster.
    pub shuffle: Option<u64>,
    /// Consecutive threads assumed to share a last-level cache; 0: detect, if pinned.
    pub threads_per_cache: usize,
}

impl Default for StageOptions {
    fn default() -> Self {
        Self {
            helpers_after_us: 500,
            poll_us: 20_000,
            burst_bytes: 1 << 20,
            block_bytes: 1 << 20,
            cell_bytes: 1 << 20,
            divided_us: 50,
            link_bytes: 2 << 20,
            shuffle: None,
            threads_per_cache: 0,
        }
    }
}

/// How a plan is cut whose workers nobody asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum PlanCuts {
    #[default]
    Any,
    /// In stages, which one thread executes until it is busy for some time.
    Stages,
    /// In such stages, without replicas: each operator is given the items that one thread would give it.
    WholeItems,
}

/// Execution options. Bindings read plain values by name from JSON.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RunOptions<'a> {
    /// Maximum bytes in queues and result blocks of all threads.
    pub memory: u64,
    /// Checked between operator calls.
    #[serde(skip)]
    pub interrupt: Option<&'a Interrupt>,
    /// Called in the caller's thread before source items and emissions, at its interval if operator calls are shorter.
    /// Charged to no operator.
    #[serde(skip)]
    pub watch: Option<&'a Watch>,
    /// Whether the optimiser rewrites the plan, with the same results.
    pub optimise: bool,
    /// Counts source samples after each burst. The total is unknown if any source's is.
    #[serde(skip)]
    pub progress: Option<&'a Progress>,
    /// Changes the running plan.
    #[serde(skip)]
    pub control: Option<&'a Control>,
    /// Tunes threads, replicas, links and tasks, or recommends changes; on a cluster slots, batches and tasks.
    #[serde(skip)]
    pub tuning: Option<&'a Tuning>,
    /// Task threads beside the caller's, which executes the sequential part; in stages: threads that compute at once,
    /// the caller's included. With 1, tasks run only operators that settle ([`Contract::Settling`](crate::Contract)), so
    /// results are bit-identical for any number.
    pub workers: usize,
    /// `workers` is the maximum: one if the plan is short, or if several would change what user code is given, or what
    /// is read of a live or generated feed. Other threads join a plan with a feed, a function or a `limit` once the
    /// caller's is busy.
    pub auto_workers: bool,
    /// Approximate sample bytes per task, without overlap; less if memory is short and cuts do not change results.
    pub task: u64,
    /// Largest deviation from a single pass, relative to the largest values involved, beside a rounding of their type.
    /// Allows settling operators ([`Contract::Settling`](crate::Contract)) in tasks and, on streams, in cells; NaN and
    /// infinities then reach to the end of task or cell instead of the contiguous range. With 0 they work in order. For
    /// each tolerance results are bit-identical for any number of workers.
    pub tolerance: f64,
    /// Pins each thread to a CPU. The caller's affinity is restored at the end. Each gets its own physical core while
    /// available: see [`CpuPlacement`](isochrony_runtime::CpuPlacement). Threads and processes of user code inherit the
    /// CPU.
    pub pin: bool,
    /// Measures times for the report, at up to 1 % of throughput; else only the total.
    pub measure: bool,
    /// Maximum seconds, in total, that operators and links hold back results to batch them; computing and waiting for a
    /// core come on top. None: as long as sources have samples.
    pub latency: Option<f64>,
    /// Stage sizes.
    pub stages: StageOptions,
    /// A cluster that executes tasks, instead of threads.
    #[serde(skip)]
    pub cluster: Option<&'a dyn TaskCluster>,
    /// Worker number from 0; None in the caller's thread.
    #[serde(skip)]
    pub worker: Option<usize>,
    /// State shared by factory operators.
    #[serde(skip)]
    pub shared: Option<&'a Arc<dyn Any + Send + Sync>>,
    /// Memory shared with other threads; None: all is this execution's.
    #[serde(skip)]
    pub(crate) shared_memory: Option<&'a MemoryHandle>,
    #[serde(skip)]
    pub(crate) pinning: Option<&'a Pinning>,
    /// Bytes of `memory` for links from hosts.
    #[serde(skip)]
    pub(crate) link_bytes: u64,
    /// Other processes compute blocks of local feeds, whose times they do not know.
    #[serde(skip)]
    pub(crate) has_slots: bool,
    #[serde(skip)]
    pub(crate) cuts: PlanCuts,
    /// Where the plan is cut into stages; None: as declared costs have it.
    #[serde(skip)]
    pub(crate) cut_rule: Option<&'a CutRule>,
    /// Where sinks that annotate one signal meet, if the operators are made for an execution.
    #[serde(skip)]
    pub(crate) event_orders: Option<&'a EventOrders>,
}

/// An operator and the link after it hold back results: each gets half of the time.
const HOLDERS_PER_STAGE: f64 = 2.0;

impl RunOptions<'_> {
    /// Whether operators may work in tasks and cells although results then depend on where these are cut: one worker
    /// cuts like several.
    pub(crate) fn allows_settling(&self) -> bool {
        self.tolerance > 0.0
    }

    pub(crate) fn flush_interval(&self) -> Option<Duration> {
        let latency = self.latency?.clamp(0.0, 1e9);
        Some(Duration::from_secs_f64(latency / HOLDERS_PER_STAGE))
    }

    /// All but that of links from hosts; at least half.
    pub(crate) fn execution_memory(&self) -> Arc<ExecutionMemory> {
        let links = self.link_bytes.min(self.memory / 2);
        Arc::new(ExecutionMemory::new(self.memory - links))
    }

    pub(crate) fn memory_handle(&self) -> MemoryHandle {
        let own = || MemoryHandle {
            memory: self.execution_memory(),
            reclaimer: None,
        };
        self.shared_memory.cloned().unwrap_or_else(own)
    }
}

impl Default for RunOptions<'_> {
    fn default() -> Self {
        Self {
            memory: DEFAULT_MEMORY,
            interrupt: None,
            watch: None,
            optimise: true,
            progress: None,
            control: None,
            tuning: None,
            workers: 1,
            auto_workers: false,
            task: DEFAULT_TASK,
            tolerance: 0.0,
            pin: false,
            measure: true,
            latency: None,
            stages: StageOptions::default(),
            cluster: None,
            worker: None,
            shared: None,
            shared_memory: None,
            pinning: None,
            link_bytes: 0,
            has_slots: false,
            cuts: PlanCuts::Any,
            cut_rule: None,
            event_orders: None,
        }
    }
}
