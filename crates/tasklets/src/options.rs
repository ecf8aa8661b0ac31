//! Options of an executor.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use isochrony_tune::TuningMode;

use crate::serial_order::OrderPolicy;

/// Options of an execution.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ExecutorOptions {
    /// Worker threads, 1 to 1024.
    pub workers: usize,
    /// Scratch budget: maximum bytes at once.
    pub scratch: u64,
    /// Maximum scratch in memory; the rest goes to files. None: a quarter of the available memory.
    pub scratch_memory: Option<u64>,
    /// Choice among tasklets allowed by dependencies.
    pub order: OrderPolicy,
    /// Maximum bytes read ahead of started tasklets; 0: none.
    pub prefetch: u64,
    /// Runs a single worker on the calling thread, which calls `watch` only between tasklets.
    pub in_caller: bool,
    /// Pins each worker thread, and its worker process, to a CPU.
    pub pin: bool,
    /// Whether other tasklets continue after a failure.
    pub keep_going: bool,
    /// Interval of commits and journal records: the most work that a crash loses.
    pub keep_every: Duration,
    /// None: in the store of the first output.
    pub journal: Option<PathBuf>,
    /// Tunes how many workers take tasklets. No effect on a single worker.
    pub tuning: Option<TuningMode>,
    /// While it is true, tuning does not measure: what calls functions, such as a cluster, is not complete yet.
    pub tuning_pause: Option<Arc<AtomicBool>>,
}

impl Default for ExecutorOptions {
    fn default() -> Self {
        Self {
            workers: 1,
            scratch: 1 << 30,
            scratch_memory: None,
            order: OrderPolicy::Disk,
            prefetch: 32 << 20,
            in_caller: false,
            pin: false,
            keep_going: true,
            keep_every: Duration::from_secs(1),
            journal: None,
            tuning: None,
            tuning_pause: None,
        }
    }
}

/// Must call its argument exactly once.
pub(crate) type ThreadWrapper = fn(&mut (dyn FnMut() + Send));
