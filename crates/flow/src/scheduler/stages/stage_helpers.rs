//! [`StageHelpers`]: threads that help a stage in the middle of an operator call: what the operator keeps for each key is
//! divided, and each part is updated by one thread at a time.
//!
//! To the queue a helper is a stage that waits for input until the operator divides its work. It may be busy
//! elsewhere: then the operator's thread computes its parts, too.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::fork_join::ForkJoin;
use super::stage_queue::{Notice, StageOutcome, StageQueue};
use super::sync::{AtomicU64, AtomicUsize};
use crate::engine::{DividedWork, PartExecutor, StageOptions};

/// Some microseconds: a part that another thread computes takes about as long as the own ones.
const JOIN_SPINS: usize = 1024;

const TEST_PAUSE: Duration = Duration::from_micros(50);

pub(super) struct StageHelpers {
    pub(super) stage: usize,
    /// The node whose work they share.
    pub(super) node: usize,
    fork: ForkJoin<Arc<dyn DividedWork>>,
    queue: Arc<StageQueue>,
    entries: Range<usize>,
    /// Threads that may work at the same time, the stage's own included.
    replicas: AtomicUsize,
    least_ns: f64,
    /// In tests: helpers come first, however little there is to do.
    leaves_parts: bool,
    /// By helper: parts that it computed.
    parts: Vec<AtomicU64>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl StageHelpers {
    /// `entries`: those of the helpers alone.
    pub(super) fn new(
        stage: usize,
        node: usize,
        entries: Range<usize>,
        queue: &Arc<StageQueue>,
        options: &StageOptions,
    ) -> Self {
        Self {
            stage,
            node,
            fork: ForkJoin::new(JOIN_SPINS),
            queue: Arc::clone(queue),
            replicas: AtomicUsize::new(entries.len() + 1),
            parts: entries.clone().map(|_| AtomicU64::new(0)).collect(),
            entries,
            least_ns: 1e3 * options.divided_us as f64,
            leaves_parts: options.shuffle.is_some(),
            panic: Mutex::new(None),
        }
    }

    pub(super) fn max_replicas(&self) -> usize {
        self.entries.len() + 1
    }

    pub(super) fn set_replicas(&self, replicas: usize) {
        let replicas = replicas.clamp(1, self.max_replicas());
        self.replicas.store(replicas, Ordering::Relaxed);
        for entry in self.entries.clone() {
            self.queue.notify(entry, Notice::Recall);
        }
    }

    /// A burst of a helper, numbered from 0.
    pub(super) fn help(&self, number: usize) -> StageOutcome {
        if number + 1 >= self.replicas.load(Ordering::Relaxed) {
            return StageOutcome::Retired;
        }
        let parts = self.compute_parts();
        self.parts[number].fetch_add(parts, Ordering::Relaxed);
        StageOutcome::Idle
    }

    pub(super) fn parts(&self, number: usize) -> u64 {
        self.parts[number].load(Ordering::Relaxed)
    }

    /// How many.
    fn compute_parts(&self) -> u64 {
        let mut parts = 0;
        while let Some((work, part)) = self.fork.take() {
            let computed = catch_unwind(AssertUnwindSafe(|| work.compute(part)));
            // What the work refers to belongs to the operator alone again when `compute` returns.
            drop(work);
            if let Err(panic) = computed {
                let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(panic);
            }
            self.fork.complete();
            parts += 1;
        }
        parts
    }
}

impl PartExecutor for StageHelpers {
    fn threads(&self) -> usize {
        self.max_replicas()
    }

    fn least_ns(&self) -> f64 {
        self.least_ns
    }

    fn compute(&self, work: Arc<dyn DividedWork>, parts: usize) {
        self.fork.open(work, parts);
        let helpers = self.replicas.load(Ordering::Relaxed).min(parts) - 1;
        for entry in self.entries.clone().take(helpers) {
            self.queue.notify(entry, Notice::Input);
        }
        if self.leaves_parts && helpers > 0 {
            std::thread::sleep(TEST_PAUSE);
        }
        self.compute_parts();
        self.fork.join();
        let mut panic = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(panic) = panic.take() {
            // The operator's error, as in one thread.
            resume_unwind(panic);
        }
    }
}
