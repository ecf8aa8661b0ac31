//! [`RunOptions`]: how a plan is executed.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use isochrony_runtime::{Interrupt, Pinning, Progress, Watch};
use serde::{Deserialize, Serialize};

use super::budget::{ExecutionMemory, MemoryHandle};
use super::control::Control;
use super::tuning::Tuning;
use crate::TaskCluster;

/// Default of [`RunOptions::memory`].
pub const DEFAULT_MEMORY: u64 = 1 << 30;

/// Default of [`RunOptions::task`]: milliseconds of work.
pub const DEFAULT_TASK: u64 = 4 << 20;

/// Sizes of stages, for tests and measurements. Results depend only on `cell_bytes`; the lengths of the blocks that
/// functions get may depend on any.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct StageOptions {
    /// Microseconds before other threads join the caller's: a shorter execution needs none.
    pub helpers_after_us: u64,
    /// Microseconds after which a stage that waits for input is tried again: not every source wakes its stage.
    pub poll_us: u64,
    /// Approximate bytes of a source in a burst: what stages pass to each other stays in the cache.
    pub burst_bytes: u64,
    /// Approximate new bytes in a block of a replicated stage, if enough have arrived.
    pub block_bytes: u64,
    /// Approximate bytes of samples in a cell of a stage that settles; results depend on it. A cell of 4 MiB leaves
    /// the cache before the next stage reads it: a low-pass on two cores was then no faster than in order.
    pub cell_bytes: u64,
    /// Approximate bytes that a link holds.
    pub link_bytes: u64,
    /// Seed for changing the capacity of links, the number of replicas and that of threads at random, after each burst of
    /// the caller's thread.
    pub shuffle: Option<u64>,
    /// So many consecutive threads count as sharing a last-level cache, as on a larger machine; 0: those that share
    /// one, if they are pinned.
    pub threads_per_cache: usize,
}

impl Default for StageOptions {
    fn default() -> Self {
        Self {
            helpers_after_us: 500,
            poll_us: 20_000,
            burst_bytes: 512 << 10,
            block_bytes: 512 << 10,
            cell_bytes: 512 << 10,
            link_bytes: 1 << 20,
            shuffle: None,
            threads_per_cache: 0,
        }
    }
}

/// How a plan is executed. Bindings read plain values by name from JSON and set the references themselves.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RunOptions<'a> {
    /// Most bytes in queues and blocks of results, of all threads together.
    pub memory: u64,
    /// Checked between operator calls.
    #[serde(skip)]
    pub interrupt: Option<&'a Interrupt>,
    /// Called in the caller's thread, before an item of a source or where an operator emits one; at its interval if
    /// operator calls are shorter. Its time is charged to no operator.
    #[serde(skip)]
    pub watch: Option<&'a Watch>,
    /// Whether the optimiser rewrites the plan first; results are the same.
    pub optimise: bool,
    /// Counts the samples that sources give, after each burst. The total is unknown if that of one source is.
    #[serde(skip)]
    pub progress: Option<&'a Progress>,
    /// Changes parameters, replicas and links while the plan is executed.
    #[serde(skip)]
    pub control: Option<&'a Control>,
    /// Changes threads, replicas and links while the plan is executed, or recommends what to change. Not on a cluster.
    #[serde(skip)]
    pub tuning: Option<&'a Tuning>,
    /// Threads that run tasks, beside the caller's, which executes the sequential part. Where nothing runs in tasks:
    /// how many stages compute at once, the caller's included. With 1, only operators whose results depend on the
    /// cuts, such as sums ([`Contract::Reducible`](crate::Contract)), run in tasks, so that results have the same
    /// bits for any number.
    pub workers: usize,
    /// `workers` is the maximum: it is one if the plan is short, may end early, calls Python, has a [`Control`], or
    /// reads what is made or received while it runs.
    pub auto_workers: bool,
    /// Approximate bytes of samples that a task reads, overlap excluded; less where memory is short and cuts do not
    /// change results.
    pub task: u64,
    /// Largest difference of results from those of one pass, relative to the largest values that go into them, beside
    /// a rounding of their type. It lets operators that settle ([`Contract::Settling`](crate::Contract)) run in tasks
    /// and, on streams, in cells. NaN and infinities then reach to the end of their task or cell, instead of that of
    /// the contiguous range. With 0 such operators work in order. For each tolerance results have the same bits for
    /// any number of workers: one uses the same tasks and cells.
    pub tolerance: f64,
    /// Pins each thread to a CPU, the caller's too, which gets its affinity back at the end. Each gets a physical
    /// core of its own while there are any, near the others: see [`CpuPlacement`](isochrony_runtime::CpuPlacement).
    /// Threads and processes that user code starts meanwhile inherit the CPU.
    pub pin: bool,
    /// Measures where time is spent, for the report; costs at most a hundredth of the throughput. Without it, all
    /// times but the total are zero.
    pub measure: bool,
    /// Most seconds, in total, that operators and links may hold back complete results in order to pass on more at
    /// once; computing and waiting for a core come on top. None: as long as sources have samples.
    pub latency: Option<f64>,
    /// Sizes of stages.
    pub stages: StageOptions,
    /// Executes tasks on the workers of a cluster, instead of threads of this process.
    #[serde(skip)]
    pub cluster: Option<&'a dyn TaskCluster>,
    /// Number of the worker, from 0; None in the caller's thread.
    #[serde(skip)]
    pub worker: Option<usize>,
    /// What factory operators share during the execution.
    #[serde(skip)]
    pub shared: Option<&'a Arc<dyn Any + Send + Sync>>,
    /// Memory shared with other threads; None: this execution has all of it.
    #[serde(skip)]
    pub(crate) shared_memory: Option<&'a MemoryHandle>,
    /// The CPUs of the threads; None: not pinned.
    #[serde(skip)]
    pub(crate) pinning: Option<&'a Pinning>,
    /// Bytes of `memory` that links from hosts have.
    #[serde(skip)]
    pub(crate) link_bytes: u64,
    /// Other processes compute blocks of what is received or made here; they do not know its times.
    #[serde(skip)]
    pub(crate) has_slots: bool,
}

/// An operator holds back complete results, then what follows does: each gets its part of the time.
const HOLDERS_PER_STAGE: f64 = 2.0;

impl RunOptions<'_> {
    /// How long each part of an executor may hold back what is complete.
    pub(crate) fn flush_interval(&self) -> Option<Duration> {
        let latency = self.latency?.clamp(0.0, 1e9);
        Some(Duration::from_secs_f64(latency / HOLDERS_PER_STAGE))
    }

    /// All memory but that of links from hosts; at least half.
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
        }
    }
}
